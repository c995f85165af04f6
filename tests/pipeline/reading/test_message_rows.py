"""Messages as Arrow batches: what the messages say, from the buffers of the log's batches."""

from array import array
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tests.log.batching import EVERYTHING, MESSAGES, PACKERS, built
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.batches import BytesColumn, MessageBatch
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.pipeline.reading import columns, message_rows
from zonekeeper.pipeline.reading.columns import BATCH_BYTES_MAX, BadSchemaError
from zonekeeper.pipeline.reading.message_rows import COLUMNS, MessagePiece
from zonekeeper.placement.base.ids import EntryId, LedgerId

ALL = COLUMNS.schema()
PLACE = 7
WALL_MS = 1_700_000_000_000


def piece(
    many: list[LogMessage],
    first: int = 0,
    end: int | None = None,
    entry: int = 3,
    sequence: int = 50,
) -> MessagePiece:
    return MessagePiece(
        ledger=LedgerId(17),
        entry=EntryId(entry),
        sequence=sequence,
        batch=batches.parse(built(*many, place=PLACE), PACKERS),
        first=first,
        end=len(many) if end is None else end,
    )


def plain(one: MessagePiece) -> list[dict[str, object]]:
    return [
        {
            "ledger": one.ledger,
            "entry": one.entry,
            "batch": at,
            "sequence": one.sequence + at,
            "time": datetime.fromtimestamp(one.batch.wall_ms / 1_000, UTC),
            "key": one.batch.message(at).key,
            "payload": one.batch.message(at).payload,
            "headers": [
                {"name": name, "value": value} for name, value in one.batch.message(at).headers
            ],
        }
        for at in range(one.first, one.end)
    ]


PIECES = st.lists(
    st.tuples(st.lists(MESSAGES, min_size=1, max_size=8), st.integers(0, 7), st.integers(1, 8)),
    max_size=5,
)


@settings(deadline=None)
@given(
    drawn=PIECES,
    rows_max=st.integers(1, 20),
    gap=st.integers(0, 1),
    names=st.permutations(ALL.names),
)
def test_rows_are_what_the_messages_say_in_any_order_of_columns(
    drawn: list[tuple[list[LogMessage], int, int]], rows_max: int, gap: int, names: list[str]
) -> None:
    pieces, sequence = [], 50
    for entry, (many, skipped, length) in enumerate(drawn, 1):
        first = min(skipped, len(many) - 1)
        end = min(first + length, len(many))
        pieces.append(piece(many, first, end, entry, sequence - first))
        sequence += end - first + gap
    schema = StructType([ALL[name] for name in names])
    COLUMNS.check(schema)

    made = list(message_rows.batches(schema, iter(pieces), rows_max))

    for batch in made:
        batch.validate(full=True)
        assert batch.schema == columns.arrow_schema(schema)
        assert 1 <= batch.num_rows <= rows_max
    assert [row for batch in made for row in batch.to_pylist()] == [
        row for one in pieces for row in plain(one)
    ]


def test_no_key_is_null_and_an_empty_key_is_not() -> None:
    schema = StructType([ALL["key"], ALL["headers"]])

    (batch,) = message_rows.batches(schema, [piece(list(EVERYTHING))], 10)

    assert batch.column("key").to_pylist() == [b"k1", None, b""]
    assert batch.column("headers").to_pylist()[0] == [
        {"name": "trace", "value": b"\x00\x01"},
        {"name": "trace", "value": b""},
    ]


def test_a_large_batch_of_the_log_is_sent_without_a_copy() -> None:
    one = piece([LogMessage(payload=bytes(600_000))] * 2)

    (batch,) = message_rows.batches(StructType([ALL["payload"]]), [one], 10)

    data = pyarrow.py_buffer(one.batch.payloads.data)
    assert batch.column(0).buffers()[2].address == data.address


