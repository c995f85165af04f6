"""Entries as rows: the columns, and Arrow batches that are built from buffers.

========  ========  ===========================================================================
ledger    bigint    the ledger's id
entry     bigint    the entry's id
length    bigint    the ledger's payload bytes up to and including this entry
payload   binary    what the application appended
========  ========  ===========================================================================

All columns of an entry are the same in every replica. The LAC that a packet carries may differ, so
it is no column. Spark does not tell a source which columns a query uses. A query that needs few
columns gives a schema, and only the columns of the schema are sent to Spark.

A batch has at most three buffers a column, and no Python object for each value: Spark takes it as
it is. The bytes of a batch are bounded as well as its rows, because Spark does not split a batch.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import pyarrow
from pyspark.sql.types import BinaryType, DataType, LongType, StructField, StructType

from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.formats.entries import Entry

#: A batch ends before its payloads are larger than this, unless it is one entry.
BATCH_BYTES_MAX: Final = 8 << 20

#: This alias names the type, because pyarrow has no types of its own for the checker.
RecordBatch: TypeAlias = pyarrow.RecordBatch

_TYPES: Final[Mapping[str, DataType]] = {
    "ledger": LongType(),
    "entry": LongType(),
    "length": LongType(),
    "payload": BinaryType(),
}

#: All columns, in Spark's notation for a schema.
SCHEMA: Final = ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())


def schema() -> StructType:
    """Give the schema with all columns."""
    return StructType([StructField(name, kind) for name, kind in _TYPES.items()])


class BadSchemaError(Refusal):
    """The requested schema has no column, or one that does not exist or has another type."""


def check(schema: StructType) -> None:
    """Raise ``BadSchemaError`` unless every column exists, with its type."""
    wrong = [
        f"{column.name} {column.dataType.simpleString()}"
        for column in schema.fields
        if _TYPES.get(column.name) != column.dataType
    ]
    if wrong or not schema.fields:
        raise BadSchemaError(
            f"the schema asks for {', '.join(wrong) or 'no column'}; give some of these columns, "
            f"with their types, in any order: {SCHEMA}"
        )


def batches(schema: StructType, entries: Iterable[Entry], rows_max: int) -> Iterator[RecordBatch]:
    """Give entries as Arrow batches of a schema that ``check`` accepted."""
    arrow = pyarrow.schema(
        [
            pyarrow.field(column.name, _ARROW[column.name], nullable=column.nullable)
            for column in schema.fields
        ]
    )
    for portion in _portions(entries, rows_max):
        columns = [_BUILDERS[column.name](portion) for column in schema.fields]
        yield pyarrow.RecordBatch.from_arrays(columns, schema=arrow)


def _portions(entries: Iterable[Entry], rows_max: int) -> Iterator[list[Entry]]:
    portion, size_bytes = list[Entry](), 0
    for entry in entries:
        size_bytes += len(entry.payload)
        if portion and (len(portion) == rows_max or size_bytes > BATCH_BYTES_MAX):
            yield portion
            portion, size_bytes = [], len(entry.payload)
        portion.append(entry)
    if portion:
        yield portion


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
    "ledger": lambda entries: _numbers(entry.ledger_id for entry in entries),
    "entry": lambda entries: _numbers(entry.entry_id for entry in entries),
    "length": lambda entries: _numbers(entry.length for entry in entries),
    "payload": _payloads,
}
_ARROW: Final = {
    name: pyarrow.binary() if kind == BinaryType() else pyarrow.int64()
    for name, kind in _TYPES.items()
}
