"""The checkpoint: one file, always replaced as a whole, that says what counts on this disk.

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
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.files import SHORTAGES, FileSystem
from zonekeeper.bookie.formats import record_format
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.record_format import bad
from zonekeeper.bookie.ledgers import hints, records
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.bookie.ledgers.tombstones import Tombstone
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import checksums
from zonekeeper.wire.formats.errors import Fault, FormatError
from zonekeeper.wire.formats.frames import Frame

NAME: Final = "checkpoint"

VERSION: Final = 3
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

    #: Applied in this order, they give the ledger's state (``admission.applied``).
    records: tuple[LedgerRecord, ...]
    #: The highest LAC that was shown.
    confirmed: EntryId
    #: Rows of sorted segments with ``number < since`` do not count.
    since: int = 1


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
    ledgers: Mapping[LedgerId, Kept] = field(default_factory=dict)
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

    def counts(self, ledger_id: LedgerId, number: int) -> bool:
        """Say whether a row of a ledger in a sorted segment counts."""
        kept = self.ledgers.get(ledger_id)
        return kept is not None and number >= kept.since


def records_of(ledger_id: LedgerId, state: AdmissionState) -> tuple[LedgerRecord, ...]:
    """Give records that, applied to an unknown ledger, give this state."""

    def found() -> Iterator[LedgerRecord]:
        key = state.master_key
        for hint in state.hints:
            opening = hints.opening_of(hint, state.create_token)
            yield records.FragmentRecord(opening=opening)
        if state.fenced and key is not None:
            yield records.FenceRecord(
                ledger_id=ledger_id, master_key=key, create_token=state.create_token
            )
        if state.in_limbo or (state.fenced and key is None):
            yield records.LimboRecord(ledger_id=ledger_id, in_limbo=True)
        if state.fenced and key is None and not state.in_limbo:
            yield records.LimboRecord(ledger_id=ledger_id, in_limbo=False)
        if state.explicit_lac is not None:
            yield records.LacRecord(ledger_id=ledger_id, packet=state.explicit_lac)

    return tuple(found())


def rendered(ledger_id: LedgerId, kept: Kept) -> bytes:
    """Give the bytes of one ledger."""
    head = _LEDGER.pack(ledger_id, kept.since, kept.confirmed, len(kept.records))
    return head + b"".join(map(record_format.encode, kept.records))


def render(checkpoint: Checkpoint, ledgers: Sequence[bytes] | None = None) -> bytes:
    """Give the file's bytes; ``ledgers``: its ledgers' bytes, if they were rendered before."""
    if ledgers is None:
        ledgers = [rendered(*one) for one in checkpoint.ledgers.items()]
    numbers = (checkpoint.log_id, *checkpoint.mark, checkpoint.next_sorted, checkpoint.sweep)
    counts = (len(checkpoint.segments), len(checkpoint.forgotten), len(ledgers))
    said = (0, 0, *numbers, *counts, checkpoint.read_only)
    limbo, tombstones = checkpoint.limbo_generation, checkpoint.tombstones
    parts = [_HEAD.pack(_MAGIC, VERSION, *said, limbo, len(tombstones))]
    parts += [
        _SEGMENT.pack(each.number, each.directory, each.size_bytes, each.live_bytes)
        for each in checkpoint.segments
    ]
    parts += map(_NUMBER.pack, checkpoint.forgotten)
    parts += [_TOMBSTONE.pack(each.ledger_id, each.create_token, each.at_ms) for each in tombstones]
    data = b"".join([*parts, *ledgers])
    return data + _CRC.pack(checksums.value(data))


def parse(data: bytes) -> Checkpoint:
    """Give the checkpoint of a file; raises ``FormatError``."""
    head, end = _head_of(data), len(data) - _CRC.size
    _, version, zero, more_zero, log_id, *numbers, read_only = _HEAD_1.unpack_from(data)
    generation, sequence, next_sorted, sweep, segments, forgotten, ledgers = numbers
    limbo_generation = tombstones = 0
    if head is not _HEAD_1:
        (limbo_generation,) = _NUMBER.unpack_from(data, _HEAD_1.size)
    if head is _HEAD:
        (tombstones,) = _COUNT.unpack_from(data, _HEAD_2.size)
    if zero or more_zero or read_only > 1:
        raise bad(Fault.RESERVED, "bytes 5 to 7, or 60")
    swept_at = head.size + segments * _SEGMENT.size
    ids_end = swept_at + forgotten * _NUMBER.size
    at = buried_at = ids_end + tombstones * _TOMBSTONE.size
    if at > end:
        counted = f"{segments} sorted segments, {forgotten} forgotten ledgers"
        raise bad(Fault.COUNT, f"{counted}, {tombstones} tombstones")
    kept: dict[LedgerId, Kept] = {}
    for _ in range(ledgers):
        ledger_id, one, at = _parse_ledger(data, at, end)
        kept[ledger_id] = one
    if at != end or len(kept) != ledgers:
        raise bad(Fault.COUNT, f"{ledgers} ledgers end at {at} of {end}")
    return Checkpoint(
        log_id=log_id,
        mark=Position(generation, sequence),
        next_sorted=next_sorted,
        segments=tuple(
            SortedSegment(number=number, directory=directory, size_bytes=size, live_bytes=live)
            for number, directory, size, live in _SEGMENT.iter_unpack(data[head.size : swept_at])
        ),
        sweep=sweep,
        forgotten=tuple(
            record_format.ledger_id(number)
            for (number,) in _NUMBER.iter_unpack(data[swept_at:ids_end])
        ),
        read_only=bool(read_only),
        limbo_generation=limbo_generation,
        has_log_end=version >= _LOG_END_SINCE,
        tombstones=tuple(
            Tombstone(record_format.ledger_id(number), record_format.create_token(token), at_ms)
            for number, token, at_ms in _TOMBSTONE.iter_unpack(data[ids_end:buried_at])
        ),
        ledgers=kept,
    )


def load(files: FileSystem) -> Checkpoint:
    """Read the checkpoint; raises ``DamagedLogError`` or ``OSError``. Blocks.

    This is enough for a tool that only reads. Before anything is removed that an older checkpoint
    needs, call ``secured``.
    """
    return _read(files)[0]


def secured(files: FileSystem) -> Checkpoint:
    """Read the checkpoint like ``load``, and make it durable: no power loss undoes it.

    The checkpoint's name may be known to the kernel alone. Perhaps a process was killed before it
    synced the name, or the sync failed; after a failed sync, a later sync may not write it either.
    So the checkpoint is written anew. On a device without room for that, the names are only synced.
    Blocks.
    """
    last, data = _read(files)
    try:
        whole_files.replace(files, NAME, data)
    except OSError as error:
        if error.errno not in SHORTAGES:
            raise
        if (new_name := whole_files.new_name(NAME)) in files.names():
            files.remove(new_name)
        files.sync_names()
    return last


def _read(files: FileSystem) -> tuple[Checkpoint, bytes]:
    file = files.open(NAME)
    try:
        data = file.read(0, file.size())
        return parse(data), data
    except FormatError as fault:
        if fault.fault is Fault.VERSION:
            raise DamagedLogError(
                f"the file {NAME!r} was written by a newer zonekeeper ({fault}): start that "
                "version; nothing is lost"
            ) from fault
        raise DamagedLogError(
            f"the file {NAME!r} is damaged ({fault}): restore the disk, or remove this bookie, "
            "start it anew, and let its ledgers be repaired"
        ) from fault
    finally:
        file.close()


def save(files: FileSystem, checkpoint: Checkpoint, ledgers: Sequence[bytes] | None = None) -> None:
    """Replace the checkpoint durably; the parameters are those of ``render``. Blocks."""
    whole_files.replace(files, NAME, render(checkpoint, ledgers))


def _head_of(data: bytes) -> struct.Struct:
    """Check a file, and give the layout of its head; raises ``FormatError`` if it is not whole."""
    end = len(data) - _CRC.size
    if end < _HEAD_1.size:
        raise bad(Fault.TRUNCATED, f"a checkpoint of {len(data)} bytes")
    if not data.startswith(_MAGIC):
        raise bad(Fault.MAGIC, data[: len(_MAGIC)].hex())
    (expected,) = _CRC.unpack_from(data, end)
    if (found := checksums.value(data[:end])) != expected:
        raise bad(Fault.CHECKSUM, f"{found:08x}, the end says {expected:08x}")
    version = data[len(_MAGIC)]
    if (head := _HEADS.get(version)) is None:
        raise bad(Fault.VERSION, f"{version}, this side reads up to {VERSION}")
    if end < head.size:
        raise bad(Fault.TRUNCATED, f"a checkpoint of version {version} of {len(data)} bytes")
    return head


def _parse_ledger(data: bytes, at: int, end: int) -> tuple[LedgerId, Kept, int]:
    if at + _LEDGER.size > end:
        raise bad(Fault.TRUNCATED, f"a ledger at {at} of {end}")
    number, since, confirmed, count = _LEDGER.unpack_from(data, at)
    at += _LEDGER.size
    found: list[LedgerRecord] = []
    for _ in range(count):
        record, at = record_format.parse(data, at, end)
        if isinstance(
            record, Frame | records.ModeRecord | records.ForgetRecord | record_format.Announced
        ):
            raise bad(Fault.KIND, f"not of a ledger's state, before {at}")
        found.append(record)
    if any(record.ledger_id != number for record in found):
        raise bad(Fault.RANGE, f"a record of another ledger than {number}")
    kept = Kept(records=tuple(found), confirmed=EntryId(confirmed), since=since)
    return record_format.ledger_id(number), kept, at
