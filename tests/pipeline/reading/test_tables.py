"""The options of a table in SQL: taken as they were written, and kept with the table's columns."""

import json

import pytest
from pyspark.sql.types import StructType

from zonekeeper.pipeline.reading import rows, tables
from zonekeeper.pipeline.source.data_source import LedgerReader, LedgerSource

URI = "sqlite:///srv/meta.db"
#: What Spark 4.3 gives the source when a table is created.
CREATED = {
    "provider": "zonekeeper",
    "owner": "me",
    "comment": "c",
    "colour": "a property of the table",
    "metadata": URI,
    "ledger": "7",
    "password": "secret",
    "option.metadata": URI,
    "option.ledger": "7",
    "option.password": "secret",
}


def stored(schema: StructType) -> StructType:
    """Give the columns as they come back from a catalog."""
    return StructType.fromJson(json.loads(schema.json()))


def wanted(reader: LedgerReader) -> tuple[int, int, bytes]:
    return int(reader._wanted.ledger), reader._wanted.first, reader._wanted.password


def test_s176_what_spark_adds_is_no_option() -> None:
    schema = stored(LedgerSource(dict(CREATED)).schema())

    assert schema.names == rows.schema().names
    reader = LedgerSource({}).reader(schema)
    assert wanted(reader) == (7, 0, b"")


@pytest.mark.parametrize("spelled", ["option.password", "option.PassWord"])
def test_the_password_is_not_kept_with_the_table(spelled: str) -> None:
    given = {name: text for name, text in CREATED.items() if name != "option.password"}
    schema = LedgerSource({**given, spelled: "secret"}).schema()

    assert "secret" not in schema.json()
    reader = LedgerSource({"password": "secret"}).reader(stored(schema))
    assert wanted(reader) == (7, 0, b"secret")


def test_a_query_s_option_goes_before_the_table_s() -> None:
    schema = stored(LedgerSource(dict(CREATED)).schema())

    assert wanted(LedgerSource({"Ledger": "9", "first": "3"}).reader(schema)) == (9, 3, b"")


@pytest.mark.parametrize("mistyped", ["option.ledgr", "option.owner", "option.provider"])
def test_what_a_person_mistypes_is_refused_for_a_table_too(mistyped: str) -> None:
    with pytest.raises(Exception, match=f"{mistyped[7:]}: unknown: is no option of zonekeeper"):
        LedgerSource({**CREATED, mistyped: "x"}).schema()


@pytest.mark.parametrize("name", ["owner", "option.ledger"])
def test_a_frame_s_options_are_not_those_of_a_table(name: str) -> None:
    with pytest.raises(Exception, match=f"{name}: unknown"):
        LedgerSource({"metadata": URI, "ledger": "7", name: "x"}).schema()


def test_a_frame_s_columns_keep_nothing() -> None:
    schema = LedgerSource({"metadata": URI, "ledger": "7"}).schema()

    assert schema == rows.schema()
    assert all(not column.metadata for column in schema.fields)


def test_a_table_that_lost_its_options_says_how_to_keep_them() -> None:
    with pytest.raises(Exception, match="only if it is created without columns"):
        LedgerSource({}).reader(rows.schema())


def test_foreign_metadata_of_a_column_is_no_option() -> None:
    schema = rows.schema()
    schema.fields[0].metadata = {tables.KEY: "not a mapping", "comment": "x"}

    assert tables.of_read({"ledger": "7"}, schema) == {"ledger": "7"}
    assert tables.with_options(schema, {"a": "b"}).fields[0].metadata["comment"] == "x"
