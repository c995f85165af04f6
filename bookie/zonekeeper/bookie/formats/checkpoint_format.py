"""The bytes of the checkpoint: the one file that says what counts on a disk. Pure.

::

    0        4     5       8        16                 24               32
    | magic  | ver | zero  | log id | mark: generation | mark: sequence | next sorted number 8 |
    | "ZKCP" | 1..3| 0 0 0 |        |                  |                |
    40        48                   52            56          60          61                   69
    | sweep 8 | sorted segments 4  | forgotten 4 | ledgers 4 | read-only | limbo generation 8 |
    69             73
    | tombstones 4 |
    | sorted segment, ... | forgotten ledger 8, ... | tombstone, ... | ledger, ... | crc32c |

    a sorted segment
    | number 8 | directory 2 | bytes 8 | live bytes 8 |

    a tombstone
    | ledger 8 | create token 8 | time 8 |

    a ledger
    | ledger 8 | since 8 | LAC that was shown 8, signed | records 4 | record | record | ...

All numbers are big-endian. The records are those of ``record_format``. The crc32c covers all bytes
before it. Version 1 has no limbo generation; that means 0. Versions 1 and 2 have no tombstones, and
no file ``log-end`` is beside them. Version 3 is written.

* The *mark* never goes back. No record in an arrival segment up to the mark is needed: its entries
  are in the sorted segments that this file names, and its ledger state is in this file.
* The ledger state may be newer than the mark. At a start the records past the mark are applied to
  it again, in order, and the last ones decide. There is one exception. After a disk was replaced,
  ledgers are put in limbo here. The log may still have records that ended an *earlier* limbo.
  Records of generations up to the *limbo generation* therefore end no limbo.
* A sorted segment that is not named here does not count: it was never finished, or was compacted.
* A row of a sorted segment counts exactly if its ledger is in this file and
  ``segment number >= since`` of the ledger. So rows from before a ledger was forgotten do not count
  for a later ledger with the same id.
* The index may have rows of the *forgotten* ledgers until its own sweep number equals this one.
* A tombstone names a ledger that was forgotten (``ledgers.tombstones``). Tombstones may be newer
  than the mark, like the ledger state.
* Live bytes only serve to choose the segments to compact.

A checkpoint may be larger than the memory that there is for it: a million ledgers take 200 MiB. So
its bytes are given in parts (``parts_of``), and its ledgers are read one after the other
(``ledgers_in``). A file is checked as a whole (``checked``) before anything in it is believed.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple, Protocol, TypeAlias

from zonekeeper.bookie.formats import record_format
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.record_format import bad
from zonekeeper.bookie.ledgers import admission, hints, records
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.bookie.ledgers.tombstones import Tombstone
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import checksums, openings
from zonekeeper.wire.formats.errors import Fault

#: Gives so many bytes at an offset of a file.
Read: TypeAlias = Callable[[int, int], bytes]

#: A file is read, and written, in pieces of about this size.
PIECE_BYTES: Final = 1 << 20

VERSION: Final = 3
#: The earliest version that is read.
VERSION_MIN: Final = 1
#: From this version on there is a file that says how far the log is known to be on the disk.
_LOG_END_SINCE: Final = 3
_MAGIC: Final = b"ZKCP"
_HEAD_1: Final = struct.Struct(">4sBBHQQQQQIIIB")
_HEAD_2: Final = struct.Struct(f"{_HEAD_1.format}Q")
_HEAD: Final = struct.Struct(f"{_HEAD_2.format}I")
#: By version.
_HEADS: Final = {1: _HEAD_1, 2: _HEAD_2, 3: _HEAD}
_SEGMENT: Final = struct.Struct(">QHQQ")
_NUMBER: Final = struct.Struct(">Q")
_TOMBSTONE: Final = struct.Struct(">QQQ")
_LEDGER: Final = struct.Struct(">QQqI")
_COUNT: Final = struct.Struct(">I")
_CRC: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The state of a ledger in the checkpoint, without its entries."""

    state: AdmissionState
    #: The highest LAC that was shown.
    confirmed: EntryId
    #: Rows of sorted segments with ``number < since`` do not count.
    since: int = 1


