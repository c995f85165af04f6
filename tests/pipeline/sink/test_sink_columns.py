"""Which columns a log takes, and what comes of a batch of Arrow, whatever its buffers are like."""

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tests.log.batching import MESSAGES, PACKERS
from zonekeeper.log.formats import batch_columns, batches
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.pipeline.reading import message_rows
from zonekeeper.pipeline.reading.columns import BadSchemaError, RecordBatch
from zonekeeper.pipeline.sink import sink_columns

BINARY = pyarrow.binary()
PAIR = pyarrow.struct([("name", pyarrow.string()), ("value", pyarrow.binary())])
HEADERS = pyarrow.list_(PAIR)


def record(
    many: list[LogMessage], kind: pyarrow.DataType = BINARY, **other: pyarrow.Array
) -> RecordBatch:
    made = {
        "headers": pyarrow.array(
            [
                [{"name": name, "value": value} for name, value in one.headers] or None
                if at % 2
                else [{"name": name, "value": value} for name, value in one.headers]
                for at, one in enumerate(many)
            ],
            HEADERS,
        ),
        "payload": pyarrow.array([one.payload for one in many], kind),
        "key": pyarrow.array([one.key for one in many], kind),
    }
    return pyarrow.RecordBatch.from_pydict({**made, **other})


def read_back(batch: RecordBatch) -> list[LogMessage]:
    columns = sink_columns.columns(batch)
    columns.check_headers()
    return [
        message
        for first, end in columns.cuts(200)
        for message in batches.parse(
            batch_columns.build(columns, first, end, place=first, wall_ms=1), PACKERS
        ).messages()
    ]


@given(many=st.lists(MESSAGES, min_size=1, max_size=12), data=st.data())
def test_a_batch_of_arrow_and_each_slice_of_it_gives_its_messages(
    many: list[LogMessage], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(many) - 1))
    end = data.draw(st.integers(first + 1, len(many)))
    kind = data.draw(st.sampled_from([pyarrow.binary(), pyarrow.large_binary()]))
    batch = record(many, kind)

    assert read_back(batch) == many
    assert read_back(batch.slice(first, end - first)) == many[first:end]


def test_texts_are_taken_as_utf_8_and_columns_may_be_missing() -> None:
    texts = pyarrow.RecordBatch.from_pydict(
        {"payload": pyarrow.array(["ä", ""]), "key": pyarrow.array([None, "k"])}
    )
    assert read_back(texts) == [
        LogMessage(payload="ä".encode()),
        LogMessage(payload=b"", key=b"k"),
    ]
    assert read_back(texts.select(["payload"])) == [
        LogMessage(payload="ä".encode()),
        LogMessage(payload=b""),
    ]
    none = texts.set_column(1, "key", pyarrow.nulls(2, pyarrow.binary()))
    assert sink_columns.columns(none).has_key is None


def test_bytes_below_a_null_are_not_written() -> None:
    # Arrow lets a missing value have bytes; Spark writes none.
    offsets = pyarrow.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 3, 6)))
    key = pyarrow.Array.from_buffers(
        pyarrow.binary(), 2, [pyarrow.py_buffer(b"\x02"), offsets, pyarrow.py_buffer(b"abcdef")]
    )
    child = pyarrow.array([{"name": "a", "value": b""}, {"name": "b", "value": b""}], PAIR)
    ends = pyarrow.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1, 2)))
    headers = pyarrow.Array.from_buffers(
        HEADERS, 2, [pyarrow.py_buffer(b"\x02"), ends], children=[child]
    )
    many = [LogMessage(payload=b"1"), LogMessage(payload=b"2")]

    assert read_back(record(many, key=key, headers=headers)) == [
        LogMessage(payload=b"1"),
        LogMessage(payload=b"2", key=b"def", headers=(("b", b""),)),
    ]


def test_lengths_are_those_of_a_slice() -> None:
    # What Arrow computes has no offset today.
    lengths = pyarrow.array([1, 2, 3, 4], pyarrow.int32())
    assert list(sink_columns._numbers(lengths.slice(1, 2))) == [2, 3]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("payload", pyarrow.array([b"1", None]), "1 rows have no payload"),
        ("headers", pyarrow.array([[], [None]], HEADERS), "1 headers have no name or no value"),
        ("headers", pyarrow.array([[{"name": "n"}], []], HEADERS), "1 headers have no name"),
        ("headers", pyarrow.array([[{"value": b""}], []], HEADERS), "1 headers have no name"),
    ],
)
def test_what_is_missing_where_it_must_not_be_is_refused(
    column: str, value: pyarrow.Array, said: str
) -> None:
    many = [LogMessage(payload=b"1"), LogMessage(payload=b"2")]
    with pytest.raises(BadMessageError, match=said):
        sink_columns.columns(record(many, **{column: value}))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    "columns",
    [
        {"payload": BinaryType()},
        {"key": StringType(), "payload": StringType()},
        {"headers": message_rows.HEADERS, "payload": BinaryType(), "key": BinaryType()},
    ],
)
def test_some_columns_in_any_order_are_taken(columns: dict[str, DataType]) -> None:
    sink_columns.check(schema(**columns))


def test_the_source_s_columns_fit_but_for_the_place() -> None:
    every = message_rows.COLUMNS.schema()
    sink_columns.check(StructType([one for one in every if one.name in sink_columns.TYPES]))
    with pytest.raises(BadSchemaError) as said:
        sink_columns.check(every)
    assert (
        "ledger bigint, entry bigint, batch int, sequence bigint, time timestamp; nothing was "
        in str(said.value)
    )
    assert '.select("key", "payload", "headers")' in str(said.value)


BACKWARDS = ArrayType(
    StructType([StructField("value", BinaryType()), StructField("name", StringType())])
)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"key": BinaryType()}, "the rows have no column payload"),
        ({}, "the rows have no column payload"),
        ({"payload": LongType()}, "the rows have payload bigint; nothing"),
        ({"payload": BinaryType(), "other": LongType()}, "the rows have other bigint; nothing"),
        ({"payload": BinaryType(), "headers": StringType()}, "headers string"),
        ({"payload": BinaryType(), "headers": BACKWARDS}, "headers array<struct<value:binary"),
    ],
)
def test_other_columns_and_types_are_named(columns: dict[str, DataType], said: str) -> None:
    with pytest.raises(BadSchemaError) as refused:
        sink_columns.check(schema(**columns))
    assert said in str(refused.value)
    assert "select" not in str(refused.value)


def test_a_column_twice_is_named() -> None:
    one = StructField("payload", BinaryType())
    with pytest.raises(BadSchemaError, match="the rows have payload binary; nothing"):
        sink_columns.check(StructType([one, one]))


def test_the_times_of_a_copy_are_those_of_its_rows_in_milliseconds() -> None:
    kind = pyarrow.timestamp("us", "UTC")
    many = [LogMessage(payload=b"a"), LogMessage(payload=b"b"), LogMessage(payload=b"c")]
    batch = record(many, time=pyarrow.array([7_000, 7_999, 1_700_000_000_123_000], kind))
    assert list(sink_columns.times(batch)) == [7, 7, 1_700_000_000_123]
    assert list(sink_columns.times(batch.slice(1, 1))) == [7]
    with pytest.raises(BadMessageError, match="1 rows have no time"):
        sink_columns.times(record(many, time=pyarrow.array([1, None, 3], kind)))
