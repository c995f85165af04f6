"""The probe of a drill: it writes, reads back, and looks at the zone that goes away.

One entry is written after the other, so the time between two acknowledgements is the time for which
a writer stands still. An append that fails ends its ledger, and the next entry is of another one:
what was not acknowledged may be there or not. Every acknowledged entry is read back, soon after it
was written and once more at the end. An entry that no bookie has, or that says something else, is
lost: the probe ends at once.

The probe ends well when the zone was away and is back, and all is read back. A process that is told
to stop ends without a word. Its ledgers are deleted at the end; those of one that is killed stay,
and their custom metadata say that they are a probe's.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.metadata.bookies import bookie_watch, cookie_store
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.operator.probe.probe_figures import NAMED_MAX, ProbeFigures
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.troubles import Trouble

#: Between an acknowledgement and the next entry.
PAUSE_MS: Final = 50
#: An append that has no acknowledgement for so long has failed.
APPEND_MS_MAX: Final = 60_000
#: So often the zone is looked at, and what was written is read back.
LOOK_MS: Final = 200
READ_MS: Final = 2_000
#: A ledger gets no more entries than this.
ENTRIES_MAX: Final = 10_000
#: What cannot be read at the end is tried again for so long.
LAST_READ_MS_MAX: Final = 60_000
#: The key of the custom metadata of a probe's ledgers.
CUSTOM: Final = "zonekeeper-probe"


class LostEntryError(Trouble):
    """An acknowledged entry is gone."""


class NoZoneError(Trouble):
    """The zone cannot be drilled; the message says why."""


class Probe:
    """One probe, of one drill."""

    def __init__(self, client: Client, zone: ZoneName, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._zone = zone
        self._now_ms = now_ms
        self.figures = ProbeFigures()
        #: Is set once the first entry is acknowledged.
        self.writes: Final = asyncio.Event()
        #: The number of acknowledged entries of each ledger, from the first on.
        self._acknowledged: dict[LedgerId, int] = {}
        #: The number of them that were read back.
        self._read: dict[LedgerId, int] = {}
        self._last_ms: int | None = None
        self._away_ms: int | None = None
        self._is_over = asyncio.Event()

    async def run(self) -> None:
        """Probe until the zone was away and is back; raises ``LostEntryError``."""
        bookies = await self._bookies()
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._write())
            reading = tasks.create_task(self._read_on())
            await self._watch(bookies)
            self._is_over.set()
            await writing
            reading.cancel()
        await self._read_all()
        for ledger in self._acknowledged:
            with suppress(errors.ClientError):
                await self._client.delete(ledger)

    # writing

    async def _write(self) -> None:
        writer: Writer | None = None
        while not self._is_over.is_set():
            try:
                if writer is None:
                    writer = await self._client.create(custom={CUSTOM: self._zone.encode()})
                    self._acknowledged[writer.ledger_id] = 0
                number = self._acknowledged[writer.ledger_id]
                data = payload(writer.ledger_id, number)
                entry = await writer.append_and_wait(data, timeout=APPEND_MS_MAX / 1_000)
                assert entry == number, "the writer is ours alone"
                self._acknowledge(writer.ledger_id)
                if number + 1 == ENTRIES_MAX:
                    await self._closed(writer)
                    writer = None
            except errors.ClientError:
                if not self.writes.is_set():
                    raise  # What cannot write at all says so at once.
                self.figures = replace(self.figures, failed=self.figures.failed + 1)
                if writer is not None:
                    writer.halt()
                writer = None
            await asyncio.sleep(PAUSE_MS / 1_000)
        if writer is not None:
            await self._closed(writer)

    async def _closed(self, writer: Writer) -> None:
        with suppress(errors.ClientError):
            await writer.close(timeout=APPEND_MS_MAX / 1_000)

    def _acknowledge(self, ledger: LedgerId) -> None:
        now_ms, found = self._now_ms(), self.figures
        self._acknowledged[ledger] += 1
        stall = 0 if self._last_ms is None else now_ms - self._last_ms
        before = found.before if self._away_ms is not None else max(found.before, stall)
        self._last_ms = now_ms
        self.writes.set()
        self.figures = replace(
            found,
            acknowledged=found.acknowledged + 1,
            stall=max(found.stall, stall),
            before=before,
        )

    # reading back

    async def _read_on(self) -> None:
        """Read back what is new, again and again; what cannot be read now is read later."""
        while True:
            await asyncio.sleep(READ_MS / 1_000)
            for ledger, count in list(self._acknowledged.items()):
                first = self._read.get(ledger, 0)
                if first < count:
                    with suppress(errors.ClientError):
                        await self._read_back(ledger, first, count)
                        self._read[ledger] = count

    async def _read_all(self) -> None:
        """Read everything once more."""
        until_ms = self._now_ms() + LAST_READ_MS_MAX
        for ledger, count in self._acknowledged.items():
            while count:
                try:
                    await self._read_back(ledger, 0, count)
                    break
                except errors.ClientError as error:
                    if self._now_ms() >= until_ms:
                        raise LostEntryError(
                            f"ledger {ledger}: {count} acknowledged entries cannot be read "
                            f"{LAST_READ_MS_MAX // 1_000} s after the zone is back: {error}"
                        ) from error
                await asyncio.sleep(LOOK_MS / 1_000)

    async def _read_back(self, ledger: LedgerId, first: int, count: int) -> None:
        """Read the acknowledged entries from ``first`` to ``count - 1``."""
        async with self._client.open(ledger, recover=False) as reader:
            missing = await self._missing(reader, first, count)
        if missing:
            self.figures = replace(self.figures, lost=len(missing))
            named = ", ".join(map(str, missing[:NAMED_MAX]))
            raise LostEntryError(
                f"ledger {ledger}: acknowledged entries are gone or changed: {named} "
                f"({len(missing)} of {count}); {self.figures}"
            )

    async def _missing(self, reader: Reader, first: int, count: int) -> list[int]:
        """Name the entries that are not as they were written."""
        found: dict[int, bytes] = {}
        try:
            async for batch in reader.read_unconfirmed(first, count - 1):
                found |= {entry.entry_id: bytes(entry.payload) for entry in batch}
        except errors.EntryLost as error:
            missing = [one for one in range(first, count) if one not in found]
            raise LostEntryError(
                f"ledger {reader.ledger_id}: acknowledged entries from {missing[0]} on: {error}"
            ) from error
        return [
            one for one in range(first, count) if found.get(one) != payload(reader.ledger_id, one)
        ]

    # the zone

    async def _bookies(self) -> frozenset[BookieId]:
        cluster, found = self._client.cluster, set[BookieId]()
        for bookie in await cookie_store.ids(cluster):
            with suppress(UnreadableError):
                stored = await cookie_store.read(cluster, bookie)
                where = None if stored is None else stored.cookie.location
                if where is not None and where.zone == self._zone:
                    found.add(bookie)
        if not found:
            raise NoZoneError(f"no bookie has a cookie of zone {self._zone}")
        return frozenset(found)

    async def _watch(self, bookies: frozenset[BookieId]) -> None:
        """Look until the zone was away, is back, and is not held any more."""
        while self.figures.open_after is None:
            await asyncio.sleep(LOOK_MS / 1_000)
            try:
                registered = await bookie_watch.registrations(self._client.cluster)
                record = await zone_store.read_zone(self._client.cluster, self._zone)
            except (StoreError, UnreadableError):
                continue
            is_held = record is not None and not record.gate.permits
            self._look(len(bookies - registered.keys()), len(bookies), is_held=is_held)

    def _look(self, missing: int, count: int, *, is_held: bool) -> None:
        now_ms, found = self._now_ms(), self.figures
        if self._away_ms is None:
            if not missing:
                return
            self._away_ms = now_ms
        since_ms = now_ms - self._away_ms
        if found.gone_after is None and missing == count:
            found = replace(found, gone_after=since_ms)
        if found.held_after is None and is_held:
            found = replace(found, held_after=since_ms)
        if found.gone_after is not None and not missing:
            back_after = since_ms if found.back_after is None else found.back_after
            found = replace(found, back_after=back_after)
            if not is_held:
                found = replace(found, open_after=since_ms)
        self.figures = found


def payload(ledger: LedgerId, entry: int) -> bytes:
    """Give what the probe writes as this entry: no other entry has the same."""
    return f"probe {ledger}/{entry} ".encode().ljust(1_024, b".")
