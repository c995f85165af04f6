"""Messages of a log as Arrow batches, straight from the columns of the log's batches.

========  ===========================================  =========================================
ledger    bigint                                       of the message's id: the ledger
entry     bigint                                       of the message's id: the entry
batch     int                                          of the message's id: the place in the entry
sequence  bigint                                       the log's own number of the message
time      timestamp                                    the writer's time of the message's batch
key       binary                                       the key; null: the message has none
payload   binary                                       the payload
headers   array<struct<name:string,value:binary>>      the headers in their order; often empty
========  ===========================================  =========================================

A batch of the log keeps lengths and bytes of a column in buffers as Arrow does (``BytesColumn``).
So the columns here are made of those buffers, and no Python object is made for a message. A large
batch of the log is a batch of Arrow as it is, without a copy. Small ones are joined.
"""

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import pyarrow
from pyarrow import compute
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from zonekeeper.log.formats.batches import BytesColumn, MessageBatch
from zonekeeper.pipeline.reading import columns
from zonekeeper.pipeline.reading.columns import (
    BATCH_BYTES_MAX,
    ROW_BYTES,
    ColumnTypes,
    RecordBatch,
)
from zonekeeper.pipeline.reading.wanted import ROWS_PER_BATCH_MAX
from zonekeeper.placement.base.ids import EntryId, LedgerId

HEADERS: Final = ArrayType(
    StructType([StructField("name", StringType()), StructField("value", BinaryType())])
)
COLUMNS: Final = ColumnTypes(
    {
        "ledger": LongType(),
        "entry": LongType(),
        "batch": IntegerType(),
        "sequence": LongType(),
        "time": TimestampType(),
        "key": BinaryType(),
        "payload": BinaryType(),
        "headers": HEADERS,
    },
    may_be_null=frozenset({"key"}),
)
#: The two offsets of a header.
_HEADER_BYTES: Final = 8
_LONG: Final = 8
_US: Final = 1_000
#: The latest time that Spark has; a batch may say a later one.
_US_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePiece:
    """The messages ``first <= place < end`` of one batch; at least one."""

    ledger: LedgerId
    entry: EntryId
    #: The sequence of the batch's first message.
    sequence: int
    batch: MessageBatch
    first: int
    end: int

    @property
    def rows(self) -> int:
        """The number of messages."""
        return self.end - self.first

    @property
    def size_bytes(self) -> int:
        """The bytes of the messages in all columns."""
        batch, size = self.batch, ROW_BYTES * self.rows
        for column in (batch.payloads, batch.keys):
            if column is not None:
                size += column.offsets[self.end] - column.offsets[self.first]
        if batch.header_ends is not None:
            first = batch.header_ends[self.first - 1] if self.first else 0
            end = batch.header_ends[self.end - 1]
            size += _HEADER_BYTES * (end - first)
            for column in (batch.header_names, batch.header_values):
                assert column is not None, "a batch with ends of headers has headers"
                size += column.offsets[end] - column.offsets[first]
        return size


def batches(
    schema: StructType, pieces: Iterable[MessagePiece], rows_max: int
) -> Iterator[RecordBatch]:
    """Give messages as Arrow batches of a schema that ``COLUMNS`` accepted."""
    arrow = columns.arrow_schema(schema)
    small = (part for piece in pieces for part in _cut(piece, rows_max))
    for together in columns.gathered(small, rows_max):
        made = [_BUILDERS[field.name](together, field.type) for field in arrow]
        yield pyarrow.RecordBatch.from_arrays(made, schema=arrow)


def _cut(piece: MessagePiece, rows_max: int) -> Iterator[MessagePiece]:
    """Halve a piece until it keeps to the limits of a batch, or is one message."""
    if piece.rows > 1 and (piece.rows > rows_max or piece.size_bytes > BATCH_BYTES_MAX):
        middle = (piece.first + piece.end) // 2
        yield from _cut(replace(piece, end=middle), rows_max)
        yield from _cut(replace(piece, first=middle), rows_max)
    else:
        yield piece


def _joined(parts: Sequence[pyarrow.Array]) -> pyarrow.Array:
    return parts[0] if len(parts) == 1 else pyarrow.concat_arrays(parts)