class KeptLedgers(Protocol):
    """The ledgers of a checkpoint: in memory (a ``dict``), or read from its file each time."""

    def __len__(self) -> int: ...

    def items(self) -> Iterable[tuple[LedgerId, Kept]]:
        """Give the ledgers, each once; raises ``DamagedLogError`` or ``OSError``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedSegment:
    """A sorted segment that counts."""

    number: int
    #: The index of its ledger directory, in their configured order.
    directory: int
    #: Bytes of all frames.
    size_bytes: int
    #: Bytes of frames that count.
    live_bytes: int


#: The most bytes of a ledger without its hints: a fence, a LAC, and a limbo that has ended.
_LEDGER_BYTES_MAX: Final = _LEDGER.size + sum(
    (record_format.FENCE_BYTES_MAX, record_format.LAC_BYTES_MAX, 2 * record_format.LIMBO_BYTES)
)


def bytes_max(*, ledgers: int, hint_bytes: int, tombstones: int) -> int:
    """Give the most bytes of a checkpoint of so many ledgers, with these hints (``size_of``).

    Its sorted segments and its forgotten ledgers are not in this: some bytes for each.
    """
    fixed = _HEAD.size + _CRC.size + tombstones * _TOMBSTONE.size
    return fixed + growth_bytes(ledgers=ledgers, hint_bytes=hint_bytes)


def growth_bytes(*, ledgers: int, hint_bytes: int) -> int:
    """Give the most bytes of a checkpoint that so many ledgers with these hints are."""
    return ledgers * _LEDGER_BYTES_MAX + hint_bytes


#: No record of a ledger's state is larger.
_RECORD_BYTES_MAX: Final = record_format.HEAD_BYTES + openings.BYTES_MAX
_OF_NO_LEDGER: Final = (records.ModeRecord, records.ForgetRecord, record_format.Announced)

_NO_MARK: Final = Position(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint: all that counts on this disk."""

    log_id: int
    mark: Position = _NO_MARK
    #: The number of the next new sorted segment.
    next_sorted: int = 1
    #: By their numbers, ascending.
    segments: tuple[SortedSegment, ...] = ()
    #: Did a person make the bookie read-only?
    read_only: bool = False
    ledgers: KeptLedgers = field(default_factory=dict)
    #: The number of the last sweep.
    sweep: int = 0
    #: The ledgers that the last sweep removes from the index.
    forgotten: tuple[LedgerId, ...] = ()
    #: A record with ``generation <= limbo_generation`` ends no limbo.
    limbo_generation: int = 0
    #: Is there a file ``log-end``? Only a checkpoint of an earlier version says no.
    has_log_end: bool = True
    #: The ledgers that were forgotten not long ago, the oldest first.
    tombstones: tuple[Tombstone, ...] = ()

    @property
    def sorted_numbers(self) -> tuple[int, ...]:
        """The numbers of the sorted segments."""
        return tuple(segment.number for segment in self.segments)

    def counting(self) -> Callable[[LedgerId, int], bool]:
        """Give a function: does a row of a ledger in a sorted segment count? Reads all ledgers."""
        since = {ledger_id: kept.since for ledger_id, kept in self.ledgers.items()}
        return lambda ledger_id, number: ledger_id in since and number >= since[ledger_id]


class LedgersAt(NamedTuple):
    """The place of the ledgers in a file."""

    start: int
    end: int
    ledgers: int


# ── writing ──


def records_of(ledger_id: LedgerId, state: AdmissionState) -> tuple[LedgerRecord, ...]:
    """Give records that, applied to an unknown ledger, give this state."""
    fragments = (
        records.FragmentRecord.of(hints.opening_of(hint, state.create_token))
        for hint in state.hints
    )
    return (*fragments, *_other_records(ledger_id, state))


def _other_records(ledger_id: LedgerId, state: AdmissionState) -> Iterator[LedgerRecord]:
    key = state.master_key
    if state.fenced and key is not None:
        yield records.FenceRecord(
            ledger_id=ledger_id, master_key=key, create_token=state.create_token
        )
    if state.explicit_lac is not None:
        yield records.LacRecord(ledger_id=ledger_id, packet=state.explicit_lac)
    if state.in_limbo or (state.fenced and key is None):
        yield records.LimboRecord(ledger_id=ledger_id, in_limbo=True)
    if state.fenced and key is None and not state.in_limbo:
        yield records.LimboRecord(ledger_id=ledger_id, in_limbo=False)


def parts_of_ledger(ledger_id: LedgerId, kept: Kept) -> Iterator[bytes]:
    """Give the bytes of one ledger, in parts; none is larger than a record."""
    state = kept.state
    others = [record_format.encode(record) for record in _other_records(ledger_id, state)]
    count = len(state.hints) + len(others)
    yield _LEDGER.pack(ledger_id, kept.since, kept.confirmed, count)
    for hint in state.hints:
        yield record_format.encode_hint(hint, state.create_token)
    yield from others


