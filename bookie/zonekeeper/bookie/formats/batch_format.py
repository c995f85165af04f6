"""The bytes of an arrival segment: batches, each the work of one write, back to back from byte 0.

::

    0        4     5       8        16           24       28     32         40
    | magic  | ver | zero  | log id | generation | crc32c | size | sequence | known synced | ...
    | "ZKAB" | 1   | 0 0 0 | random |            |        |      |          |              |
    48                  56                64          68        72
    | before: generation | before: sequence | frames at | records | record | record | ...
    | frame | frame | ...                     those of the records, in their order, to the end

All numbers are unsigned and big-endian. The crc32c covers bytes 0 to 23, and bytes 28 to where the
frames begin. Each frame has a checksum of its own, so a bookie sums each payload only once.

* *Generation*: a segment's file is used again and again, each time with a generation that was never
  used before. In a file, a batch of another generation than the first batch's is left over.
* *Sequence*: it grows by 1 from batch to batch, through all generations.
* *Known synced*: every batch up to this sequence was on the disk when this one was written.
* *Before*: the last good batch before this generation. It is the same in all batches of it.

Magic, version, log id and generation are 24 bytes that are equal in all batches of a generation.
The log's id is random, so no client can store these bytes. So a scan can search for them. The
records are those of ``record_format``. These constants never change; another layout is another
version.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from zonekeeper.bookie.formats import record_format
from zonekeeper.bookie.formats.record_format import Announced, bad
from zonekeeper.bookie.ledgers.records import Record
from zonekeeper.wire.formats import checksums, frames
from zonekeeper.wire.formats.errors import Fault
from zonekeeper.wire.formats.frames import Frame

VERSION: Final = 1
HEADER_BYTES: Final = 72
MARK_BYTES: Final = 24

#: No record is added to a batch that is larger than this.
BATCH_BYTES_AIM: Final = 8 << 20
#: The largest record.
RECORD_BYTES_MAX: Final = frames.FRAME_BYTES_MAX + (1 << 20)
#: The largest batch, which follows from the two limits.
BATCH_BYTES_MAX: Final = BATCH_BYTES_AIM + RECORD_BYTES_MAX
RECORDS_MAX: Final = 1 << 16

_MAGIC: Final = b"ZKAB"
_LOG: Final = struct.Struct(">4sBBHQ")
_GENERATION: Final = struct.Struct(">Q")
_CRC: Final = struct.Struct(">I")
_AFTER_CRC: Final = struct.Struct(">IQQQQII")
_SUMMED_FROM: Final = MARK_BYTES + _CRC.size


class Position(NamedTuple):
    """A batch: its segment's generation, and its sequence number."""

    generation: int
    sequence: int


class Placed(NamedTuple):
    """A record; for a frame also its place: an offset in its batch, or a location."""

    record: Record
    offset: int


class BatchHeader(NamedTuple):
    """The numbers of a batch's header."""

    position: Position
    known_synced: int
    before: Position
    size: int
    frames_at: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """A batch that is ready to be written."""

    buffers: Sequence[bytes]
    size: int
    placed: Sequence[Placed]


def log_mark(log_id: int) -> bytes:
    """Give the bytes with which every batch of a log begins, up to its generation."""
    return _LOG.pack(_MAGIC, VERSION, 0, 0, log_id)


def size_of(wanted: Sequence[Record]) -> int:
    """Give the size of the batch of these records."""
    return HEADER_BYTES + sum(map(record_format.size_of, wanted))


def build(
    log_id: int,
    position: Position,
    known_synced: int,
    before: Position,
    wanted: Sequence[Record],
) -> LogBatch:
    """Build a batch of records; a covering batch has none."""
    assert len(wanted) <= RECORDS_MAX
    assert known_synced < position.sequence
    encoded = b"".join(map(record_format.encode, wanted))
    at = frames_at = HEADER_BYTES + len(encoded)
    placed: list[Placed] = []
    buffers = [b""]
    for record in wanted:
        placed.append(Placed(record, at))
        if isinstance(record, Frame):
            buffers += (record.head, record.packets)
            at += record.size_bytes
    assert at <= BATCH_BYTES_MAX
    numbers = (at, position.sequence, known_synced, *before, frames_at, len(wanted))
    summed = _AFTER_CRC.pack(*numbers) + encoded
    mark = log_mark(log_id) + _GENERATION.pack(position.generation)
    crc = checksums.extend(checksums.value(mark), summed)
    buffers[0] = mark + _CRC.pack(crc) + summed
    return LogBatch(buffers=buffers, size=at, placed=placed)


