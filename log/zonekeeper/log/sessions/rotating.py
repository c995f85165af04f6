"""The rotation of a log: make the next ledger, and finish the one before.

When a ledger is full, the next one is made and added to the record, while the old one takes writes.
The sending changes over to it (``log_writing``). Then the old ledger is closed, once it has
confirmed everything, and its end is put into the record. Where no next ledger can be had, the
present one goes on.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.sessions.pausing import GrowingPause
from zonekeeper.log.sessions.running import RunningLedger
from zonekeeper.log.sessions.writing_state import WritingState
from zonekeeper.placement.base.troubles import Trouble

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


class Rotation:
    """The rotations of one log, until the writer closes or a ledger fails."""

    def __init__(self, state: WritingState, hear: Callable[[RunningLedger], object]) -> None:
        """``hear``: begin to hear of a ledger's acknowledgements."""
        self._state = state
        self._hear = hear

    async def run(self) -> None:
        """Make each next ledger when the present one is full, and finish the one before."""
        state = self._state
        while True:
            await state.until(lambda: state.ledger.is_full or state.ledger.sealed)
            if state.ledger.sealed or not await self._make_ahead():
                return
            await state.until(lambda: state.old is not None or state.ledger.sealed)
            if state.old is None:
                if state.ahead is not None:
                    await self._keep_trying(partial(state.chain.discard, state.ahead))
                return
            self._hear(state.ledger)
            await self._finish(state.old)

    async def _make_ahead(self) -> bool:
        """Make the next ledger; False: the writer closes, and needs none."""
        state, pause = self._state, GrowingPause()
        while not state.all_sent:
            try:
                state.ahead = await state.chain.make_ahead(state.ledger.id)
            except Trouble as error:
                if not error.retryable and not isinstance(error, client_errors.ClientError):
                    raise
                if isinstance(error, client_errors.ClientClosed):
                    raise
                _logger.warning(
                    "log %s: no next ledger, its last one goes on: %s", state.name, error
                )
                await pause.wait()
            else:
                state.ring()
                return True
        return False

    async def _finish(self, old: RunningLedger) -> None:
        """Close the ledger before the present one, and put its end into the record."""
        state = self._state
        await state.until(lambda: state.is_confirmed(old) and state.told is not old)
        await self._keep_trying(old.writer.close)
        await self._keep_trying(lambda: state.chain.end(old.id, old.tally.end()))
        state.old = None
        state.figures.rotations_total += 1
        state.shown(old.tally.following)

    async def _keep_trying(self, step: Callable[[], Awaitable[Result]]) -> Result:
        """Do a step at the store, however long the store is away."""
        pause = GrowingPause()
        while True:
            try:
                return await step()
            except Trouble as error:
                if not error.retryable:
                    raise
                _logger.warning("log %s: a rotation waits: %s", self._state.name, error)
            await pause.wait()
