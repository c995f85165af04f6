"""Batches for tests: messages drawn, and batches changed on purpose."""

import struct
from array import array
from collections.abc import Sequence
from typing import Final

import google_crc32c
from hypothesis import strategies as st

from zonekeeper.log.formats import batches
from zonekeeper.log.formats.batch_columns import HeaderColumns, MessageColumns, ValueColumn
from zonekeeper.log.formats.batches import Packing
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.packing import packers

#: All that this environment has: tests run with zstd, too.
PACKERS: Final = packers.available()

TEXTS: Final = st.text(max_size=10)
MESSAGES: Final = st.builds(
    LogMessage,
    payload=st.binary(max_size=40),
    key=st.none() | st.binary(max_size=10),
    headers=st.lists(st.tuples(TEXTS, st.binary(max_size=10)), max_size=3).map(tuple),
)

#: One batch with everything: a key, an empty key and none, a header twice, no payload.
EVERYTHING: Final = (
    LogMessage(payload=b"first", key=b"k1", headers=(("trace", b"\x00\x01"), ("trace", b""))),
    LogMessage(payload=b""),
    LogMessage(payload=b"third", key=b"", headers=(("Zeit", b"12"),)),
)

#: Where the fields of a batch stand, written down a second time, from the picture.
VERSION, PACKING, FLAGS, CRC, COUNT, PLACE, WALL, SIZE, BODY = 4, 5, 6, 8, 12, 16, 24, 32, 36


def built(*many: LogMessage, packing: Packing = Packing.NONE, place: int = 7) -> bytes:
    return batches.build(
        many, place=place, wall_ms=1_700_000_000_000, packing=packing, packers=PACKERS
    )


def patched(raw: bytes, at: int, new: bytes) -> bytes:
    """Replace some bytes, and make the checksum right."""
    return resummed(raw[:at] + new + raw[at + len(new) :])


def resummed(raw: bytes) -> bytes:
    """Make the checksum right: it covers all from byte 12 on."""
    return raw[:CRC] + struct.pack(">I", google_crc32c.value(raw[COUNT:])) + raw[COUNT:]


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def values(many: Sequence[bytes], before: bytes = b"") -> ValueColumn:
    """Give a column; ``before``: bytes of a value that is cut off, as in a slice of Arrow."""
    offsets = array("i", [len(before)])
    for one in many:
        offsets.append(offsets[-1] + len(one))
    data = memoryview(before + b"".join(many) + b"behind")
    return ValueColumn(offsets=offsets, lengths=array("I", map(len, many)), data=data)


def columns(many: Sequence[LogMessage], before: bytes = b"") -> MessageColumns:
    keys = [one.key for one in many]
    headers = [pair for one in many for pair in one.headers]
    ends = array("i", [0])
    for one in many:
        ends.append(ends[-1] + len(one.headers))
    return MessageColumns(
        payloads=values([one.payload for one in many], before),
        has_key=bytes(key is not None for key in keys),
        keys=values([key or b"" for key in keys], before),
        headers=HeaderColumns(
            ends=ends,
            counts=array("I", [len(one.headers) for one in many]),
            names=values([name.encode() for name, _ in headers], before),
            values=values([value for _, value in headers], before),
        ),
    )
