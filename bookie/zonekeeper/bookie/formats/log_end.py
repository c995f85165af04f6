"""The end of the log, as far as it is known to be on the disk: a small file beside the checkpoint.

::

    0        4     5       8        16           24         32               40
    | magic  | ver | zero  | log id | generation | sequence | arrival number | crc32c |
    | "ZKLE" | 1   | 0 0 0 |        |            |          |                |        |

Numbers are unsigned and big-endian. The crc32c covers bytes 0 to 39. Pure.

The batch that the file names was synced before the file was written. So a log that ends earlier is
damaged, and its end is not torn. A log that goes on behind that batch is all right: the file is not
written with each batch. It stays true when it is old, so it is never taken back. There is one
exception: a journal that is replaced has no batch, and the file then says so.
"""

import struct
from dataclasses import dataclass
from typing import Final

from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.wire.formats import checksums
from zonekeeper.wire.formats.errors import Fault, FormatError

NAME: Final = "log-end"

VERSION: Final = 1
_MAGIC: Final = b"ZKLE"
_HEAD: Final = struct.Struct(">4sB3sQQQQ")
_CRC: Final = struct.Struct(">I")
SIZE: Final = _HEAD.size + _CRC.size
_START: Final = Position(0, 0)
_WHAT: Final = "the log's end"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """A batch that is on the disk, with all batches before it that are still needed."""

    log_id: int
    position: Position
    #: The number in the name of the batch's file; 0: there is no batch.
    arrival_number: int


def none_of(log_id: int, position: Position = _START) -> LogEnd:
    """Give the end of a log that has no batch behind this position."""
    return LogEnd(log_id=log_id, position=position, arrival_number=0)


def render(end: LogEnd) -> bytes:
    """Give the file's bytes."""
    numbers = (end.log_id, *end.position, end.arrival_number)
    head = _HEAD.pack(_MAGIC, VERSION, bytes(3), *numbers)
    return head + _CRC.pack(checksums.value(head))


def parse(data: bytes) -> LogEnd:
    """Give the end in a file; raises ``FormatError``."""
    if len(data) != SIZE:
        raise FormatError(_WHAT, Fault.LENGTH, f"{len(data)} bytes, not {SIZE}")
    magic, version, zero, log_id, generation, sequence, number = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError(_WHAT, Fault.MAGIC, magic.hex())
    (crc,) = _CRC.unpack_from(data, _HEAD.size)
    if (found := checksums.value(data[: _HEAD.size])) != crc:
        raise FormatError(_WHAT, Fault.CHECKSUM, f"{found:08x}, the end says {crc:08x}")
    if version != VERSION:
        raise FormatError(_WHAT, Fault.VERSION, f"{version}, this side reads {VERSION}")
    if any(zero):
        raise FormatError(_WHAT, Fault.RESERVED, "bytes 5 to 7")
    return LogEnd(log_id=log_id, position=Position(generation, sequence), arrival_number=number)
