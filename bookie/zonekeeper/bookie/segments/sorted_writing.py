"""Writing a sorted segment: which frames to copy, and copying them, in large writes.

Frames go from their segments straight into aligned memory, and from there to the disk past the page
cache, one slice after the other; where a device refuses that, through the cache with a sync behind
each slice. Either way nothing piles up that a later sync would have to write all at once, which the
writer's own syncs would wait for. They are read, not mapped: where a disk fails, a mapping would
end the process and a read is an error.

A frame of which only some entries count (others came before, or are past the end of a closed
ledger) is cut to them. One that is damaged is copied as it is: its entries stay "unknown", and are
never denied.
"""

import errno
import mmap
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.bookie.disk.files import BLOCK_BYTES, SHORTAGES, File
from zonekeeper.bookie.formats import locations, sorted_format
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.index import ExtentRow
from zonekeeper.bookie.ledgers.extents import Extent, runs
from zonekeeper.bookie.segments.directories import Directories, name_of
from zonekeeper.bookie.segments.places import Places
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import frames
from zonekeeper.wire.formats.errors import FormatError

SLICE_BYTES: Final = 1 << 20

#: Where ``wire.frames`` puts the number of a frame's entries.
_COUNT: Final = struct.Struct(">I")
_COUNT_AT: Final = 32

#: Gives the last entry of a closed ledger (-1: nothing of it is kept); None: keep everything.
EndOf: TypeAlias = Callable[[LedgerId], EntryId | None]


