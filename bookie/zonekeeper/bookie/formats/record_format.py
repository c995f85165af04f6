"""The bytes of one record, in batches and in checkpoints. Pure.

::

    a record
    0      1       4      8
    | kind | zero  | size | body ...
    1 frame      size is the frame's; its crc32c
    2 fragment   ``wire.openings``
    3 fence      ledger 8, master key 20, and the create token 8 if it is known
    4 LAC        ledger 8, LAC packet
    5 limbo      ledger 8, 0 or 1
    6 mode       0 writable, 1 read-only
    7 forget     ledger 8, and if it leaves a tombstone: create token 8, time 8

All numbers are unsigned and big-endian. The record of a frame only announces it: it has the frame's
size and checksum. The batch defines where the frame's bytes are. The checksum tells the frame from
an older one that stands in its place. A record has no checksum of its own; the batch or checkpoint
around it has one. These constants never change.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from zonekeeper.bookie.ledgers import records
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import entries, frames, openings
from zonekeeper.wire.formats.digests import MASTER_KEY_BYTES, MasterKey
from zonekeeper.wire.formats.errors import Fault, FormatError
from zonekeeper.wire.formats.frames import Frame

#: All records except frames.
StateRecord: TypeAlias = records.LedgerRecord | records.ModeRecord | records.ForgetRecord

_HEAD: Final = struct.Struct(">BBHI")
HEAD_BYTES: Final = _HEAD.size
_LEDGER: Final = struct.Struct(">Q")
_FENCE: Final = struct.Struct(f">Q{MASTER_KEY_BYTES}s")
_LIMBO: Final = struct.Struct(">QB")
_TOMBSTONE: Final = struct.Struct(">QQ")

#: What records take at most.
FENCE_BYTES_MAX: Final = HEAD_BYTES + _FENCE.size + openings.TOKEN_BYTES
LAC_BYTES_MAX: Final = HEAD_BYTES + _LEDGER.size + entries.LAC_PACKET_BYTES_MAX
LIMBO_BYTES: Final = HEAD_BYTES + _LIMBO.size

_FRAME_KIND: Final = 1
_FRAGMENT_KIND: Final = 2
#: The place of a frame's checksum in ``wire.formats.frames``.
_FRAME_CRC: Final = slice(8, 12)
_CRC_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Announced:
    """The announcement of a frame whose bytes are elsewhere: its size and its checksum."""

    size: int
    checksum: bytes


def encode(record: records.Record) -> bytes:
    """Give a record's bytes; for a frame, those of its announcement."""
    if isinstance(record, Frame):
        return _HEAD.pack(_FRAME_KIND, 0, 0, record.size_bytes) + checksum_of(record)
    kind, body = _body(record)
    return _HEAD.pack(kind, 0, 0, len(body)) + body


def encode_hint(hint: bytes, create_token: int) -> bytes:
    """Give the bytes of the record of the fragment that a hint is of (``ledgers.hints``)."""
    body = hint + openings.spell_token(create_token)
    return _HEAD.pack(_FRAGMENT_KIND, 0, 0, len(body)) + body


def size_at(data: bytes, at: int) -> int:
    """Give the bytes of the record at an offset, by its head, which is there; no frame's."""
    return int(HEAD_BYTES + _HEAD.unpack_from(data, at)[3])


def size_of(record: records.Record) -> int:
    """Give the bytes that a record takes; for a frame, with the frame's own bytes."""
    if isinstance(record, Frame):
        return _HEAD.size + _CRC_BYTES + record.size_bytes
    return _HEAD.size + len(_body(record)[1])


def parse(data: bytes | memoryview, at: int, end: int) -> tuple[StateRecord | Announced, int]:
    """Give the record at an offset, and the offset of the next; raises ``FormatError``."""
    if at + _HEAD.size > end:
        raise bad(Fault.TRUNCATED, f"a record at {at}, the records end at {end}")
    kind, zero, more_zero, size = _HEAD.unpack_from(data, at)
    if zero or more_zero:
        raise bad(Fault.RESERVED, f"the record at {at}")
    at += _HEAD.size
    if kind == _FRAME_KIND:
        if not frames.HEADER_BYTES <= size <= frames.FRAME_BYTES_MAX:
            raise bad(Fault.LENGTH, f"a frame of {size} bytes")
        if at + _CRC_BYTES > end:
            raise bad(Fault.TRUNCATED, f"a frame's record at {at}, the records end at {end}")
        return Announced(size, bytes(data[at : at + _CRC_BYTES])), at + _CRC_BYTES
    if at + size > end:
        raise bad(Fault.TRUNCATED, f"a record of {size} bytes at {at}, the records end at {end}")
    parse_body = _PARSERS.get(kind)
    if parse_body is None:
        raise bad(Fault.KIND, f"record kind {kind}")
    try:
        return parse_body(bytes(data[at : at + size])), at + size
    except struct.error as error:
        raise bad(Fault.LENGTH, f"record kind {kind} of {size} bytes") from error


