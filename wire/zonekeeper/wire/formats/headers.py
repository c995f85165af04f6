"""The start of a header, which is alike in frames and carriers.

    0  4  magic
    4  1  version
    5  1  zero
    6  2  zero
    8  4  CRC32C, of bytes from 12 on: the format says up to where

The rest of the header is the format's own. All numbers are big-endian.
"""

import struct
from dataclasses import dataclass
from typing import Final

from zonekeeper.wire.formats.errors import Fault, FormatError

_BEFORE_CRC: Final = struct.Struct(">4sBBH")
_CRC: Final = struct.Struct(">I")
#: Where the checksummed bytes begin, behind the checksum.
SUMMED_FROM: Final = _BEFORE_CRC.size + _CRC.size


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderStart:
    """One format's start of a header; ``what`` is the format's name in errors."""

    what: str
    magic: bytes
    version: int
    header_bytes: int

    def render(self, crc: int, *, later: int = 0) -> bytes:
        """Give the bytes before the checksummed ones, in a version so much later than ours."""
        return _BEFORE_CRC.pack(self.magic, self.version + later, 0, 0) + _CRC.pack(crc)

    def check(self, data: bytes | bytearray | memoryview, *, later: int = 0) -> None:
        """Raise ``FormatError`` unless a whole header of this format and version begins here."""
        spoken = self.version + later
        if len(data) < self.header_bytes:
            raise self.bad(Fault.TRUNCATED, f"{len(data)} bytes, a header has {self.header_bytes}")
        magic, version, zero, more_zero = _BEFORE_CRC.unpack_from(data)
        if magic != self.magic:
            raise self.bad(Fault.MAGIC, magic.hex())
        if version != spoken:
            raise self.bad(Fault.VERSION, f"{version}, this side speaks {spoken}")
        if zero or more_zero:
            raise self.bad(Fault.RESERVED, "bytes 5 to 7")

    def crc(self, data: bytes | bytearray | memoryview) -> int:
        """Read the checksum of a header that was checked."""
        return int(_CRC.unpack_from(data, _BEFORE_CRC.size)[0])

    def bad(self, fault: Fault, detail: str) -> FormatError:
        """Give the error for a fault of this format."""
        return FormatError(self.what, fault, detail)