def parts_of(
    checkpoint: Checkpoint, ledgers: int, parts_of_ledgers: Iterable[bytes]
) -> Iterator[bytes]:
    """Give the bytes of a file up to its checksum, in parts.

    Its ledgers are not those of ``checkpoint``: they are so many, and these are their bytes.
    """
    numbers = (checkpoint.log_id, *checkpoint.mark, checkpoint.next_sorted, checkpoint.sweep)
    counts = (len(checkpoint.segments), len(checkpoint.forgotten), ledgers)
    said = (0, 0, *numbers, *counts, checkpoint.read_only)
    tombstones = checkpoint.tombstones
    return chain(
        (_HEAD.pack(_MAGIC, VERSION, *said, checkpoint.limbo_generation, len(tombstones)),),
        (
            _SEGMENT.pack(each.number, each.directory, each.size_bytes, each.live_bytes)
            for each in checkpoint.segments
        ),
        map(_NUMBER.pack, checkpoint.forgotten),
        (_TOMBSTONE.pack(each.ledger_id, each.create_token, each.at_ms) for each in tombstones),
        parts_of_ledgers,
    )


def whole_parts_of(checkpoint: Checkpoint) -> Iterator[bytes]:
    """Give the bytes of a file up to its checksum, with the ledgers of the checkpoint, in parts."""
    parts = (parts_of_ledger(*each) for each in checkpoint.ledgers.items())
    return parts_of(checkpoint, len(checkpoint.ledgers), chain.from_iterable(parts))


class CheckpointPieces:
    """The pieces of a file, which are made of its parts; the last one ends with its checksum."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._summed = 0
        #: Was the last piece given?
        self.ended = False

    def take(self) -> bytes:
        """Give the next piece."""
        assert not self.ended
        piece = bytearray()
        while len(piece) < PIECE_BYTES and not self.ended:
            part = next(self._parts, None)
            self.ended = part is None
            piece += part or b""
        data = bytes(piece)
        self._summed = checksums.extend(self._summed, data)
        return data + _CRC.pack(self._summed) if self.ended else data


def render(checkpoint: Checkpoint) -> bytes:
    """Give a file's bytes at once."""
    pieces, data = CheckpointPieces(whole_parts_of(checkpoint)), b""
    while not pieces.ended:
        data += pieces.take()
    return data


# ── reading ──


def checked(read: Read, size: int) -> Iterator[bytes]:
    """Give a file in pieces; if it is not whole, raises ``FormatError``, perhaps at its end."""
    end = size - _CRC.size
    if end < _HEAD_1.size:
        raise bad(Fault.TRUNCATED, f"a checkpoint of {size} bytes")
    if (magic := read(0, len(_MAGIC))) != _MAGIC:
        raise bad(Fault.MAGIC, magic.hex())
    summed, piece = 0, b""
    for at in range(0, end, PIECE_BYTES):
        if piece:
            yield piece
        piece = read(at, min(PIECE_BYTES, end - at))
        summed = checksums.extend(summed, piece)
    last = read(end, _CRC.size)
    if last != _CRC.pack(summed):
        raise bad(Fault.CHECKSUM, f"{summed:08x}, the end says {last.hex()}")
    yield piece + last