class UnreadableSegmentError(OSError):
    """What should have been copied cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A frame in a segment, and those of its entries that count."""

    ledger_id: LedgerId
    location: int
    size: int
    runs: tuple[tuple[EntryId, EntryId], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSegment:
    """A sorted segment that is whole and durable, and that nothing counts on yet."""

    number: int
    directory: int
    #: Bytes of its frames.
    size_bytes: int
    #: By ledger and entry.
    rows: Sequence[ExtentRow]


def plan(rows: Iterable[ExtentRow], end_of: EndOf) -> list[Copy]:
    """Say which frames to copy, in order; the rows of a ledger follow each other in order."""
    by_frame: dict[tuple[LedgerId, int, int], list[tuple[EntryId, EntryId]]] = {}
    for ledger_id, extent in rows:
        end = end_of(ledger_id)
        last = extent.last if end is None else min(extent.last, end)
        if last < extent.first:
            continue
        key = (ledger_id, extent.offset, extent.size)
        by_frame.setdefault(key, []).append((extent.first, EntryId(last)))
    return [
        Copy(ledger_id=ledger_id, location=offset, size=size, runs=tuple(found))
        for (ledger_id, offset, size), found in by_frame.items()
    ]


class _Gather:
    """A file that is written from its beginning, in aligned slices."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._memory = memoryview(mmap.mmap(-1, SLICE_BYTES))
        self._written = self._used = 0

    @property
    def at(self) -> int:
        """Where the next byte goes."""
        return self._written + self._used

    @property
    def room(self) -> memoryview:
        """What is left of the present slice."""
        return self._memory[self._used :]

    def took(self, size: int) -> None:
        """Keep the first bytes of ``room``."""
        self._used += size
        if self._used == len(self._memory):
            self._file.write(self._written, [self._memory])
            if not self._file.is_direct:
                self._file.sync()
            self._written, self._used = self.at, 0

    def put(self, data: bytes) -> None:
        """Add bytes."""
        view = memoryview(data)
        while view:
            some = view[: len(self.room)]
            self.room[: len(some)] = some
            self.took(len(some))
            view = view[len(some) :]

    def end(self) -> None:
        """Write what is left, and make all of it durable."""
        size = self.at
        padded = -(-self._used // BLOCK_BYTES) * BLOCK_BYTES
        self._memory[self._used : padded] = bytes(padded - self._used)
        if padded:
            self._file.write(self._written, [self._memory[:padded]])
        self._file.truncate(size)
        self._file.sync()


class Job:
    """The writing of one sorted segment; all calls block, and come one after the other."""

    def __init__(
        self,
        directories: Directories,
        source: Places,
        log_id: int,
        number: int,
        copies: Sequence[Copy],
        leaves_bytes: int,
    ) -> None:
        """The segments that are copied from stay as they are as long as this is worked on.

        It does not begin where less than ``leaves_bytes`` would be left free.
        """
        self._directories = directories
        self._source = source
        self._log_id = log_id
        self._number = number
        self._copies = copies
        self._leaves_bytes = leaves_bytes
        self._next = 0
        self._rows: list[ExtentRow] = []
        self._file: File | None = None
        self._gather: _Gather | None = None
        #: Where it is written; None: not begun.
        self.directory: int | None = None

    def step(self) -> int:
        """Write about a slice, and give its size; 0: everything was taken."""
        gather = self._gather or self._begin()
        start = gather.at
        while self._next < len(self._copies) and gather.at - start < SLICE_BYTES:
            self._copy(self._copies[self._next], gather)
            self._next += 1
        return gather.at - start

    def finish(self) -> WrittenSegment:
        """Write the table, make file and name durable, and give what was written."""
        file, gather, directory = self._file, self._gather, self.directory
        assert file is not None, "it was begun"
        assert gather is not None
        assert directory is not None
        self._rows.sort(key=lambda row: (row.ledger_id, row.extent.first))
        size = gather.at - sorted_format.HEADER_BYTES
        table_at = gather.at
        gather.put(sorted_format.table_and_footer(self._log_id, self._number, table_at, self._rows))
        gather.end()
        file.close()
        self._directories.sync_names(directory)
        return WrittenSegment(
            number=self._number, directory=directory, size_bytes=size, rows=self._rows
        )

    def discard(self) -> None:
        """Remove what was written; nothing counts on it."""
        if self._file is not None:
            self._file.close()
            self._directories.remove(self._number)

    def _begin(self) -> _Gather:
        self.directory, space = self._directories.roomiest()
        head = sorted_format.header(self._log_id, self._number)
        size = len(head) + sum(copy.size for copy in self._copies)
        if space.free_bytes < size + self._leaves_bytes:
            raise OSError(
                errno.ENOSPC,
                f"of {space.free_bytes} bytes that are free {self._leaves_bytes} are to be left, "
                f"and {size} are needed",
                name_of(self._number),
            )
        self._file = self._directories.create(self.directory, self._number)
        self._file.allocate(size)
        gather = self._gather = _Gather(self._file)
        gather.put(head)
        return gather

    def _copy(self, copy: Copy, gather: _Gather) -> None:
        at, size = gather.at, copy.size
        if size < len(gather.room):
            self._read_into(copy, gather.room[:size])
            if _is_whole(gather.room[:size], copy):
                gather.took(size)
            else:
                data = _cut(bytes(gather.room[:size]), copy)
                size = len(data)
                gather.put(data)
        else:
            whole = bytearray(size)
            self._read_into(copy, memoryview(whole))
            data = bytes(whole) if _is_whole(whole, copy) else _cut(bytes(whole), copy)
            size = len(data)
            gather.put(data)
        where = locations.location(locations.sorted_key(self._number), at)
        self._rows += [
            ExtentRow(copy.ledger_id, Extent(first, last, where, size)) for first, last in copy.runs
        ]

    def _read_into(self, copy: Copy, into: memoryview) -> None:
        try:
            got = self._source.read_into(copy.location, into)
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            raise UnreadableSegmentError(
                f"ledger {copy.ledger_id}, entry {copy.runs[0][0]} cannot be copied: {error}"
            ) from error
        # What is missing at the end is damage, and stays it.
        into[got:] = bytes(len(into) - got)


def read_rows(file: File, log_id: int, number: int) -> list[ExtentRow]:
    """Read the table of a sorted segment; raises ``DamagedLogError`` or ``OSError``. Blocks."""
    try:
        size = file.size()
        data = file.read(max(0, size - sorted_format.FOOTER_BYTES), sorted_format.FOOTER_BYTES)
        footer = sorted_format.parse_footer(data, log_id, number, size)
        table = file.read(footer.table_at, size - footer.table_at)
        return sorted_format.parse_table(table, number)
    except FormatError as fault:
        raise DamagedLogError(
            f"the table of {name_of(number)!r} is damaged ({fault}): restore the disk, or remove "
            "this bookie, start it anew, and let its ledgers be repaired"
        ) from fault


def rows_of(directories: Directories, log_id: int, number: int) -> list[ExtentRow]:
    """Find a sorted segment, and read its table; raises as ``read_rows``. Blocks."""
    file = directories.open(number)
    try:
        return read_rows(file, log_id, number)
    finally:
        file.close()


def _is_whole(data: memoryview | bytearray, copy: Copy) -> bool:
    """Say whether all of a frame's entries count; they are the frame's, so that is a number."""
    (count,) = _COUNT.unpack_from(data, _COUNT_AT)
    return bool(sum(last - first + 1 for first, last in copy.runs) == count)


def _cut(data: bytes, copy: Copy) -> bytes:
    """Give the frame of the entries that count; of a damaged one, its bytes."""
    try:
        frame = frames.parse(data)
    except FormatError:
        return data
    if copy.runs == tuple(runs(frame.entry_ids)):
        return data
    wanted = {
        entry_id
        for entry_id in frame.entry_ids
        if any(first <= entry_id <= last for first, last in copy.runs)
    }
    part = frame.subset(wanted)
    assert part is not None, "a copy has entries"
    return part.data()
