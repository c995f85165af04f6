"""The checkpoint: what counts on this disk, in one file that is replaced whole or not at all.

::

    0        4     5       8        16                 24               32
    | magic  | ver | zero  | log id | mark: generation | mark: sequence | next sorted number 8 |
    | "ZKCP" | 1   | 0 0 0 |        |                  |                |
    40                   44          48          49
    | sorted segments 4  | ledgers 4 | read-only | sorted number 8, ... | ledger, ... | crc32c |

    a ledger
    | ledger 8 | LAC that was shown 8, signed | records 4 | record | record | ...

All numbers are big-endian; a record is that of ``record_format``; the crc32c covers all before it.

* The *mark* only moves forward. Nothing that stands in an arrival segment up to it is needed: its
  entries are in the sorted segments that the same file names, and its ledger state is in the file.
* Ledger state may be newer than the mark: the records past the mark are applied to it again, in
  their order, and the last ones decide.
* A sorted segment that is not named does not exist; its number is used again.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zonekeeper.bookie import records
from zonekeeper.bookie.admission import LedgerState
from zonekeeper.bookie.files import File, FileSystem
from zonekeeper.bookie.records import LedgerRecord
from zonekeeper.bookie.segments import record_format
from zonekeeper.bookie.segments.arrival_scan import DamagedLogError
from zonekeeper.bookie.segments.batch_format import Position
from zonekeeper.bookie.segments.record_format import bad
from zonekeeper.placement.ids import EntryId, LedgerId
from zonekeeper.wire import checksums
from zonekeeper.wire.errors import Fault, FormatError
from zonekeeper.wire.frames import Frame

NAME: Final = "checkpoint"
_NEW_NAME: Final = "checkpoint.new"

VERSION: Final = 1
_MAGIC: Final = b"ZKCP"
_HEAD: Final = struct.Struct(">4sBBHQQQQIIB")
_NUMBER: Final = struct.Struct(">Q")
_LEDGER: Final = struct.Struct(">QqI")
_CRC: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of a ledger besides its entries."""

    #: In an order in which they give its state (``admission.applied``).
    records: tuple[LedgerRecord, ...]
    #: The highest LAC that was shown.
    confirmed: EntryId


