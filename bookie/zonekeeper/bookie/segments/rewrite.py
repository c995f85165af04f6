"""Write once, sort later: what lives in sealed arrival segments goes to a sorted segment.

A round takes the oldest sealed segments, gathers what the memory's extents say is in them, ordered
by ledger and entry, and copies those frames one behind the other. A frame of which only some
entries count (others came before, or are past the end of a closed ledger) is cut to them. A ledger
that is gone costs nothing. A frame that is damaged is copied as it is: its entries stay "unknown",
and are never denied.

The order of a round is what makes it safe at every point, and no step begins before the last one
is on the disk:

1. the sorted segment, with its table and its name;
2. the checkpoint, which names it, moves the mark, and holds the ledger state: now the arrival
   segments are not needed by any start;
3. the index: now they are not needed by any reader that begins;
4. when the last reader that began before has ended, they are recycled.

It works in slices and, unless free segments run short, at a pace that leaves the device to the
writer.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from zonekeeper.bookie.extents import Extent, runs
from zonekeeper.bookie.files import File, FileSystem
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import locations, sorted_format
from zonekeeper.bookie.segments.arrival_scan import DamagedLogError
from zonekeeper.bookie.segments.arrivals import Arrivals
from zonekeeper.bookie.segments.checkpoint import Checkpoint
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.index import Row
from zonekeeper.bookie.segments.memory import Memory
from zonekeeper.bookie.segments.places import Places
from zonekeeper.placement.ids import EntryId, LedgerId
from zonekeeper.wire import frames
from zonekeeper.wire.errors import FormatError

PREFIX: Final = "sorted-"

#: A round begins with so many sealed segments, sorted together for locality, or when it must.
ROUND_SEGMENTS: Final = 4
ROUND_SEGMENTS_MAX: Final = 16
SLICE_BYTES: Final = 1 << 20
#: With fewer segments in reach of the writer, a round does not pause.
HURRY_IN_REACH: Final = 4
BYTES_PER_SECOND: Final = 120 << 20
#: Extents that are gathered before the event loop is let go on.
_GATHER: Final = 2_000
_FULL_DELAY_MS: Final = 1_000

#: Gives the last entry of a closed ledger (-1: nothing of it is kept); None: keep everything.
EndOf: TypeAlias = Callable[[LedgerId], EntryId | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A frame in an arrival segment, and those of its entries that count."""

    ledger_id: LedgerId
    location: int
    size: int
    runs: tuple[tuple[EntryId, EntryId], ...]


def keep_all(ledger_id: LedgerId) -> EntryId | None:
    """Know of no ledger that it is closed."""
    del ledger_id
    return None


def plan(rows: Iterable[Row], end_of: EndOf) -> list[Copy]:
    """Say which frames to copy, in order; the rows of a ledger follow each other in order."""
    by_frame: dict[tuple[LedgerId, int], Copy] = {}
    for ledger_id, extent in rows:
        end = end_of(ledger_id)
        last = extent.last if end is None else min(extent.last, end)
        if last < extent.first:
            continue
        key = (ledger_id, extent.offset)
        before = by_frame[key].runs if key in by_frame else ()
        by_frame[key] = Copy(
            ledger_id=ledger_id,
            location=extent.offset,
            size=extent.size,
            runs=(*before, (extent.first, EntryId(last))),
        )
    return list(by_frame.values())


def name_of(number: int) -> str:
    """Give the name of a sorted segment's file."""
    return f"{PREFIX}{number:08}"


class Job:
    """The writing of one sorted segment; all calls block, and come one after the other."""

    def __init__(
        self, files: FileSystem, source: Places, log_id: int, number: int, copies: Sequence[Copy]
    ) -> None:
        self._files = files
        self._source = source
        self._log_id = log_id
        self._number = number
        self._copies = copies
        self._next = 0
        self._file: File | None = None
        self._at = 0
        self._rows: list[Row] = []

    def step(self) -> int:
        """Write about a slice, durably, and give its size; 0: everything was written."""
        if self._file is None:
            self._file = self._files.create(name_of(self._number))
            head = sorted_format.header(self._log_id, self._number)
            self._file.allocate(len(head) + sum(copy.size for copy in self._copies))
            self._write(self._file, [head])
        data: list[bytes] = []
        size = 0
        while self._next < len(self._copies) and size < SLICE_BYTES:
            data.append(self._copied(self._copies[self._next], self._at + size))
            size += len(data[-1])
            self._next += 1
        if size:
            self._write(self._file, data)
            self._file.sync()
        return size

    def finish(self) -> list[Row]:
        """Write the table, make file and name durable, and give the rows, in order."""
        file = self._file
        assert file is not None, "it was written"
        self._rows.sort(key=lambda row: (row.ledger_id, row.extent.first))
        table = sorted_format.table_and_footer(self._log_id, self._number, self._at, self._rows)
        self._write(file, [table])
        file.truncate(self._at)
        file.sync()
        file.close()
        self._files.sync_names()
        return self._rows

    def discard(self) -> None:
        """Remove what was written; nothing counts on it."""
        if self._file is not None:
            self._file.close()
            self._files.remove(name_of(self._number))

    def _write(self, file: File, data: Sequence[bytes]) -> None:
        file.write(self._at, data)
        self._at += sum(map(len, data))

    def _copied(self, copy: Copy, at: int) -> bytes:
        data = self._source.read(copy.location, copy.size)
        try:
            data = _cut(data, copy)
        except FormatError:
            # Damaged since it was written: it stays so, and its readers are told.
            data = data.ljust(copy.size, b"\0")
        where = locations.location(locations.sorted_key(self._number), at)
        self._rows += [
            Row(copy.ledger_id, Extent(first, last, where, len(data))) for first, last in copy.runs
        ]
        return data


