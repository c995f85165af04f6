"""Arrow batches: exactly the entries, bounded in rows and bytes, of just the schema asked for."""

import itertools

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from zonekeeper.pipeline.reading import rows
from zonekeeper.pipeline.reading.rows import BATCH_BYTES_MAX, BadSchemaError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats.entries import ID_END, Entry

ALL = StructType(
    [
        StructField("ledger", LongType()),
        StructField("entry", LongType()),
        StructField("length", LongType()),
        StructField("payload", BinaryType()),
    ]
)


def entries(payloads: list[bytes], ledger: int = 7, first: int = 0) -> list[Entry]:
    lengths = itertools.accumulate(map(len, payloads))
    return [
        Entry(LedgerId(ledger), EntryId(first + at), EntryId(first - 1), length, payload)
        for at, (payload, length) in enumerate(zip(payloads, lengths, strict=True))
    ]


def plain(made: list[Entry]) -> list[dict[str, int | bytes]]:
    return [
        {"ledger": e.ledger_id, "entry": e.entry_id, "length": e.length, "payload": e.payload}
        for e in made
    ]


@settings(deadline=None)
@given(
    payloads=st.lists(st.binary(max_size=50), max_size=30),
    first=st.integers(0, ID_END - 31),
    rows_max=st.integers(1, 31),
)
def test_batches_hold_the_entries_and_no_more_rows_than_allowed(
    payloads: list[bytes], first: int, rows_max: int
) -> None:
    made = entries(payloads, first=first)

    batches = list(rows.batches(ALL, iter(made), rows_max))

    for batch in batches:
        batch.validate(full=True)
    assert [row for batch in batches for row in batch.to_pylist()] == plain(made)
    assert all(batch.num_rows == rows_max for batch in batches[:-1])
    assert all(1 <= batch.num_rows <= rows_max for batch in batches)


def test_a_batch_ends_before_its_bytes_are_too_many_unless_it_is_one_entry() -> None:
    half = bytes(BATCH_BYTES_MAX // 2)
    made = entries([half, half, b"x", bytes(BATCH_BYTES_MAX + 1), b"y", half])

    batches = list(rows.batches(ALL, made, 100))

    assert [batch.column("entry").to_pylist() for batch in batches] == [[0, 1], [2], [3], [4, 5]]


def test_a_schema_of_some_columns_in_any_order_gives_just_these() -> None:
    schema = StructType(
        [StructField("payload", BinaryType(), nullable=False), StructField("entry", LongType())]
    )
    rows.check(schema)

    (batch,) = rows.batches(schema, entries([b"a", b"b"]), 10)

    assert batch.schema == pyarrow.schema(
        [
            pyarrow.field("payload", pyarrow.binary(), nullable=False),
            pyarrow.field("entry", pyarrow.int64()),
        ]
    )
    assert batch.to_pylist() == [{"payload": b"a", "entry": 0}, {"payload": b"b", "entry": 1}]


def test_no_entries_give_no_batch() -> None:
    assert list(rows.batches(ALL, [], 10)) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType([StructField("entry", IntegerType())]), "asks for entry int;"),
        (StructType([*ALL.fields, StructField("lac", LongType())]), "asks for lac bigint;"),
        (StructType([]), "asks for no column;"),
    ],
    ids=["type", "name", "empty"],
)
def test_a_schema_of_other_columns_is_refused_with_those_that_there_are(
    schema: StructType, said: str
) -> None:
    rows.check(ALL)
    with pytest.raises(BadSchemaError) as refused:
        rows.check(schema)
    assert said in str(refused.value)
    assert "ledger bigint, entry bigint, length bigint, payload binary" in str(refused.value)
