"""The bytes of a sorted segment: a header, frames, a table of their entries, a footer. Pure.

::

    0        4     5       8        16              24       28
    | magic  | ver | zero  | log id | sorted number | crc32c | frame | frame | ...
    | "ZKSG" | 1   | 0 0 0 |        |               | of 0.. |

    | ledger 8 | first entry 8 | last entry 8 | offset 4 | size 4 |     a row of the table, 32 bytes
    | ...                                                         |     rows are in order, disjoint

    0        4     5       8        16              24         32      36       40   to the end
    | magic  | ver | zero  | log id | sorted number | table at | rows  | crc32c |
    | "ZKSF" | 1   | 0 0 0 |        |               | offset 8 | 4     | of table, and 0..36

All numbers are unsigned and big-endian. A row says which entries of a frame count. The index holds
the rows of all sorted segments, so it can be built again from the tables alone. Frames have their
own checksums. These constants never change; another layout is another version.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from zonekeeper.bookie.formats import locations
from zonekeeper.bookie.formats.index import ExtentRow
from zonekeeper.bookie.formats.record_format import bad, ledger_id
from zonekeeper.bookie.ledgers.extents import Extent
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import checksums
from zonekeeper.wire.formats.errors import Fault

VERSION: Final = 1
HEADER_BYTES: Final = 28
FOOTER_BYTES: Final = 40
ROW_BYTES: Final = 32

_HEADER_MAGIC: Final = b"ZKSG"
_FOOTER_MAGIC: Final = b"ZKSF"
_START: Final = struct.Struct(">4sBBHQQ")
_TABLE: Final = struct.Struct(">QI")
_CRC: Final = struct.Struct(">I")
_ROW: Final = struct.Struct(">QQQII")


class TableFooter(NamedTuple):
    """The place of the table; only its limits are checked."""

    table_at: int
    rows: int


def header(log_id: int, number: int) -> bytes:
    """Build a segment's header."""
    start = _START.pack(_HEADER_MAGIC, VERSION, 0, 0, log_id, number)
    return start + _CRC.pack(checksums.value(start))


def table_and_footer(log_id: int, number: int, table_at: int, rows: Sequence[ExtentRow]) -> bytes:
    """Build the table and the footer; the rows' offsets are locations in this segment."""
    base = locations.location(locations.sorted_key(number), 0)
    table = b"".join(
        _ROW.pack(row.ledger_id, extent.first, extent.last, extent.offset - base, extent.size)
        for row in rows
        for extent in (row.extent,)
    )
    start = _START.pack(_FOOTER_MAGIC, VERSION, 0, 0, log_id, number)
    summed = start + _TABLE.pack(table_at, len(rows))
    return table + summed + _CRC.pack(checksums.extend(checksums.value(table), summed))


def parse_footer(data: bytes, log_id: int, number: int, size: int) -> TableFooter:
    """Give the place of the table in a segment of this size; raises ``FormatError``."""
    if len(data) != FOOTER_BYTES:
        raise bad(Fault.TRUNCATED, f"a footer of {len(data)} bytes")
    if data[: _START.size] != _START.pack(_FOOTER_MAGIC, VERSION, 0, 0, log_id, number):
        raise bad(Fault.MAGIC, data[: _START.size].hex())
    table_at, rows = _TABLE.unpack_from(data, _START.size)
    if table_at < HEADER_BYTES or table_at + rows * ROW_BYTES + FOOTER_BYTES != size:
        raise bad(Fault.LENGTH, f"{rows} rows from byte {table_at} on of {size}")
    return TableFooter(table_at=table_at, rows=rows)


def parse_table(data: bytes, number: int) -> list[ExtentRow]:
    """Check a table with its footer, and give its rows; raises ``FormatError``."""
    summed, (expected,) = data[: -_CRC.size], _CRC.unpack(data[-_CRC.size :])
    if (found := checksums.value(summed)) != expected:
        raise bad(Fault.CHECKSUM, f"{found:08x}, the footer says {expected:08x}")
    base = locations.location(locations.sorted_key(number), 0)
    return [
        ExtentRow(
            ledger_id(ledger),
            Extent(EntryId(ledger_id(first)), EntryId(ledger_id(last)), base + offset, size),
        )
        for ledger, first, last, offset, size in _ROW.iter_unpack(data[:-FOOTER_BYTES])
    ]
