"""The bytes of a bookie's log: a file header, then batches, each the work of one write and sync.

::

    the file's header
    0        4     5       8         16       20
    | magic  | ver | zero  | log id  | crc32c |     the crc32c is that of bytes 0 to 15
    | "ZKLG" | 1   | 0 0 0 | random  |        |

    a batch
    0        4     5       8         16       20      24          32          36        40
    | magic  | ver | zero  | log id  | crc32c | size  | sequence  | frames    | records | ...
    | "ZKLB" | 1   | 0 0 0 |         |        | bytes | number    | begin at  |         |

    | record | record | ...   to where the frames begin; the crc32c covers bytes 20 to there
    | frame | frame | ...     those of the records, in their order, to the end

    a record                                      a fragment's body
    0      1       4      8                       | ledger 8 | first entry 8 | master key 20 |
    | kind | zero  | size | body ...              | ensemble 2 | write 2 | ack 2 | ack zones 2 |
    1 frame      size is the frame's; no body     | digest 1 | bookie ids: length 2, UTF-8, ... |
    2 fragment   see the right
    3 fence      ledger 8, master key 20          All numbers are unsigned and big-endian. Digests:
    4 LAC        ledger 8, LAC packet             1 CRC32, 2 HMAC, 3 CRC32C, 4 DUMMY.
    5 limbo      ledger 8, 0 or 1
    6 mode       0 writable, 1 read-only

The records stand before the frames, so that the batch's checksum covers all but the frames, which
have their own: a payload is summed once in its life here. Sequence numbers grow by one from batch
to batch, for ever. Magic, version and log id are the same 16 bytes in every batch of a log and, as
the id is random, in nothing that a client could store: they can be searched for. These constants
never change; another layout is another version.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from zonekeeper.bookie import records
from zonekeeper.bookie.records import Record
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.quorums import Quorums
from zonekeeper.wire import checksums, entries, frames
from zonekeeper.wire.digests import MASTER_KEY_BYTES, MasterKey
from zonekeeper.wire.errors import Fault, FormatError
from zonekeeper.wire.frames import Frame
from zonekeeper.wire.service import FragmentOpening

VERSION: Final = 1
FILE_HEADER_BYTES: Final = 20
BATCH_HEADER_BYTES: Final = 40

#: Nothing is added to a batch that is larger than this ...
BATCH_BYTES_AIM: Final = 8 << 20
#: ... so that no batch is larger than this.
BATCH_BYTES_MAX: Final = BATCH_BYTES_AIM + frames.FRAME_BYTES_MAX + (1 << 20)
RECORDS_MAX: Final = 1 << 16

_FILE_MAGIC: Final = b"ZKLG"
_BATCH_MAGIC: Final = b"ZKLB"
_MARK: Final = struct.Struct(">4sBBHQ")
_CRC: Final = struct.Struct(">I")
_AFTER_CRC: Final = struct.Struct(">IQII")
_SUMMED_FROM: Final = _MARK.size + _CRC.size
_RECORD: Final = struct.Struct(">BBHI")
_LEDGER: Final = struct.Struct(">Q")
_FENCE: Final = struct.Struct(f">Q{MASTER_KEY_BYTES}s")
_LIMBO: Final = struct.Struct(">QB")
_FRAGMENT: Final = struct.Struct(f">QQ{MASTER_KEY_BYTES}sHHHHB")
_NAME: Final = struct.Struct(">H")

_FRAME_KIND: Final = 1
_DIGEST_NUMBERS: Final = {Digest.CRC32: 1, Digest.HMAC: 2, Digest.CRC32C: 3, Digest.DUMMY: 4}
_DIGESTS: Final = {number: digest for digest, number in _DIGEST_NUMBERS.items()}


class Header(NamedTuple):
    """A batch's numbers, checked with its records."""

    size: int
    sequence: int
    frames_at: int
    records: int