def measure(data: bytes | memoryview, log_id: int) -> BatchHeader:
    """Read the numbers of the batch that begins here; only their limits are checked.

    Raises ``FormatError`` if no batch of this log begins here.
    """
    if len(data) < HEADER_BYTES:
        raise bad(Fault.TRUNCATED, f"{len(data)} bytes, a batch's header has {HEADER_BYTES}")
    if bytes(data[: _LOG.size]) != log_mark(log_id):
        raise bad(Fault.MAGIC, bytes(data[: _LOG.size]).hex())
    (generation,) = _GENERATION.unpack_from(data, _LOG.size)
    size, sequence, synced, before_generation, before_sequence, frames_at, records = (
        _AFTER_CRC.unpack_from(data, _SUMMED_FROM)
    )
    if size > BATCH_BYTES_MAX:
        raise bad(Fault.OVERSIZED, f"{size} bytes, the limit is {BATCH_BYTES_MAX}")
    if not HEADER_BYTES <= frames_at <= size:
        raise bad(Fault.LENGTH, f"frames begin at {frames_at} of {size}")
    if records > RECORDS_MAX:
        raise bad(Fault.COUNT, f"{records} records, the limit is {RECORDS_MAX}")
    if synced >= sequence or before_generation >= generation or before_sequence >= sequence:
        raise bad(Fault.RANGE, f"batch {generation}/{sequence} stands before itself")
    return BatchHeader(
        position=Position(generation, sequence),
        known_synced=synced,
        before=Position(before_generation, before_sequence),
        size=size,
        frames_at=frames_at,
        records=records,
    )


def check_records(data: bytes | memoryview, header: BatchHeader) -> None:
    """Check the checksum of a batch's header and records; raises ``FormatError``."""
    if len(data) < header.frames_at:
        raise bad(Fault.TRUNCATED, f"{len(data)} of {header.frames_at} bytes of records")
    (expected,) = _CRC.unpack_from(data, MARK_BYTES)
    mark = checksums.value(bytes(data[:MARK_BYTES]))
    found = checksums.extend(mark, bytes(data[_SUMMED_FROM : header.frames_at]))
    if found != expected:
        raise bad(Fault.CHECKSUM, f"{found:08x}, the header says {expected:08x}")


def parse(data: bytes | memoryview, log_id: int) -> tuple[BatchHeader, list[Placed]]:
    """Read one batch and check it with all its frames; raises ``FormatError``.

    ``data`` is exactly the batch.
    """
    header = measure(data, log_id)
    if header.size > len(data):
        raise bad(Fault.TRUNCATED, f"{len(data)} of {header.size} bytes")
    if header.size < len(data):
        raise bad(Fault.TRAILING, f"{len(data) - header.size} bytes")
    check_records(data, header)
    view = memoryview(data)
    placed: list[Placed] = []
    at, frame_at = HEADER_BYTES, header.frames_at
    for _ in range(header.records):
        record, at = record_format.parse(view, at, header.frames_at)
        if isinstance(record, Announced):
            end = frame_at + record.size
            frame = frames.parse(view[frame_at:end])
            if record_format.checksum_of(frame) != record.checksum:
                raise bad(Fault.CHECKSUM, f"another frame stands at {frame_at}")
            placed.append(Placed(frame, frame_at))
            frame_at = end
        else:
            placed.append(Placed(record, header.frames_at))
    if at != header.frames_at or frame_at != header.size:
        raise bad(Fault.TRAILING, f"records end at {at}, frames at {frame_at}")
    return header, placed
