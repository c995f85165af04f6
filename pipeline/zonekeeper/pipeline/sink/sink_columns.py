"""Rows for a log: which columns there may be, and how a batch of Arrow becomes columns of messages.

=======  ==========================================  ==========================================
payload  binary or string                            the payload; required, and never null
key      binary or string                            the key; null: the message has none
headers  array<struct<name:string,value:binary>>     the headers in their order; null: none
=======  ==========================================  ==========================================

A string is taken as its bytes in UTF-8. Other columns are refused: what is not written would be
lost without a word. So are those that the source gives of a message's place: the log numbers its
messages by itself.

The buffers of Arrow are used as they are: nothing is copied for payloads, and no Python object is
made for a message.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import pyarrow
from pyarrow import compute
from pyspark.sql.types import DataType, StructType

from zonekeeper.log.formats.batch_columns import (
    LENGTH,
    HeaderColumns,
    MessageColumns,
    ValueColumn,
)
from zonekeeper.log.formats.messages import BadMessageError
from zonekeeper.pipeline.reading import message_rows
from zonekeeper.pipeline.reading.columns import BadSchemaError, RecordBatch

_BYTES: Final = ("binary", "string")
#: The types of each column, in Spark's notation.
TYPES: Final = {
    "payload": _BYTES,
    "key": _BYTES,
    "headers": (message_rows.HEADERS.simpleString(),),
}
_OF_PLACE: Final = frozenset(message_rows.COLUMNS.of) - frozenset(TYPES)
_TEXT: Final = "payload binary, key binary, headers " + TYPES["headers"][0]
_OFFSET: Final = "i"
_OFFSET_BYTES: Final = 4
_US: Final = 1_000


def check(schema: StructType) -> None:
    """Raise ``BadSchemaError`` unless each column can be written, and there is a payload."""
    names = [column.name for column in schema.fields]
    wrong = [
        f"{column.name} {column.dataType.simpleString()}"
        for at, column in enumerate(schema.fields)
        if not _is_known(column.name, column.dataType) or column.name in names[:at]
    ]
    if "payload" not in names:
        wrong.append("no column payload")
    if not wrong:
        return
    fix = ""
    if _OF_PLACE.intersection(names):
        fix = (
            "; the log gives its messages a place and a time by itself: write "
            '.select("key", "payload", "headers")'
        )
    raise BadSchemaError(
        f"the rows have {', '.join(wrong)}; nothing was written; a log takes the payload, and "
        f"perhaps key and headers, each once: {_TEXT} (or string for the first two){fix}"
    )


def _is_known(name: str, kind: DataType) -> bool:
    return kind.simpleString() in TYPES.get(name, ())


def columns(batch: RecordBatch) -> MessageColumns:
    """Give the messages of a batch that has a row, and whose schema ``check`` passed."""
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    payloads = found["payload"]
    if payloads.null_count:
        raise BadMessageError(
            f"{payloads.null_count} rows have no payload (null), and a message has one; nothing of "
            'this partition was written: .where("payload IS NOT NULL"), or coalesce it'
        )
    has_key, keys = None, None
    if (key := found.get("key")) is not None and key.null_count < len(key):
        has_key = b"\x01" * len(key)
        if key.null_count:
            has_key = _bytes_of(compute.is_valid(key).cast(pyarrow.uint8()))
        keys = _values(_filled(key))
    headers = found.get("headers")
    return MessageColumns(
        payloads=_values(payloads),
        has_key=has_key,
        keys=keys,
        headers=None if headers is None else _headers(headers),
    )


def times(batch: RecordBatch) -> Sequence[int]:
    """Give the times of the messages of a copy, in milliseconds."""
    column = batch.column("time")
    if column.null_count:
        raise BadMessageError(
            f"{column.null_count} rows have no time (null), and a message has one; nothing of this "
            "partition was written"
        )
    us: list[int] = column.cast(pyarrow.int64()).to_pylist()
    return [one // _US for one in us]


def _bytes_of(values: pyarrow.Array) -> bytes:
    """Give a column of 8 bits, without a missing value, as bytes."""
    raw = memoryview(values.buffers()[1]).cast("B")
    return bytes(raw[values.offset : values.offset + len(values)])


def _filled(key: pyarrow.Array) -> pyarrow.Array:
    """Give keys in which a missing one is empty."""
    key = key.cast(pyarrow.binary())
    return compute.fill_null(key, b"") if key.null_count else key


def _values(values: pyarrow.Array) -> ValueColumn:
    values = values.cast(pyarrow.binary())  # the same buffers
    _, _, data = values.buffers()
    return ValueColumn(
        offsets=_offsets(values),
        lengths=_numbers(compute.binary_length(values)),
        data=memoryview(b"" if data is None else data).cast("B"),
    )


def _offsets(values: pyarrow.Array) -> "memoryview[int]":
    """Give the offsets of a column of values or of lists."""
    buffer = values.buffers()[1]
    if buffer is None or not buffer.size:
        return memoryview(array(_OFFSET, [0]))
    every = memoryview(buffer).cast("B").cast(_OFFSET)
    return every[values.offset : values.offset + len(values) + 1]


def _numbers(values: pyarrow.Array) -> "array[int]":
    """Give a column of 32 bits, without a missing value, as an array."""
    raw = memoryview(b"" if values.buffers()[1] is None else values.buffers()[1]).cast("B")
    made = array(LENGTH)
    made.frombytes(raw[_OFFSET_BYTES * values.offset :][: _OFFSET_BYTES * len(values)])
    return made


def _headers(lists: pyarrow.Array) -> HeaderColumns | None:
    if lists.null_count:
        lists = compute.coalesce(lists, pyarrow.scalar([], lists.type))
    ends = _offsets(lists)
    if ends[0] == ends[-1]:
        return None
    names, values = lists.values.flatten()  # a pair that is missing has neither
    count = ends[-1] - ends[0]
    lacking = max(one.slice(ends[0], count).null_count for one in (names, values))
    if lacking:
        raise BadMessageError(
            f"{lacking} headers have no name or no value (null), and a header has both; nothing of "
            "this partition was written: leave such headers out"
        )
    return HeaderColumns(
        ends=ends,
        counts=_numbers(compute.list_value_length(lists)),
        names=_values(names),
        values=_values(values),
    )
