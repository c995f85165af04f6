"""Entries of ledgers as Arrow batches.

========  ========  ===========================================================================
ledger    bigint    the ledger's id
entry     bigint    the entry's id
length    bigint    the ledger's payload bytes up to and including this entry
payload   binary    what the application appended
========  ========  ===========================================================================

All columns of an entry are the same in every replica. The LAC that a packet carries may differ, so
it is no column. A batch has at most three buffers a column, and no Arrow object for each value.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import pyarrow
from pyspark.sql.types import BinaryType, LongType, StructType

from zonekeeper.pipeline.reading import columns
from zonekeeper.pipeline.reading.columns import (
    BATCH_BYTES_MAX,
    ROW_BYTES,
    ColumnTypes,
    RecordBatch,
)
from zonekeeper.wire.formats.entries import Entry

COLUMNS: Final = ColumnTypes(
    {"ledger": LongType(), "entry": LongType(), "length": LongType(), "payload": BinaryType()}
)


@dataclass(frozen=True, slots=True)
class EntryPiece:
    """Entries that came together."""

    entries: Sequence[Entry]
    size_bytes: int

    @property
    def rows(self) -> int:
        """The number of entries."""
        return len(self.entries)


def batches(
    schema: StructType, read: Iterable[Sequence[Entry]], rows_max: int
) -> Iterator[RecordBatch]:
    """Give entries as Arrow batches of a schema that ``COLUMNS`` accepted."""
    arrow = columns.arrow_schema(schema)
    for pieces in columns.gathered(_pieces(read, rows_max), rows_max):
        entries = [entry for piece in pieces for entry in piece.entries]
        made = [_BUILDERS[name](entries) for name in arrow.names]
        yield pyarrow.RecordBatch.from_arrays(made, schema=arrow)


def _pieces(read: Iterable[Sequence[Entry]], rows_max: int) -> Iterator[EntryPiece]:
    """Cut what came together, where it is more than a batch may have."""
    for entries in read:
        sizes = [len(entry.payload) for entry in entries]
        total = sum(sizes) + ROW_BYTES * len(sizes)
        if len(entries) <= rows_max and total <= BATCH_BYTES_MAX:
            yield EntryPiece(entries, total)
            continue
        first = size_bytes = 0
        for at, size in enumerate(sizes):
            more = size + ROW_BYTES
            if at > first and (at - first == rows_max or size_bytes + more > BATCH_BYTES_MAX):
                yield EntryPiece(entries[first:at], size_bytes)
                first, size_bytes = at, 0
            size_bytes += more
        yield EntryPiece(entries[first:], size_bytes)


def _numbers(values: Iterable[int]) -> pyarrow.Array:
    numbers = array("q", values)
    return pyarrow.Array.from_buffers(
        pyarrow.int64(), len(numbers), [None, pyarrow.py_buffer(numbers)]
    )


def _payloads(entries: Sequence[Entry]) -> pyarrow.Array:
    payloads = [entry.payload for entry in entries]
    ends = array("i", accumulate(map(len, payloads), initial=0))
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(payloads))]
    return pyarrow.Array.from_buffers(pyarrow.binary(), len(payloads), buffers)


_BUILDERS: Final[Mapping[str, Callable[[Sequence[Entry]], pyarrow.Array]]] = {
    "ledger": lambda entries: _numbers([entry.ledger_id for entry in entries]),
    "entry": lambda entries: _numbers([entry.entry_id for entry in entries]),
    "length": lambda entries: _numbers([entry.length for entry in entries]),
    "payload": _payloads,
}
