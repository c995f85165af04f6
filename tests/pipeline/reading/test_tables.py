"""The options of a table in SQL: taken as they were written, and kept with the table's columns."""

import json

import pytest
from pyspark.sql.types import StructType

from zonekeeper.pipeline.reading import entry_rows, message_rows, tables
from zonekeeper.pipeline.reading.wanted import OneLedger
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
    "passwordFile": "/secret",
    "option.metadata": URI,
    "option.ledger": "7",
    "option.passwordFile": "/secret",
}


def stored(schema: StructType) -> StructType:
    """Give the columns as they come back from a catalog."""
    return StructType.fromJson(json.loads(schema.json()))


def wanted(reader: LedgerReader) -> tuple[int, int, str | None]:
    one = reader._wanted.wanted
    assert isinstance(one, OneLedger)
    return one.ledger, one.first, reader._wanted.connection.password_file


def test_s176_what_spark_adds_is_no_option() -> None:
    schema = stored(LedgerSource(dict(CREATED)).schema())

    assert schema.names == entry_rows.COLUMNS.schema().names
    reader = LedgerSource({}).reader(schema)
    assert wanted(reader) == (7, 0, "/secret")


def test_a_table_of_a_log_has_the_columns_of_messages() -> None:
    given = {name: text for name, text in CREATED.items() if "ledger" not in name}
    schema = stored(LedgerSource({**given, "log": "x", "option.log": "x"}).schema())

    assert schema.names == message_rows.COLUMNS.schema().names
    LedgerSource({"from": "latest"}).reader(schema)


@pytest.mark.parametrize("spelled", ["option.password", "option.PassWord"])
def test_s176_a_password_is_refused_for_a_table_and_kept_nowhere(spelled: str) -> None:
    with pytest.raises(Exception, match="give the file's name as passwordFile") as refused:
        LedgerSource({**CREATED, spelled: "sesame"}).schema()
    assert "sesame" not in str(refused.value)


def test_a_query_s_option_goes_before_the_table_s() -> None:
    schema = stored(LedgerSource(dict(CREATED)).schema())

    assert wanted(LedgerSource({"Ledger": "9", "first": "3"}).reader(schema)) == (
        9,
        3,
        "/secret",
    )


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

    assert schema == entry_rows.COLUMNS.schema()
    assert all(not column.metadata for column in schema.fields)


def test_a_table_that_lost_its_options_says_how_to_keep_them() -> None:
    with pytest.raises(Exception, match="only if it is created without columns"):
        LedgerSource({}).reader(entry_rows.COLUMNS.schema())


def test_foreign_metadata_of_a_column_is_no_option() -> None:
    schema = entry_rows.COLUMNS.schema()
    schema.fields[0].metadata = {tables.KEY: "not a mapping", "comment": "x"}

    assert tables.of_read({"ledger": "7"}, schema) == {"ledger": "7"}
    assert tables.with_options(schema, {"a": "b"}).fields[0].metadata["comment"] == "x"