class Placed(NamedTuple):
    """A record, and for a frame where it begins in its batch."""

    record: Record
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that is ready to be written."""

    buffers: Sequence[bytes]
    size: int
    placed: Sequence[Placed]


def file_header(log_id: int) -> bytes:
    """Build the header of a log file."""
    mark = _MARK.pack(_FILE_MAGIC, VERSION, 0, 0, log_id)
    return mark + _CRC.pack(checksums.value(mark))


def parse_file_header(data: bytes) -> int:
    """Give the id of the log whose file begins like this; raises ``FormatError``."""
    if len(data) < FILE_HEADER_BYTES:
        raise _bad(Fault.TRUNCATED, f"{len(data)} bytes, a log's header has {FILE_HEADER_BYTES}")
    magic, version, zero, more_zero, log_id = _MARK.unpack_from(data)
    if magic != _FILE_MAGIC:
        raise _bad(Fault.MAGIC, magic.hex())
    if version != VERSION:
        raise _bad(Fault.VERSION, f"{version}, this side reads {VERSION}")
    (expected,) = _CRC.unpack_from(data, _MARK.size)
    if (found := checksums.value(bytes(data[: _MARK.size]))) != expected:
        raise _bad(Fault.CHECKSUM, f"{found:08x}, the header says {expected:08x}")
    if zero or more_zero:
        raise _bad(Fault.RESERVED, "bytes 5 to 7")
    return int(log_id)


def mark(log_id: int) -> bytes:
    """Give the bytes with which every batch of a log begins."""
    return _MARK.pack(_BATCH_MAGIC, VERSION, 0, 0, log_id)


def size_of(record: Record) -> int:
    """Give the bytes that a record takes in a batch."""
    return _RECORD.size + (
        record.size_bytes if isinstance(record, Frame) else len(_body(record)[1])
    )


def build(log_id: int, sequence: int, wanted: Sequence[Record]) -> Batch:
    """Build the batch of some records, or of none."""
    assert len(wanted) <= RECORDS_MAX
    encoded = [_encode(record) for record in wanted]
    at = frames_at = BATCH_HEADER_BYTES + sum(map(len, encoded))
    placed: list[Placed] = []
    buffers = [b""]
    for record in wanted:
        placed.append(Placed(record, at))
        if isinstance(record, Frame):
            buffers += (record.head, record.packets)
            at += record.size_bytes
    assert at <= BATCH_BYTES_MAX
    summed = _AFTER_CRC.pack(at, sequence, frames_at, len(wanted)) + b"".join(encoded)
    buffers[0] = mark(log_id) + _CRC.pack(checksums.value(summed)) + summed
    return Batch(buffers=buffers, size=at, placed=placed)


def measure(data: bytes | memoryview, log_id: int) -> Header:
    """Read the numbers of the batch that begins here, unchecked but for their limits.

    Raises ``FormatError`` if no batch of this log begins here.
    """
    if len(data) < BATCH_HEADER_BYTES:
        raise _bad(Fault.TRUNCATED, f"{len(data)} bytes, a batch's header has {BATCH_HEADER_BYTES}")
    if bytes(data[: _MARK.size]) != mark(log_id):
        raise _bad(Fault.MAGIC, bytes(data[: _MARK.size]).hex())
    header = Header(*_AFTER_CRC.unpack_from(data, _SUMMED_FROM))
    if header.size > BATCH_BYTES_MAX:
        raise _bad(Fault.OVERSIZED, f"{header.size} bytes, the limit is {BATCH_BYTES_MAX}")
    if not BATCH_HEADER_BYTES <= header.frames_at <= header.size:
        raise _bad(Fault.LENGTH, f"frames begin at {header.frames_at} of {header.size}")
    if header.records > RECORDS_MAX:
        raise _bad(Fault.COUNT, f"{header.records} records, the limit is {RECORDS_MAX}")
    return header


def check_records(data: bytes | memoryview, header: Header) -> None:
    """Check all of a batch but its frames; the data is at least as long as that."""
    if len(data) < header.frames_at:
        raise _bad(Fault.TRUNCATED, f"{len(data)} of {header.frames_at} bytes of records")
    (expected,) = _CRC.unpack_from(data, _MARK.size)
    found = checksums.value(bytes(data[_SUMMED_FROM : header.frames_at]))
    if found != expected:
        raise _bad(Fault.CHECKSUM, f"{found:08x}, the header says {expected:08x}")


def parse(data: bytes | memoryview, log_id: int) -> tuple[Header, list[Placed]]:
    """Check one batch, nothing before or after it, with all its frames; raises ``FormatError``."""
    header = measure(data, log_id)
    if header.size > len(data):
        raise _bad(Fault.TRUNCATED, f"{len(data)} of {header.size} bytes")
    if header.size < len(data):
        raise _bad(Fault.TRAILING, f"{len(data) - header.size} bytes")
    check_records(data, header)
    view = memoryview(data)
    placed: list[Placed] = []
    at, frame_at = BATCH_HEADER_BYTES, header.frames_at
    for _ in range(header.records):
        if at + _RECORD.size > header.frames_at:
            raise _bad(Fault.TRUNCATED, f"a record at {at}, the records end at {header.frames_at}")
        kind, zero, more_zero, size = _RECORD.unpack_from(view, at)
        at += _RECORD.size
        if zero or more_zero:
            raise _bad(Fault.RESERVED, f"record at {at - _RECORD.size}")
        if kind == _FRAME_KIND:
            placed.append(Placed(frames.parse(view[frame_at : frame_at + size]), frame_at))
            frame_at += size
            continue
        if at + size > header.frames_at:
            raise _bad(Fault.TRUNCATED, f"a record of {size} bytes at {at}")
        placed.append(Placed(_parse_body(kind, bytes(view[at : at + size])), header.frames_at))
        at += size
    if at != header.frames_at or frame_at != header.size:
        raise _bad(Fault.TRAILING, f"records end at {at}, frames at {frame_at}")
    return header, placed


def _encode(record: Record) -> bytes:
    if isinstance(record, Frame):
        return _RECORD.pack(_FRAME_KIND, 0, 0, record.size_bytes)
    kind, body = _body(record)
    return _RECORD.pack(kind, 0, 0, len(body)) + body


def _body(record: records.LedgerRecord | records.Mode) -> tuple[int, bytes]:
    match record:
        case records.Fragment():
            return 2, _fragment(record.opening)
        case records.Fence():
            return 3, _FENCE.pack(record.ledger_id, record.master_key)
        case records.Lac():
            return 4, _LEDGER.pack(record.ledger_id) + record.packet
        case records.Limbo():
            return 5, _LIMBO.pack(record.ledger_id, record.in_limbo)
        case records.Mode():
            return 6, bytes([record.read_only])
        case _:
            assert_never(record)


def _fragment(opening: FragmentOpening) -> bytes:
    quorums = opening.quorums
    fixed = _FRAGMENT.pack(
        opening.ledger_id,
        opening.first_entry_id,
        opening.master_key,
        quorums.ensemble,
        quorums.write,
        quorums.ack,
        quorums.ack_zones,
        _DIGEST_NUMBERS[opening.digest],
    )
    names = [bookie.encode() for bookie in opening.ensemble]
    return fixed + b"".join(_NAME.pack(len(name)) + name for name in names)


def _parse_body(kind: int, body: bytes) -> Record:
    parse_kind = _PARSERS.get(kind)
    if parse_kind is None:
        raise _bad(Fault.KIND, f"record kind {kind}")
    try:
        return parse_kind(body)
    except struct.error as error:
        raise _bad(Fault.LENGTH, f"record kind {kind} of {len(body)} bytes") from error


def _parse_fragment(body: bytes) -> Record:
    ledger, first, key, size, write, ack, zones, digest = _FRAGMENT.unpack_from(body)
    if not (1 <= ack <= write <= size and 1 <= zones <= ack) or digest not in _DIGESTS:
        raise _bad(Fault.RANGE, f"quorums {size}/{write}/{ack} in {zones}, digest {digest}")
    names, at = [], _FRAGMENT.size
    for _ in range(size):
        (length,) = _NAME.unpack_from(body, at)
        at += _NAME.size + length
        names.append(BookieId(_text(body[at - length : at])))
    if at != len(body):
        raise _bad(Fault.LENGTH, f"a fragment's names end at {at} of {len(body)}")
    return records.Fragment(
        opening=FragmentOpening(
            ledger_id=_ledger(ledger),
            master_key=MasterKey(key),
            quorums=Quorums(ensemble=size, write=write, ack=ack, ack_zones=zones),
            digest=_DIGESTS[digest],
            first_entry_id=EntryId(_ledger(first)),
            ensemble=tuple(names),
        )
    )


def _parse_fence(body: bytes) -> Record:
    ledger, key = _FENCE.unpack(body)
    return records.Fence(ledger_id=_ledger(ledger), master_key=MasterKey(key))


def _parse_lac(body: bytes) -> Record:
    (ledger,) = _LEDGER.unpack_from(body)
    packet = body[_LEDGER.size :]
    if not entries.LAC_PACKET_BYTES_MIN <= len(packet) <= entries.LAC_PACKET_BYTES_MAX:
        raise _bad(Fault.LENGTH, f"a LAC packet of {len(packet)} bytes")
    return records.Lac(ledger_id=_ledger(ledger), packet=packet)


def _parse_limbo(body: bytes) -> Record:
    ledger, flag = _LIMBO.unpack(body)
    return records.Limbo(ledger_id=_ledger(ledger), in_limbo=_flag(flag))


def _parse_mode(body: bytes) -> Record:
    if len(body) != 1:
        raise _bad(Fault.LENGTH, f"a mode of {len(body)} bytes")
    return records.Mode(read_only=_flag(body[0]))


_PARSERS: Final[dict[int, Callable[[bytes], Record]]] = {
    2: _parse_fragment,
    3: _parse_fence,
    4: _parse_lac,
    5: _parse_limbo,
    6: _parse_mode,
}


def _ledger(number: int) -> LedgerId:
    if number >= entries.ID_END:
        raise _bad(Fault.RANGE, f"{number} is not a ledger or entry id")
    return LedgerId(number)


def _flag(number: int) -> bool:
    if number > 1:
        raise _bad(Fault.RANGE, f"{number} is neither 0 nor 1")
    return bool(number)


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad(Fault.TEXT, str(error)) from error


def _bad(fault: Fault, detail: str) -> FormatError:
    return FormatError("log", fault, detail)
