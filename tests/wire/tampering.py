"""Frames and carriers changed on purpose, with the checksum made right again.

Only so do the checks behind the checksum get something to do. The layout is written down here a
second time, from the pictures and not from the code.
"""

import struct

import google_crc32c

CRC_AT = 8
SUMMED_FROM = 12

# Where the fields of a frame stand.
FRAME_SIZE, FRAME_LEDGER, FRAME_FIRST, FRAME_COUNT, FRAME_FLAGS, FRAME_TABLES = (
    12,
    16,
    24,
    32,
    36,
    40,
)

# Where the fields of a carrier stand.
CARRIER_SIZE, CARRIER_ITEMS, CARRIER_FRAMES_AT, CARRIER_CONTROL = 12, 16, 20, 24


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """Give the bytes with some of them replaced; no checksum is made right."""
    return data[:at] + new + data[at + len(new) :]


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def u64(value: int) -> bytes:
    return struct.pack(">Q", value % (1 << 64))


def frame(data: bytes, at: int = 0, new: bytes = b"") -> bytes:
    """Patch a frame, and make its size and checksum right (the size, unless that is patched)."""
    data = patched(data, at, new)
    if at != FRAME_SIZE:
        data = patched(data, FRAME_SIZE, u32(len(data)))
    return patched(data, CRC_AT, u32(google_crc32c.value(data[SUMMED_FROM:])))


def carrier(data: bytes, at: int = 0, new: bytes = b"") -> bytes:
    """Patch a carrier, and make its size and checksum right (the size, unless that is patched)."""
    data = patched(data, at, new)
    if at != CARRIER_SIZE:
        data = patched(data, CARRIER_SIZE, u32(len(data)))
    frames_at = int.from_bytes(data[CARRIER_FRAMES_AT:CARRIER_CONTROL], "big")
    return patched(data, CRC_AT, u32(google_crc32c.value(data[SUMMED_FROM:frames_at])))