def _fixed(kind: pyarrow.DataType, parts: Iterable[bytes], width: int) -> pyarrow.Array:
    data = b"".join(parts)
    return pyarrow.Array.from_buffers(kind, len(data) // width, [None, pyarrow.py_buffer(data)])


def _constant(of: Callable[[MessagePiece], int]) -> "_Builder":
    """Give the builder of a column of 64 bits that has one value for a whole batch of the log."""

    def build(pieces: Sequence[MessagePiece], kind: pyarrow.DataType) -> pyarrow.Array:
        parts = [of(one).to_bytes(_LONG, sys.byteorder, signed=True) * one.rows for one in pieces]
        return _fixed(kind, parts, _LONG)

    return build


@cache
def _ascending(code: str) -> "array[int]":
    """Give 0, 1, 2, … once for this process."""
    return array(code, range(ROWS_PER_BATCH_MAX))


def _places(pieces: Sequence[MessagePiece], kind: pyarrow.DataType) -> pyarrow.Array:
    every = memoryview(_ascending("i"))
    width = every.itemsize
    return _fixed(kind, [every[one.first : one.end].tobytes() for one in pieces], width)


def _sequences(pieces: Sequence[MessagePiece], kind: pyarrow.DataType) -> pyarrow.Array:
    first, last = pieces[0], pieces[-1]
    start, rows = first.sequence + first.first, sum(one.rows for one in pieces)
    if last.sequence + last.end - start != rows:  # there is something between two of them
        return _joined([_sequences([one], kind) for one in pieces])
    every = pyarrow.Array.from_buffers(kind, rows, [None, pyarrow.py_buffer(_ascending("q"))])
    return compute.add(every, pyarrow.scalar(start, kind))


def _payloads(pieces: Sequence[MessagePiece], kind: pyarrow.DataType) -> pyarrow.Array:
    return _joined([_values(one.batch.payloads, one, kind) for one in pieces])


def _keys(pieces: Sequence[MessagePiece], kind: pyarrow.DataType) -> pyarrow.Array:
    return _joined([_keys_of(one, kind) for one in pieces])


def _keys_of(piece: MessagePiece, kind: pyarrow.DataType) -> pyarrow.Array:
    batch = piece.batch
    if batch.keys is None or batch.has_key is None:
        return pyarrow.nulls(piece.rows, kind)
    flags = [None, pyarrow.py_buffer(batch.has_key)]
    there = pyarrow.Array.from_buffers(pyarrow.uint8(), len(batch), flags).cast(pyarrow.bool_())
    return _values(batch.keys, piece, kind, there.buffers()[1])


def _values(
    column: BytesColumn,
    piece: MessagePiece,
    kind: pyarrow.DataType,
    validity: pyarrow.Buffer | None = None,
) -> pyarrow.Array:
    buffers = [validity, pyarrow.py_buffer(column.offsets), pyarrow.py_buffer(column.data)]
    return pyarrow.Array.from_buffers(kind, piece.rows, buffers, offset=piece.first)


def _headers(pieces: Sequence[MessagePiece], kind: pyarrow.DataType) -> pyarrow.Array:
    return _joined([_headers_of(one, kind) for one in pieces])


def _headers_of(piece: MessagePiece, kind: pyarrow.DataType) -> pyarrow.Array:
    batch, pair = piece.batch, kind.value_type
    if batch.header_ends is None or batch.header_names is None or batch.header_values is None:
        offsets = array("i", bytes(4 * (piece.rows + 1)))
        child = pyarrow.array([], type=pair)
        none = [None, pyarrow.py_buffer(offsets)]
        return pyarrow.Array.from_buffers(kind, piece.rows, none, children=[child])
    count = len(batch.header_names)
    fields = [
        pyarrow.Array.from_buffers(
            field.type,
            count,
            [None, pyarrow.py_buffer(column.offsets), pyarrow.py_buffer(column.data)],
        )
        for field, column in zip(pair, (batch.header_names, batch.header_values), strict=True)
    ]
    child = pyarrow.Array.from_buffers(pair, count, [None], children=fields)
    ends = [None, pyarrow.py_buffer(array("i", [0, *batch.header_ends]))]
    return pyarrow.Array.from_buffers(kind, piece.rows, ends, offset=piece.first, children=[child])


_Builder = Callable[[Sequence[MessagePiece], pyarrow.DataType], pyarrow.Array]
_BUILDERS: Final[Mapping[str, _Builder]] = {
    "ledger": _constant(lambda one: one.ledger),
    "entry": _constant(lambda one: one.entry),
    "batch": _places,
    "sequence": _sequences,
    "time": _constant(lambda one: min(_US * one.batch.wall_ms, _US_MAX)),
    "key": _keys,
    "payload": _payloads,
    "headers": _headers,
}
