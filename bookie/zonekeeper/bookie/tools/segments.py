"""A segment file, part by part: its good parts and its damaged ones, each with its offset.

A frame is checked by its checksum. Its entries are checked by their digests, if the ledger's kind
of digest is known and needs no password. After damage the later parts are still read. This module
does not decide whether a bad part matters. After the last good batch of an arrival segment there
may be any bytes from an earlier use of the file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.bookie.disk.files import SHORTAGES, File
from zonekeeper.bookie.formats import batch_format, locations, sorted_format
from zonekeeper.bookie.formats.batch_format import BatchHeader
from zonekeeper.bookie.formats.index import ExtentRow
from zonekeeper.bookie.ledgers import records
from zonekeeper.bookie.segments import arrivals, directories
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import entries, frames
from zonekeeper.wire.formats.entries import EntryError
from zonekeeper.wire.formats.errors import FormatError
from zonekeeper.wire.formats.frames import Frame

_CHUNK_BYTES: Final = 1 << 20
#: The digests that need no password.
_OPEN_DIGESTS: Final = frozenset({Digest.CRC32C, Digest.CRC32})

Digests: TypeAlias = Mapping[LedgerId, Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSeen:
    """A good batch of an arrival segment; its records follow."""

    offset: int
    header: BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSeen:
    """A good frame."""

    offset: int
    frame: Frame
    #: Were its entries' digests compared?
    digests_checked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSeen:
    """A record of a ledger's state, or of the mode, in a batch."""

    record: records.Record


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSeen:
    """The good table of a sorted segment."""

    offset: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes that break the format."""

    offset: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The bytes after the last good batch of an arrival segment, which are not needed."""

    offset: int
    size: int
    what: str


Part: TypeAlias = BatchSeen | FrameSeen | StateSeen | TableSeen | Damage | Rest


def is_segment(name: str) -> bool:
    """Say whether a name is that of a segment."""
    return arrivals.number_of(name) is not None or directories.number_of(name) is not None


def arrival(file: File, log_id: int, digests: Digests) -> Iterator[Part]:
    """Give the parts of an arrival segment."""
    known = dict(digests)
    size, at = file.size(), 0
    generation: int | None = None
    while at < size:
        try:
            header, placed = _batch(file, log_id, at)
        except FormatError as fault:
            later = _next_batch(file, log_id, at + 1, generation)
            if later is None:
                yield Rest(offset=at, size=size - at, what=_rest(file, at, fault))
                return
            yield Damage(offset=at, problem=f"{fault}; the next good batch is at byte {later}")
            at = later
            continue
        if generation is not None and header.position.generation != generation:
            left = f"left over from generation {header.position.generation}"
            yield Rest(offset=at, size=size - at, what=left)
            return
        generation = header.position.generation
        yield BatchSeen(offset=at, header=header)
        for record, offset in placed:
            if isinstance(record, Frame):
                yield from _frame(record, at + offset, known)
                continue
            if isinstance(record, records.FragmentRecord):
                known.setdefault(record.ledger_id, record.said.digest)
            yield StateSeen(record=record)
        at += header.size


def ordered(file: File, log_id: int, number: int, digests: Digests) -> Iterator[Part]:
    """Give the parts of a sorted segment; the rows of its table are compared with the frames."""
    size = file.size()
    head = sorted_format.header(log_id, number)
    if file.read(0, len(head)) != head:
        yield Damage(offset=0, problem="the header is not that of this segment of this log")
    try:
        table_at, rows = _table(file, log_id, number, size)
    except FormatError as fault:
        yield Damage(
            offset=max(0, size - sorted_format.FOOTER_BYTES), problem=f"the table: {fault}"
        )
        yield from _frames_between(file, len(head), size, digests)
        return
    by_offset: dict[int, list[ExtentRow]] = {}
    for row in rows:
        by_offset.setdefault(locations.offset_of(row.extent.offset), []).append(row)
    at = len(head)
    for offset, named in sorted(by_offset.items()):
        if offset < at:
            yield Damage(offset=offset, problem=f"the frame overlaps the one that ends at {at}")
            continue
        if offset > at:
            yield Damage(offset=at, problem=f"no row of the table names these {offset - at} bytes")
        yield from _named_frame(file, offset, named, digests)
        at = offset + named[0].extent.size
    if at != table_at:
        yield Damage(offset=at, problem=f"frames end here, and the table is at {table_at}")
    yield TableSeen(offset=table_at, rows=len(rows))