class Rewriter:
    """Does rounds, on an event loop."""

    def __init__(
        self,
        devices: Devices,
        *,
        memory: Memory,
        arrivals: Arrivals,
        source: Places,
        last: Checkpoint,
        end_of: EndOf,
    ) -> None:
        """``last`` is the checkpoint on the disk; its ledgers are the memory's business now."""
        self._files = devices.files
        self._disk = devices.background
        self._memory = memory
        self._arrivals = arrivals
        self._source = source
        self._index = devices.index
        self._last = replace(last, ledgers={})
        self._end_of = end_of

    async def run(self) -> None:
        """Do rounds for ever; raises ``OSError``, after which nothing may be tried again."""
        while True:
            await self._arrivals.wait_for_sealed(ROUND_SEGMENTS)
            await self.round()

    async def round(self) -> None:
        """Rewrite the oldest sealed segments."""
        generations = list(self._arrivals.sealed)[:ROUND_SEGMENTS_MAX]
        through = generations[-1]
        copies = plan(await self._gather(through), self._end_of)
        number = self._last.next_sorted
        rows = await self._write(number, copies) if copies else []
        last = await self._commit(through, number if rows else None)
        if rows:
            await self._disk.run(lambda: self._index.add(number, rows))
        for entries in self._memory.touched_through(through):
            entries.sorted_through(through)
        self._memory.forget_touched(through)
        self._last = last
        await self._source.drop_arrivals(generations)
        self._arrivals.recycle(through)

    async def _gather(self, through: int) -> list[Row]:
        """Give what is in the segments, by ledger and entry; nothing is added to them any more."""
        rows: list[Row] = []
        looked_at = 0
        for entries in self._memory.touched_through(through):
            start: int | None = 0
            while start is not None:
                found, start = entries.arrived(through, start, _GATHER)
                rows += [Row(entries.ledger_id, extent) for extent in found]
                looked_at += len(found) + 1
                if looked_at >= _GATHER:
                    looked_at = 0
                    await asyncio.sleep(0)
        return rows

    async def _write(self, number: int, copies: Sequence[Copy]) -> list[Row]:
        while True:
            job = Job(self._files, self._source, self._last.log_id, number, copies)
            try:
                size = await self._disk.run(job.step)
                while size:
                    await asyncio.sleep(self._pause_s(size))
                    size = await self._disk.run(job.step)
                return await self._disk.run(job.finish)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                # Nothing counts on the file. The writer stops when it has no segment left, and
                # goes on when there is room again.
                await self._disk.run(job.discard)
                await asyncio.sleep(_FULL_DELAY_MS / 1_000)

    async def _commit(self, through: int, number: int | None) -> Checkpoint:
        """Replace the checkpoint; the memory's ledger state is that of the mark, or newer."""
        last, mark = self._last, self._arrivals.sealed[through].last
        assert mark > last.mark, "the mark moves forward"
        added = () if number is None else (number,)
        new = replace(
            last,
            mark=mark,
            next_sorted=last.next_sorted + len(added),
            sorted_numbers=(*last.sorted_numbers, *added),
            read_only=self._memory.read_only,
        )
        ledgers = self._memory.states()
        await self._disk.run(
            lambda: checkpoints.save(
                self._files, replace(new, ledgers=checkpoints.kept_of(ledgers))
            )
        )
        return new

    def _pause_s(self, size: int) -> float:
        if self._arrivals.in_reach < HURRY_IN_REACH:
            return 0
        return size / BYTES_PER_SECOND


def read_rows(files: FileSystem, log_id: int, number: int) -> list[Row]:
    """Read the table of a sorted segment; raises ``DamagedLogError`` or ``OSError``. Blocks."""
    file = files.open(name_of(number))
    try:
        size = file.size()
        data = file.read(max(0, size - sorted_format.FOOTER_BYTES), sorted_format.FOOTER_BYTES)
        footer = sorted_format.parse_footer(data, log_id, number, size)
        table = file.read(footer.table_at, size - footer.table_at)
        return sorted_format.parse_table(table, number)
    except FormatError as fault:
        raise DamagedLogError(
            f"the table of {name_of(number)!r} is damaged ({fault}), and the index has lost it: "
            "restore the disk, or remove this bookie, start it anew, and let its ledgers be "
            "repaired"
        ) from fault
    finally:
        file.close()


def _cut(data: bytes, copy: Copy) -> bytes:
    """Give the frame of the entries that count; raises ``FormatError``."""
    frame = frames.parse(data)
    if copy.runs == tuple(runs(frame.entry_ids)):
        return data
    wanted = [
        entry_id
        for entry_id in frame.entry_ids
        if any(first <= entry_id <= last for first, last in copy.runs)
    ]
    part = frame.subset(frozenset(wanted))
    assert part is not None, "a copy has entries"
    return part.data()
