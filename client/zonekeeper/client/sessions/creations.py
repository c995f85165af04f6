"""Creating ledgers in the metadata store, so that a creation that is given up leaves no ledger.

The caller of a creation may be cancelled at any time. By then the store may have the ledger, or may
get it from a request that is on its way. So a creation runs as a task of the client's own, which
knows its outcome. If the caller is gone by then, the task deletes the ledger again. It recognises
the ledger by its create token, so it never deletes a ledger of another creator. The end of the
client waits ``SETTLED_S`` for these tasks.

Not promised: if the store gives no answer for that long, or until ``_LOOKS_MAX`` looks have failed,
the ledger may stay. A line of the log then names it. Between the look at the token and the deletion
another client may delete the ledger and make another one under its id; then that one is deleted.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from zonekeeper.client.base.tasks import Tasks
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import ledger_paths
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.troubles import Trouble

#: The end of a client waits at most this long for creations that are under way or given up.
SETTLED_S: Final = 5.0
#: A ledger that may have been created is looked for so many times, with a pause between the looks.
_LOOKS_MAX: Final = 5
_LOOK_AGAIN_S: Final = 1.0

_logger = logging.getLogger(__name__)


class Creations:
    """The creations of one client that are under way."""

    def __init__(self, cluster: Cluster, tasks: Tasks, wall_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._tasks = tasks
        self._wall_ms = wall_ms
        #: A dict, because a set has no fixed order.
        self._running: dict[asyncio.Task[None], None] = {}

    async def create(self, ledger: LedgerMetadata, ledger_id: LedgerId | None) -> StoredLedger:
        """Create a ledger like ``ledgers.create``; cancelled, it leaves none behind."""
        made: asyncio.Future[StoredLedger | Trouble] = asyncio.get_running_loop().create_future()
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        task = self._tasks.start(self._run(ledger, ledger_id, made, taken))
        self._running[task] = None
        task.add_done_callback(lambda _: self._running.pop(task))
        is_taken = False
        try:
            outcome = await made
            is_taken = True
        finally:
            if not taken.done():  # it is, if the client has ended
                taken.set_result(is_taken)
        if isinstance(outcome, Trouble):
            raise outcome
        return outcome

    async def settled(self) -> None:
        """Wait, at most ``SETTLED_S``, until no creation is under way."""
        if self._running:
            await asyncio.wait([*self._running], timeout=SETTLED_S)

    async def _run(
        self,
        ledger: LedgerMetadata,
        ledger_id: LedgerId | None,
        made: "asyncio.Future[StoredLedger | Trouble]",
        taken: "asyncio.Future[bool]",
    ) -> None:
        """Create the ledger; delete it again if nobody takes it."""
        outcome: StoredLedger | Trouble | None = None
        known = False
        try:
            try:
                outcome = await ledgers.create(self._cluster, ledger, ledger_id=ledger_id)
            except Trouble as error:
                outcome = error
            if not made.done():
                made.set_result(outcome)
            if not await taken:
                await self._take_back(outcome, ledger.create_token, ledger_id)
            known = True
        finally:
            if not made.done():  # the client has ended
                made.set_exception(self._tasks.closed(maybe_applied=True))
            elif not known and not (taken.done() and taken.result()):
                _in_doubt(_name(self._cluster, outcome, ledger_id), ledger.create_token, "no time")

    async def _take_back(
        self, outcome: StoredLedger | Trouble, token: int, ledger_id: LedgerId | None
    ) -> None:
        """Delete the ledger that was created, or may have been; a log line tells what is left."""
        if isinstance(outcome, Trouble) and not outcome.maybe_applied:
            return
        found = _name(self._cluster, outcome, ledger_id)
        if found is None:
            _in_doubt(None, token, str(outcome))
            return
        error: Trouble | None = None
        for looks_left in reversed(range(_LOOKS_MAX)):
            try:
                if await self._is_gone(found, token) or isinstance(outcome, StoredLedger):
                    return
                error = None
            except (StoreError, UnreadableError) as failed:
                error = failed
            if looks_left:
                await asyncio.sleep(_LOOK_AGAIN_S)
        if error is not None:
            _in_doubt(found, token, str(error))

    async def _is_gone(self, ledger_id: LedgerId, token: int) -> bool:
        """Delete the ledger if it is ours; False: it is not there."""
        stored = await ledgers.read(self._cluster, ledger_id, sync=True)
        if stored is None:
            return False
        if stored.metadata.create_token == token:
            deleter = Deleter(by="client", at_ms=self._wall_ms())
            await ledgers.delete(self._cluster, ledger_id, deleter, version=stored.version)
            _logger.info("ledger %d was deleted: its creation was given up", ledger_id)
        return True


def _name(
    cluster: Cluster, outcome: StoredLedger | Trouble | None, wanted: LedgerId | None
) -> LedgerId | None:
    """Give the id that a creation used last; None: it is not known."""
    if isinstance(outcome, StoredLedger):
        return outcome.id
    if wanted is None and isinstance(outcome, StoreError):
        return ledger_paths.parse(outcome.path.removeprefix(cluster.root.path))
    return wanted


def _in_doubt(ledger_id: LedgerId | None, token: int, why: str) -> None:
    which = "a ledger" if ledger_id is None else f"ledger {ledger_id}"
    _logger.warning(
        "%s may have been created (create token %d) by a creation that was given up, and could not "
        "be deleted: %s; look for it with `zonekeeper ledger list --long`, and delete it",
        which,
        token,
        why,
    )
