"""Entries as Arrow batches: exactly the entries, bounded, of just the schema asked for."""

import itertools

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from zonekeeper.pipeline.reading import columns, entry_rows
from zonekeeper.pipeline.reading.columns import (
    BATCH_BYTES_MAX,
    GATHERED_BYTES,
    ROW_BYTES,
    BadSchemaError,
)
from zonekeeper.pipeline.reading.entry_rows import COLUMNS
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats.entries import ID_END, Entry

ALL = COLUMNS.schema()


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
    together=st.integers(1, 31),
)
def test_batches_hold_the_entries_and_no_more_rows_than_allowed(
    payloads: list[bytes], first: int, rows_max: int, together: int
) -> None:
    made = entries(payloads, first=first)
    came = [made[at : at + together] for at in range(0, len(made), together)]

    batches = list(entry_rows.batches(ALL, iter(came), rows_max))

    for batch in batches:
        batch.validate(full=True)
    assert [row for batch in batches for row in batch.to_pylist()] == plain(made)
    assert all(1 <= batch.num_rows <= rows_max for batch in batches)
    pairs = itertools.pairwise(batch.num_rows for batch in batches)
    assert all(one + two > min(rows_max, together) for one, two in pairs)


def test_a_batch_ends_before_its_bytes_are_too_many_unless_it_is_one_entry() -> None:
    half = bytes(BATCH_BYTES_MAX // 2 - ROW_BYTES)
    made = entries([half, half, b"x", bytes(BATCH_BYTES_MAX + 1), b"y", half])

    def cut(come: list[list[Entry]]) -> list[list[int]]:
        batches = entry_rows.batches(ALL, come, 100)
        return [batch.column("entry").to_pylist() for batch in batches]

    assert cut([made]) == [[0, 1], [2], [3], [4, 5]]
    assert cut([[one] for one in made]) == [[0], [1], [2], [3], [4, 5]]


def test_what_came_in_small_parts_is_sent_together() -> None:
    size = GATHERED_BYTES // 10
    made = entries([bytes(size)] * 25)

    batches = list(entry_rows.batches(ALL, ([one] for one in made), 1_000))

    assert [batch.num_rows for batch in batches] == [10, 10, 5]


def test_a_schema_of_some_columns_in_any_order_gives_just_these() -> None:
    schema = StructType(
        [StructField("payload", BinaryType(), nullable=False), StructField("entry", LongType())]
    )
    COLUMNS.check(schema)

    (batch,) = entry_rows.batches(schema, [entries([b"a", b"b"])], 10)

    assert batch.schema == pyarrow.schema(
        [
            pyarrow.field("payload", pyarrow.binary(), nullable=False),
            pyarrow.field("entry", pyarrow.int64()),
        ]
    )
    assert batch.to_pylist() == [{"payload": b"a", "entry": 0}, {"payload": b"b", "entry": 1}]


def test_no_entries_give_no_batch() -> None:
    assert list(entry_rows.batches(ALL, [], 10)) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType([StructField("entry", IntegerType())]), "asks for entry int;"),
        (StructType([*ALL.fields, StructField("lac", LongType())]), "asks for lac bigint;"),
        (StructType([*ALL.fields, ALL.fields[0]]), "asks for ledger bigint;"),
        (StructType([]), "asks for no column;"),
    ],
    ids=["type", "name", "twice", "empty"],
)
def test_a_schema_of_other_columns_is_refused_with_those_that_there_are(
    schema: StructType, said: str
) -> None:
    COLUMNS.check(ALL)
    with pytest.raises(BadSchemaError) as refused:
        COLUMNS.check(schema)
    assert said in str(refused.value)
    assert "ledger bigint, entry bigint, length bigint, payload binary" in str(refused.value)


def test_the_arrow_schema_is_the_one_that_spark_wants() -> None:
    assert columns.arrow_schema(ALL) == pyarrow.schema(
        [
            ("ledger", pyarrow.int64()),
            ("entry", pyarrow.int64()),
            ("length", pyarrow.int64()),
            ("payload", pyarrow.binary()),
        ]
    )