def parse_head(read: Read, size: int) -> tuple[Checkpoint, LedgersAt]:
    """Give what a whole file says, without its ledgers, and their place; raises ``FormatError``."""
    end = size - _CRC.size
    first = read(0, _HEAD.size)
    version = first[len(_MAGIC)]
    if (head := _HEADS.get(version)) is None:
        raise bad(Fault.VERSION, f"{version}, this side reads up to {VERSION}")
    if end < head.size:
        raise bad(Fault.TRUNCATED, f"a checkpoint of version {version} of {size} bytes")
    _, version, zero, more_zero, log_id, *numbers, read_only = _HEAD_1.unpack_from(first)
    generation, sequence, next_sorted, sweep, segments, forgotten, ledgers = numbers
    limbo_generation = tombstones = 0
    if head is not _HEAD_1:
        (limbo_generation,) = _NUMBER.unpack_from(first, _HEAD_1.size)
    if head is _HEAD:
        (tombstones,) = _COUNT.unpack_from(first, _HEAD_2.size)
    if zero or more_zero or read_only > 1:
        raise bad(Fault.RESERVED, "bytes 5 to 7, or 60")
    swept_at = segments * _SEGMENT.size
    ids_end = swept_at + forgotten * _NUMBER.size
    buried_at = ids_end + tombstones * _TOMBSTONE.size
    if head.size + buried_at > end:
        counted = f"{segments} sorted segments, {forgotten} forgotten ledgers"
        raise bad(Fault.COUNT, f"{counted}, {tombstones} tombstones")
    tables = read(head.size, buried_at)
    checkpoint = Checkpoint(
        log_id=log_id,
        mark=Position(generation, sequence),
        next_sorted=next_sorted,
        segments=tuple(
            SortedSegment(number=number, directory=directory, size_bytes=size, live_bytes=live)
            for number, directory, size, live in _SEGMENT.iter_unpack(tables[:swept_at])
        ),
        sweep=sweep,
        forgotten=tuple(
            record_format.ledger_id(number)
            for (number,) in _NUMBER.iter_unpack(tables[swept_at:ids_end])
        ),
        read_only=bool(read_only),
        limbo_generation=limbo_generation,
        has_log_end=version >= _LOG_END_SINCE,
        tombstones=tuple(
            Tombstone(record_format.ledger_id(number), record_format.create_token(token), at_ms)
            for number, token, at_ms in _TOMBSTONE.iter_unpack(tables[ids_end:])
        ),
    )
    return checkpoint, LedgersAt(head.size + buried_at, end, ledgers)


def ledgers_in(read: Read, place: LedgersAt) -> Iterator[tuple[LedgerId, Kept]]:
    """Give the ledgers of a whole file, one after the other; raises ``FormatError``."""
    window = _Window(read, place)
    for _ in range(place.ledgers):
        yield window.next_ledger()
    if not window.is_at_end:
        raise bad(Fault.COUNT, f"{place.ledgers} ledgers end before {place.end}")


def parse(data: bytes) -> Checkpoint:
    """Give the checkpoint of a file's bytes, with all ledgers; raises ``FormatError``."""

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    for _ in checked(read, len(data)):
        pass
    head, place = parse_head(read, len(data))
    ledgers = dict(ledgers_in(read, place))
    if len(ledgers) != place.ledgers:
        raise bad(Fault.COUNT, f"{len(ledgers)} of {place.ledgers} ledgers differ")
    return replace(head, ledgers=ledgers)


class _Window:
    """The part of a file that is being parsed: a piece, or a record if that is larger."""

    def __init__(self, read: Read, place: LedgersAt) -> None:
        self._read = read
        self._data = b""
        self._at = 0
        #: The offset in the file of what follows ``_data``.
        self._next = place.start
        self._end = place.end

    @property
    def is_at_end(self) -> bool:
        return self._next == self._end and self._at == len(self._data)

    def next_ledger(self) -> tuple[LedgerId, Kept]:
        self._need(_LEDGER.size)
        number, since, confirmed, count = _LEDGER.unpack_from(self._data, self._at)
        self._at += _LEDGER.size
        state = admission.UNKNOWN
        for _ in range(count):
            if self._at + _RECORD_BYTES_MAX > len(self._data):
                self._need(record_format.HEAD_BYTES)
                self._need(record_format.size_at(self._data, self._at))
            record = self._next_record()
            if record.ledger_id != number:
                raise bad(Fault.RANGE, f"a record of another ledger than {number}")
            state = admission.applied(state, record)
        kept = Kept(state=state, confirmed=EntryId(confirmed), since=since)
        return record_format.ledger_id(number), kept

    def _next_record(self) -> LedgerRecord:
        record, self._at = record_format.parse(self._data, self._at, len(self._data))
        if isinstance(record, _OF_NO_LEDGER):
            raise bad(Fault.KIND, f"not of a ledger's state, before {self._next}")
        return record

    def _need(self, size: int) -> None:
        """Have so many more bytes in memory."""
        missing = self._at + size - len(self._data)
        if missing <= 0:
            return
        left = self._end - self._next
        if missing > left:
            raise bad(Fault.TRUNCATED, f"{size} bytes before {self._end}, {missing} are missing")
        wanted = min(left, max(missing, PIECE_BYTES))
        self._data = self._data[self._at :] + self._read(self._next, wanted)
        self._at = 0
        self._next += wanted
        if len(self._data) < size:
            raise bad(Fault.TRUNCATED, f"the file ends before {self._next}")
