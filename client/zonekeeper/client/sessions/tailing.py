"""Follow a ledger that is still written: one replica sends updates, and the metadata is watched.

A *spell* is one stretch of following one replica. It ends when the replica fails or falls silent,
or when the metadata changes: another ensemble, or the ledger's end. The reader then reads the
metadata again, and begins another spell after the last entry that it gave out.
"""

import asyncio
from contextlib import aclosing
from types import TracebackType
from typing import Final, Self, TypeAlias

from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.sessions.read_session import Reading
from zonekeeper.metadata.formats import ledger_format
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors

#: The replica sends an update at least this often.
QUIET_MS: Final = 5_000
#: The most updates that the reader has not taken yet; then the replica must wait.
UPDATES_MAX: Final = 4

#: An update of the replica; None: the spell is over.
Heard: TypeAlias = service.TailUpdate | None


class Spell:
    """One spell of following; to be used in ``async with``."""

    def __init__(
        self,
        reading: Reading,
        ledger: LedgerMetadata,
        following: EntryId,
        confirmed: EntryId,
        tasks: Tasks,
    ) -> None:
        self._reading = reading
        self._ledger = ledger
        self._following = following
        #: The confirmed end that the reader knew when the spell began.
        self._confirmed = confirmed
        self._tasks = tasks
        self._heard: asyncio.Queue[Heard] = asyncio.Queue()
        self._room = asyncio.Semaphore(UPDATES_MAX)
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for work in (self._listen, self._watch):
            task = self._tasks.start(work())
            task.add_done_callback(lambda _: self._heard.put_nowait(None))
            self._running.append(task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._running:
            task.cancel()

    async def next(self) -> Heard:
        """Wait for the replica's next update; None: the spell is over."""
        heard = await self._heard.get()
        self._room.release()
        return heard

    async def _listen(self) -> None:
        """Follow the replica that is first in the read order."""
        bookie = self._reading.nearest(self._ledger.last_fragment, self._following)
        request = service.TailRequest(
            ledger_id=self._reading.sealer.ledger_id,
            first_entry_id=self._following,
            bytes_max=self._reading.bytes_max,
            quiet_ms=QUIET_MS,
            key=self._reading.key,
        )
        try:
            link = await self._reading.bookies.pool.link(bookie)
            async with aclosing(link.tail(request)) as updates:
                async for update in updates:
                    read_bytes = sum(frame.size_bytes for frame in update.frames)
                    self._reading.bookies.count_read(bookie, read_bytes)
                    await self._room.acquire()
                    self._heard.put_nowait(update)
        except errors.Negative as error:
            # If the fragment has confirmed entries, the replica lags behind. That is noted as a
            # failure, so the next spell asks another replica. Else it has nothing yet, which is no
            # failure.
            if self._confirmed >= self._ledger.last_fragment.first_entry:
                self._reading.report(bookie, error)
        except errors.ProtocolError as error:
            self._reading.report(bookie, error)

    async def _watch(self) -> None:
        """End the spell when the metadata changes, or cannot be watched."""
        cluster = self._reading.bookies.cluster
        path = ledgers.path(cluster, self._reading.sealer.ledger_id)
        try:
            async with cluster.store.watch(path) as states:
                async for state in states:
                    if state is None or ledger_format.parse(state.value) != self._ledger:
                        break
        except* (StoreError, UnreadableError):
            pass  # the reader reads the metadata again after the spell, and gets the error there
