"""Write a sorted segment: choose the frames to copy, and copy them in large writes.

Frames are read from their segments straight into aligned memory. From there they are written
directly, slice by slice, without the page cache. If a device refuses direct writes, the cache is
used, with a sync after each slice. Either way no unwritten bytes pile up that a later sync would
have to write at once; the syncs of the log would wait for those. Frames are read, not mapped: if a
disk fails, a read is an error, but a mapping would end the process.

If only some entries of a frame count, the frame is cut to these. The other entries have an earlier
place, or are past the end of a closed ledger. A damaged frame is copied as it is: its entries stay
"unknown", and are never denied.
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

#: The place of the number of entries in a frame, see ``wire.formats.frames``.
_COUNT: Final = struct.Struct(">I")
_COUNT_AT: Final = 32

#: Gives the last entry of a closed ledger (-1: no entry is kept); None: all entries are kept.
EndOf: TypeAlias = Callable[[LedgerId], EntryId | None]


class UnreadableSegmentError(OSError):
    """A frame that should be copied cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A frame in a segment, and the runs of its entries that count."""

    ledger_id: LedgerId
    location: int
    size: int
    runs: tuple[tuple[EntryId, EntryId], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSegment:
    """A sorted segment that is complete and durable; no checkpoint names it yet."""

    number: int
    directory: int
    #: Bytes of its frames.
    size_bytes: int
    #: Sorted by ledger and first entry.
    rows: Sequence[ExtentRow]


def plan(rows: Iterable[ExtentRow], end_of: EndOf) -> list[Copy]:
    """Give the frames to copy, in order; the rows of a ledger are given together and in order."""
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
        """The offset of the next byte in the file."""
        return self._written + self._used

    @property
    def room(self) -> memoryview:
        """The unused part of the present slice."""
        return self._memory[self._used :]

    def took(self, size: int) -> None:
        """Note that the first ``size`` bytes of ``room`` were filled."""
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
        """Write the rest, and make the file durable."""
        size = self.at
        padded = -(-self._used // BLOCK_BYTES) * BLOCK_BYTES
        self._memory[self._used : padded] = bytes(padded - self._used)
        if padded:
            self._file.write(self._written, [self._memory[:padded]])
        self._file.truncate(size)
        self._file.sync()


class Job:
    """The writing of one sorted segment. All calls block, and are made one after the other."""

    def __init__(
        self,
        directories: Directories,
        source: Places,
        log_id: int,
        number: int,
        copies: Sequence[Copy],
        leaves_bytes: int,
    ) -> None:
        """The caller keeps the source segments unchanged until the job is done.

        The job does not begin if it would leave less than ``leaves_bytes`` free.
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
        #: The directory that is written to; None: not begun.
        self.directory: int | None = None

    def step(self) -> int:
        """Copy about a slice, and give its size; 0: all frames were copied."""
        gather = self._gather or self._begin()
        start = gather.at
        while self._next < len(self._copies) and gather.at - start < SLICE_BYTES:
            self._copy(self._copies[self._next], gather)
            self._next += 1
        return gather.at - start

    def finish(self) -> WrittenSegment:
        """Write the table, make the file and its name durable, and give the segment."""
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
        """Remove the file; nothing names it yet."""
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
                f"{space.free_bytes} bytes are free; {size} are needed, and {self._leaves_bytes} "
                "must stay free",
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
        # Missing bytes at the end are damage. Zeros in their place stay damage.
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
    """Say whether all of a frame's entries count; ``runs`` is a part of them, so count them."""
    (count,) = _COUNT.unpack_from(data, _COUNT_AT)
    return bool(sum(last - first + 1 for first, last in copy.runs) == count)


def _cut(data: bytes, copy: Copy) -> bytes:
    """Give the frame of the entries that count; for a damaged frame, its bytes."""
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
