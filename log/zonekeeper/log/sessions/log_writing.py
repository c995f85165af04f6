"""The tasks of a log's writer: send, hear of acknowledgements, tell readers, rotate, settle.

From the change of ledgers on all batches go to the new one, whose opening names the last entry that
was sent to the old one. A message of the new ledger is acknowledged only when all of the old one
is. The old ledger's end is put into the record then, and only behind an end do readers look into
the next ledger. So no reader sees a message that could still be dropped, nothing is in the log
twice, and nothing is out of order.

A ledger that fails does not end the writer. While the record names this writer, the writer recovers
what has no end, sends again exactly what the log turned out not to hold, and goes on in a new
ledger. The writer ends for good when the record names another one.

With deferred sync an ack quorum acknowledges what it has in memory. The messages are kept here
until a force has confirmed them, so a loss of power takes nothing while this writer lives. A ledger
is forced before its end is noted, and before anything of the next one is acknowledged. So a
rotation leaves no doubt, and a recovery has only the last ledger to find, as ever.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.formats import batches
from zonekeeper.log.sessions import pausing
from zonekeeper.log.sessions.pausing import GrowingPause
from zonekeeper.log.sessions.rotating import Rotation
from zonekeeper.log.sessions.running import RunningLedger
from zonekeeper.log.sessions.writing_state import WritingState
from zonekeeper.log.writing import lagging
from zonekeeper.metadata.formats.log_record import LogTaken
from zonekeeper.metadata.store.background import TasksBeside, alongside
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Trouble

#: While so many batches are on their way, messages wait for the next one and fill it.
IN_FLIGHT_MAX: Final = 3
#: The same limit for full batches, which gain nothing by waiting.
FULL_IN_FLIGHT_MAX: Final = 8
_logger = logging.getLogger(__name__)


class LogWriting:
    """The writing of one log."""

    def __init__(self, state: WritingState, wall_ms: Callable[[], int]) -> None:
        self._state = state
        self._wall_ms = wall_ms
        self._last_wall_ms = 0

    async def run(self) -> None:
        """Carry out the writing, until the writer is closed or has lost the log."""
        state = self._state
        try:
            await self._write()
        except Trouble as error:
            state.failure = error
            state.figures.lost_total += isinstance(error, LogTaken)
            state.halt()
        except BaseException:
            state.halt()
            raise
        finally:
            state.end()

    async def _write(self) -> None:
        state = self._state
        while True:
            try:
                async with alongside() as group:

                    def hear(ledger: RunningLedger, group: TasksBeside = group) -> None:
                        group.create_task(self._hear(ledger))
                        if lagging.pause_ms(ledger.rules) is not None:
                            group.create_task(self._watch(ledger))
                        if state.chain.deferred_sync:
                            group.create_task(self._force(ledger))

                    group.create_task(self._send())
                    group.create_task(self._tell())
                    group.create_task(Rotation(state, hear).run())
                    hear(state.ledger)
                await state.ledger.writer.close()
            except client_errors.ClientError as error:
                # What becomes of it is for the settling to say, and for the record.
                _logger.warning("log %s: its ledgers are settled: %s", state.name, error)
                state.figures.settlings_total += 1
                state.halt()
            if not await self._advance():
                return

    async def _advance(self) -> bool:
        """Settle the ledgers, and begin the next one; False: the writer is closing, and is done."""
        state, pause = self._state, GrowingPause()
        while True:
            try:
                await state.chain.settle()
                state.settled()
                if state.all_sent:
                    await state.chain.release()
                    return False
                next_ledger = await state.chain.next_ledger()
            except Trouble as error:
                if not error.retryable and not isinstance(error, client_errors.WriterStopped):
                    raise
                _logger.warning("log %s: its next ledger waits: %s", state.name, error)
                await pause.wait()
            else:
                state.begin(state.running(next_ledger, state.chain.next_sequence))
                return True

    async def _send(self) -> None:
        """Send what is pending, until the writer closes; change ledgers when the next one is there.

        Only this task sends, and it alone changes the ledger: so what was sent to a ledger before
        the change is all that it ever gets.
        """
        state = self._state
        while True:
            while self._may_send:
                await self._change()
                await self._send_one()
            if state.all_sent:
                state.ledger.sealed = True
                state.ring()
                return
            await self._change()
            await state.until(self._has_to_do)

    def _has_to_do(self) -> bool:
        """Is there something to send, a ledger to go on in, or nothing more to come?"""
        return self._state.ahead is not None or self._may_send or self._state.all_sent

    @property
    def _may_send(self) -> bool:
        unsent = self._state.unsent
        most = FULL_IN_FLIGHT_MAX if unsent.has_full else IN_FLIGHT_MAX
        return unsent.has_unsent and unsent.in_flight(self._state.ledger.id) < most

    async def _change(self) -> None:
        """Go on in the ledger that was made ahead, if there is one."""
        state = self._state
        if state.ahead is None:
            return
        old = state.ledger
        opening = state.chain.opening(old.tally.following, old.tally.predecessor)
        await state.ahead.append(opening)
        ledger = state.running(state.ahead, old.tally.following)
        state.ahead, state.old, old.sealed = None, old, True
        state.begin(ledger)

    async def _send_one(self) -> None:
        state = self._state
        self._last_wall_ms = max(self._last_wall_ms, self._wall_ms())
        batch, tally = state.unsent.take(), state.ledger.tally
        raw = batches.build(batch.many, place=batch.first - tally.first, wall_ms=self._last_wall_ms)
        try:
            entry = await state.ledger.writer.append(raw)
        except BaseException:
            state.unsent.put_back(batch)
            raise
        state.unsent.sent(batch, state.ledger.id, entry)
        state.ledger.lagging.sent(entry, size_bytes=len(raw), now_ms=self._now_ms)
        tally.sent(entry, messages=len(batch.many), size_bytes=len(raw), wall_ms=self._last_wall_ms)
        state.ring()

    async def _hear(self, ledger: RunningLedger) -> None:
        """Hear of a ledger's acknowledgements, until it has written all that it will get."""
        state = self._state
        first_sent = partial(state.unsent.first_sent, ledger.id)
        while True:
            await state.until(lambda: first_sent() is not None or state.is_written(ledger))
            if (entry := first_sent()) is None:
                return
            await ledger.writer.flushed(entry)
            state.unsent.written(ledger.id, entry)
            self._confirmed(ledger)

    async def _watch(self, ledger: RunningLedger) -> None:
        """Give up members that lag too far, until the ledger has confirmed all that it will get.

        The client's writer has another bookie take the place of a laggard. If there is none, and
        the log has a minimum of quorums, the ledger is rotated. Without a minimum, a member that
        the ledger cannot do without stays.
        """
        state = self._state
        pause_s = (lagging.pause_ms(ledger.rules) or 0) / 1_000
        ledger.lagging.seated(ledger.writer.ensemble, self._now_ms)
        while True:
            await state.until(lambda: ledger.lagging.is_watched or state.is_confirmed(ledger))
            if state.is_confirmed(ledger):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await state.until(lambda: state.is_confirmed(ledger))
            if state.chain.is_lacking(ledger.writer.ensemble):
                ledger.lags = ledger.rules.minimum is not None and not state.chain.is_downgraded
                state.ring()
            ledger.lagging.seated(ledger.writer.ensemble, self._now_ms)
            for bookie in ledger.lagging.laggards(ledger.writer.behind, self._now_ms):
                if state.chain.can_lack(ledger.writer, bookie):
                    self._give_up(ledger, bookie)

    def _give_up(self, ledger: RunningLedger, bookie: BookieId) -> None:
        """Give a member up.

        A doubted one stays: it says that it has lost the ledger, and metadata must say if that was
        deleted. A member without a successor is tried again, and given up again. It counts once.
        """
        state = self._state
        ledger.writer.give_up(
            bookie, f"it is behind in log {state.name} by more than the log's rules allow"
        )
        if bookie in ledger.writer.behind or state.chain.is_lacking([bookie]):
            return
        _logger.warning("log %s: %s is given up in ledger %d", state.name, bookie, ledger.id)
        state.chain.lacks(bookie)
        state.figures.laggards_total += 1

    @property
    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    async def _force(self, ledger: RunningLedger) -> None:
        """Have a ledger forced when that is wanted, until it has confirmed all that it will get."""
        state = self._state
        while True:
            await state.until(lambda: state.must_force(ledger) or state.is_confirmed(ledger))
            if state.is_confirmed(ledger):
                return
            await ledger.writer.force()
            self._confirmed(ledger)

    def _confirmed(self, ledger: RunningLedger) -> None:
        self._state.unsent.confirmed(ledger.id, ledger.writer.last_confirmed)
        self._state.progressed()

    async def _tell(self) -> None:
        """Make readers see what calls wait for, until the last ledger has confirmed all.

        Of the present ledger they see nothing while the one before has no end in the record.
        """
        state = self._state
        while True:
            await state.until(
                lambda: state.is_confirmed(state.ledger) or state.visible < self._to_tell
            )
            if state.is_confirmed(state.ledger):
                return
            ledger, upto = state.old or state.ledger, self._to_tell
            state.told = ledger
            try:
                await ledger.writer.tell_confirmed()
            except client_errors.LacNotTold as error:
                _logger.warning("log %s: %s", state.name, error)
                await asyncio.sleep(pausing.PAUSE_S)
            else:
                state.shown(upto)
            finally:
                state.told = None
                state.ring()

    @property
    def _to_tell(self) -> int:
        """What a call waits for, and could be told now: messages below this sequence."""
        state = self._state
        wanted = min(state.wanted, state.unsent.acked)
        if state.old is None:
            return wanted
        if state.is_confirmed(state.old):
            return state.visible  # it is being closed, and readers will see all of it
        return min(wanted, state.old.tally.following)