def checksum_of(frame: Frame) -> bytes:
    """Give the checksum in a frame's header."""
    return frame.head[_FRAME_CRC]


def bad(fault: Fault, detail: str) -> FormatError:
    """Give the error for stored bytes that break their format."""
    return FormatError("stored record", fault, detail)


def _body(record: StateRecord) -> tuple[int, bytes]:
    match record:
        case records.FragmentRecord():
            return _FRAGMENT_KIND, record.spelled
        case records.FenceRecord():
            fixed = _FENCE.pack(record.ledger_id, record.master_key)
            return 3, fixed + openings.spell_token(record.create_token)
        case records.LacRecord():
            return 4, _LEDGER.pack(record.ledger_id) + record.packet
        case records.LimboRecord():
            return 5, _LIMBO.pack(record.ledger_id, record.in_limbo)
        case records.ModeRecord():
            return 6, bytes([record.read_only])
        case records.ForgetRecord():
            assert record.at_ms or not record.create_token, "a tombstone has its time"
            stone = _TOMBSTONE.pack(record.create_token, record.at_ms) if record.at_ms else b""
            return 7, _LEDGER.pack(record.ledger_id) + stone
        case _:
            assert_never(record)


def _parse_fragment(body: bytes) -> StateRecord:
    return records.FragmentRecord.parse(body)


def _parse_fence(body: bytes) -> StateRecord:
    ledger, key = _FENCE.unpack_from(body)
    token = openings.parse_token(body[_FENCE.size :])
    return records.FenceRecord(
        ledger_id=ledger_id(ledger), master_key=MasterKey(key), create_token=token
    )


def _parse_lac(body: bytes) -> StateRecord:
    (ledger,) = _LEDGER.unpack_from(body)
    packet = body[_LEDGER.size :]
    if not entries.LAC_PACKET_BYTES_MIN <= len(packet) <= entries.LAC_PACKET_BYTES_MAX:
        raise bad(Fault.LENGTH, f"a LAC packet of {len(packet)} bytes")
    return records.LacRecord(ledger_id=ledger_id(ledger), packet=packet)


def _parse_limbo(body: bytes) -> StateRecord:
    ledger, flag = _LIMBO.unpack(body)
    return records.LimboRecord(ledger_id=ledger_id(ledger), in_limbo=_flag(flag))


def _parse_mode(body: bytes) -> StateRecord:
    if len(body) != 1:
        raise bad(Fault.LENGTH, f"a mode of {len(body)} bytes")
    return records.ModeRecord(read_only=_flag(body[0]))


def _parse_forget(body: bytes) -> StateRecord:
    (ledger,) = _LEDGER.unpack_from(body)
    rest = body[_LEDGER.size :]
    if not rest:
        return records.ForgetRecord(ledger_id=ledger_id(ledger))
    token, at_ms = _TOMBSTONE.unpack(rest)
    if not at_ms:
        raise bad(Fault.NOT_CANONICAL, "a tombstone without a time")
    return records.ForgetRecord(
        ledger_id=ledger_id(ledger), create_token=create_token(token), at_ms=at_ms
    )


_PARSERS: Final[dict[int, Callable[[bytes], StateRecord]]] = {
    _FRAGMENT_KIND: _parse_fragment,
    3: _parse_fence,
    4: _parse_lac,
    5: _parse_limbo,
    6: _parse_mode,
    7: _parse_forget,
}


def ledger_id(number: int) -> LedgerId:
    """Give a number as an id; raises ``FormatError`` if it is out of range."""
    if not 0 <= number < entries.ID_END:
        raise bad(Fault.RANGE, f"{number} is not a ledger or entry id")
    return LedgerId(number)


def create_token(number: int) -> int:
    """Give a number as a create token, 0 for none; raises ``FormatError`` if out of range."""
    if not 0 <= number < entries.ID_END:
        raise bad(Fault.RANGE, f"{number} is not a create token")
    return number


def _flag(number: int) -> bool:
    if number > 1:
        raise bad(Fault.RANGE, f"{number} is neither 0 nor 1")
    return bool(number)