def test_columns_share_the_bytes_of_their_batch_and_each_is_sent_alone() -> None:
    many = [LogMessage(payload=bytes(300_000), key=b"k%d" % at) for at in range(2)]

    (batch,) = message_rows.batches(StructType([ALL["key"]]), [piece(many)], 10)

    sent = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sent, batch.schema) as stream:
        stream.write_batch(batch)
    assert sent.getvalue().size < 10_000
    (came,) = pyarrow.ipc.open_stream(sent.getvalue())
    assert came.column("key").to_pylist() == [b"k0", b"k1"]


def wide(payloads: list[int], headers: int = 0) -> MessagePiece:
    """Give a piece of payloads of some sizes, without making them."""
    from_ends = [0]
    for size in payloads:
        from_ends.append(from_ends[-1] + size)
    plain_batch = batches.parse(built(LogMessage(payload=b"")), PACKERS)
    column = BytesColumn(offsets=_offsets(from_ends), data=bytes(from_ends[-1]))
    many = headers * len(payloads)
    empty = BytesColumn(offsets=_offsets([0] * (many + 1)), data=b"")
    batch = MessageBatch(
        place=0,
        wall_ms=1,
        packing=plain_batch.packing,
        payloads=column,
        has_key=None,
        keys=None,
        header_ends=[headers * (at + 1) for at in range(len(payloads))] if headers else None,
        header_names=empty if headers else None,
        header_values=empty if headers else None,
    )
    return MessagePiece(
        ledger=LedgerId(1), entry=EntryId(1), sequence=0, batch=batch, first=0, end=len(payloads)
    )


def _offsets(values: list[int]) -> "array[int]":
    return array("i", values)


def test_no_batch_is_larger_than_the_limit_whatever_a_batch_of_the_log_has() -> None:
    schema = StructType([ALL["sequence"], ALL["payload"], ALL["headers"]])
    pieces = [
        wide([3 << 20, 3 << 20, 3 << 20]),
        wide([0] * 1_200, headers=1_000),
        wide([BATCH_BYTES_MAX + 1]),
        wide([5]),
    ]

    made = list(message_rows.batches(schema, pieces, 100_000))

    assert sum(batch.num_rows for batch in made) == 3 + 1_200 + 1 + 1
    assert all(batch.get_total_buffer_size() >= 0 for batch in made)
    assert all(batch.nbytes <= BATCH_BYTES_MAX or batch.num_rows == 1 for batch in made)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (StructField("key", BinaryType(), nullable=False), "asks for key binary NOT NULL;"),
        (StructField("headers", ArrayType(StringType())), "asks for headers array<string>;"),
        (StructField("length", LongType()), "asks for length bigint;"),
    ],
)
def test_a_schema_that_messages_cannot_have_is_refused(column: StructField, said: str) -> None:
    with pytest.raises(BadSchemaError) as refused:
        COLUMNS.check(StructType([column]))
    assert said in str(refused.value)
    assert "headers array<struct<name:string,value:binary>>" in str(refused.value)


def test_parts_that_may_not_be_null_are_made_so() -> None:
    pair = StructType(
        [StructField("name", StringType(), False), StructField("value", BinaryType(), False)]
    )
    schema = StructType(
        [
            StructField("headers", ArrayType(pair, containsNull=False), nullable=False),
            StructField("sequence", LongType(), nullable=False),
        ]
    )
    COLUMNS.check(schema)

    (batch,) = message_rows.batches(
        schema, [piece(list(EVERYTHING)), piece([LogMessage(payload=b"x")], sequence=53)], 10
    )

    assert batch.schema == columns.arrow_schema(schema)
    assert batch.column("sequence").to_pylist() == [50, 51, 52, 53]
    assert batch.column("headers").to_pylist()[2:] == [[{"name": "Zeit", "value": b"12"}], []]


def test_a_clock_that_went_far_too_far_gives_the_latest_time_that_spark_has() -> None:
    one = piece([LogMessage(payload=b"x")])
    far = replace(one, batch=replace(one.batch, wall_ms=batches.PLACE_MAX))

    (batch,) = message_rows.batches(StructType([ALL["time"]]), [far], 10)

    assert batch.column(0).cast(pyarrow.int64()).to_pylist() == [(1 << 63) - 1]