def _batch(file: File, log_id: int, at: int) -> tuple[BatchHeader, list[batch_format.Placed]]:
    size = batch_format.measure(file.read(at, batch_format.HEADER_BYTES), log_id).size
    return batch_format.parse(file.read(at, size), log_id)


def _next_batch(file: File, log_id: int, start: int, generation: int | None) -> int | None:
    """Find the next good batch of the same generation; None: there is none."""
    mark = batch_format.log_mark(log_id)
    while len(chunk := file.read(start, _CHUNK_BYTES)) >= len(mark):
        at = -1
        while (at := chunk.find(mark, at + 1)) >= 0:
            try:
                header, _ = _batch(file, log_id, start + at)
            except FormatError:
                continue
            if generation in (None, header.position.generation):
                return start + at
        start += len(chunk) - len(mark) + 1
    return None


def _rest(file: File, at: int, fault: FormatError) -> str:
    head = file.read(at, batch_format.HEADER_BYTES)
    return f"no batch ({fault})" if any(head) else "never written, or zeros"


def _table(file: File, log_id: int, number: int, size: int) -> tuple[int, list[ExtentRow]]:
    tail = file.read(max(0, size - sorted_format.FOOTER_BYTES), sorted_format.FOOTER_BYTES)
    footer = sorted_format.parse_footer(tail, log_id, number, size)
    table = file.read(footer.table_at, size - footer.table_at)
    return footer.table_at, sorted_format.parse_table(table, number)


def _named_frame(
    file: File, offset: int, named: list[ExtentRow], digests: Digests
) -> Iterator[Part]:
    """Give the frame that rows of the table name."""
    first = named[0]
    sizes = {row.extent.size for row in named}
    if len(sizes) > 1:
        yield Damage(offset=offset, problem=f"the table gives one frame the sizes {sorted(sizes)}")
        return
    try:
        frame = frames.parse(file.read(offset, first.extent.size))
    except (FormatError, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno in SHORTAGES:
            raise
        said = ", ".join(
            f"ledger {row.ledger_id} entries {row.extent.first} to {row.extent.last}"
            for row in named
        )
        yield Damage(offset=offset, problem=f"{fault}; it should hold {said}")
        return
    yield from _frame(frame, offset, digests)
    for row in named:
        extent = row.extent
        wanted = extent.last - extent.first + 1
        part = frame.between(extent.first, extent.last)
        if row.ledger_id != frame.ledger_id or part is None or len(part) != wanted:
            yield Damage(
                offset=offset,
                problem=f"the table says ledger {row.ledger_id} entries {extent.first} to "
                f"{extent.last}, and the frame is of ledger {frame.ledger_id}, entries "
                f"{frame.first} to {frame.last}",
            )


def _frames_between(file: File, at: int, end: int, digests: Digests) -> Iterator[Part]:
    """Give the frames that follow each other, if there is no table that names them."""
    while at < end:
        try:
            head = file.read(at, frames.FRAME_BYTES_MAX)
            size = frames.measure(head)
            frame = frames.parse(head[:size])
        except FormatError:
            return
        yield from _frame(frame, at, digests)
        at += size


def _frame(frame: Frame, offset: int, digests: Digests) -> Iterator[Part]:
    digest = digests.get(frame.ledger_id)
    checked = digest in _OPEN_DIGESTS
    if digest is not None and checked:
        try:
            frames.unseal(entries.Sealer(frame.ledger_id, digest, b""), frame)
        except EntryError as error:
            yield Damage(offset=offset, problem=str(error))
            return
    yield FrameSeen(offset=offset, frame=frame, digests_checked=checked)