_NO_MARK: Final = Position(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What counts."""

    log_id: int
    mark: Position = _NO_MARK
    next_sorted: int = 1
    sorted_numbers: tuple[int, ...] = ()
    read_only: bool = False
    ledgers: Mapping[LedgerId, Kept] = field(default_factory=dict)


class Shown(NamedTuple):
    """A ledger as everybody may see it."""

    ledger_id: LedgerId
    state: LedgerState
    confirmed: EntryId


def kept_of(shown: Iterable[Shown]) -> dict[LedgerId, Kept]:
    """Give what is to be kept of ledgers."""
    return {
        ledger_id: Kept(records=records_of(ledger_id, state), confirmed=confirmed)
        for ledger_id, state, confirmed in shown
    }


def records_of(ledger_id: LedgerId, state: LedgerState) -> tuple[LedgerRecord, ...]:
    """Give records whose application to an unknown ledger gives this state."""

    def found() -> Iterator[LedgerRecord]:
        key = state.master_key
        for opening in state.fragments:
            yield records.Fragment(opening=opening)
        if state.fenced and key is not None:
            yield records.Fence(ledger_id=ledger_id, master_key=key)
        if state.in_limbo or (state.fenced and key is None):
            yield records.Limbo(ledger_id=ledger_id, in_limbo=True)
        if state.fenced and key is None and not state.in_limbo:
            yield records.Limbo(ledger_id=ledger_id, in_limbo=False)
        if state.explicit_lac is not None:
            yield records.Lac(ledger_id=ledger_id, packet=state.explicit_lac)

    return tuple(found())


def render(checkpoint: Checkpoint) -> bytes:
    """Give the file's bytes."""
    numbers = (checkpoint.log_id, *checkpoint.mark, checkpoint.next_sorted)
    counts = (len(checkpoint.sorted_numbers), len(checkpoint.ledgers), checkpoint.read_only)
    parts = [_HEAD.pack(_MAGIC, VERSION, 0, 0, *numbers, *counts)]
    parts += map(_NUMBER.pack, checkpoint.sorted_numbers)
    for ledger_id, kept in checkpoint.ledgers.items():
        parts.append(_LEDGER.pack(ledger_id, kept.confirmed, len(kept.records)))
        parts += map(record_format.encode, kept.records)
    data = b"".join(parts)
    return data + _CRC.pack(checksums.value(data))


def parse(data: bytes) -> Checkpoint:
    """Give the checkpoint of a file; raises ``FormatError``."""
    if len(data) < _HEAD.size + _CRC.size:
        raise bad(Fault.TRUNCATED, f"a checkpoint of {len(data)} bytes")
    magic, version, zero, more_zero, log_id, *mark, next_sorted, segments, ledgers, read_only = (
        _HEAD.unpack_from(data)
    )
    if magic != _MAGIC:
        raise bad(Fault.MAGIC, magic.hex())
    if version != VERSION:
        raise bad(Fault.VERSION, f"{version}, this side reads {VERSION}")
    end = len(data) - _CRC.size
    (expected,) = _CRC.unpack_from(data, end)
    if (found := checksums.value(data[:end])) != expected:
        raise bad(Fault.CHECKSUM, f"{found:08x}, the end says {expected:08x}")
    if zero or more_zero or read_only > 1:
        raise bad(Fault.RESERVED, "bytes 5 to 7, or 48")
    at = _HEAD.size + segments * _NUMBER.size
    if at > end:
        raise bad(Fault.COUNT, f"{segments} sorted segments")
    numbers = [number for (number,) in _NUMBER.iter_unpack(data[_HEAD.size : at])]
    kept: dict[LedgerId, Kept] = {}
    for _ in range(ledgers):
        ledger_id, one, at = _parse_ledger(data, at, end)
        kept[ledger_id] = one
    if at != end or len(kept) != ledgers:
        raise bad(Fault.COUNT, f"{ledgers} ledgers end at {at} of {end}")
    return Checkpoint(
        log_id=log_id,
        mark=Position(*mark),
        next_sorted=next_sorted,
        sorted_numbers=tuple(numbers),
        read_only=bool(read_only),
        ledgers=kept,
    )


def load(files: FileSystem) -> Checkpoint:
    """Read the checkpoint; raises ``DamagedLogError`` or ``OSError``. Blocks."""
    file = files.open(NAME)
    try:
        return parse(file.read(0, file.size()))
    except FormatError as fault:
        raise DamagedLogError(
            f"the file {NAME!r} is damaged ({fault}): restore the disk, or remove this bookie, "
            "start it anew, and let its ledgers be repaired"
        ) from fault
    finally:
        file.close()


def save(files: FileSystem, checkpoint: Checkpoint) -> None:
    """Put a checkpoint into the place of the last one, durably. Blocks."""
    if _NEW_NAME in files.names():
        files.remove(_NEW_NAME)
    file: File = files.create(_NEW_NAME)
    try:
        file.write(0, [render(checkpoint)])
        file.sync()
    finally:
        file.close()
    files.rename(_NEW_NAME, NAME)
    files.sync_names()


def _parse_ledger(data: bytes, at: int, end: int) -> tuple[LedgerId, Kept, int]:
    if at + _LEDGER.size > end:
        raise bad(Fault.TRUNCATED, f"a ledger at {at} of {end}")
    number, confirmed, count = _LEDGER.unpack_from(data, at)
    at += _LEDGER.size
    found: list[LedgerRecord] = []
    for _ in range(count):
        record, at = record_format.parse(data, at, end)
        if isinstance(record, Frame | records.Mode | record_format.Announced):
            raise bad(Fault.KIND, f"not of a ledger's state, before {at}")
        found.append(record)
    if any(record.ledger_id != number for record in found):
        raise bad(Fault.RANGE, f"a record of another ledger than {number}")
    kept = Kept(records=tuple(found), confirmed=EntryId(confirmed))
    return record_format.ledger_id(number), kept, at
