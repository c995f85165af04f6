"""Ledgers as tables of SQL: the options of ``CREATE TABLE ... USING zonekeeper OPTIONS (...)``.

When a table is created, Spark gives the source the table's properties: each option once under its
own name and once as ``option.<name>``, and beside them what Spark and the person say of the table
(``provider``, ``owner``, ``comment``, ...). Only ``option.<name>`` says what was written in
``OPTIONS``, so a mistyped option is found and nothing else is taken for one.

When a table is read, Spark gives the source the schema of the table and no property. So the options
are kept with the columns, as metadata of each, which Spark's catalog stores with the table. No
option holds a secret: secrets are named as files. An option that the query names replaces the
table's.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

#: The key under which a column of a table has the table's options.
KEY: Final = "zonekeeper.options"
_PROVIDER: Final = "provider"
_OPTION: Final = "option."


def of_creation(given: Mapping[str, str], source: str) -> dict[str, str] | None:
    """Give the options of a table that is being created; None: they are those of a read."""
    by_lower = {name.lower(): name for name in given}
    provider = by_lower.get(_PROVIDER)
    if provider is None or given[provider].lower() != source:
        return None
    return {
        name[len(_OPTION) :]: text
        for name, text in given.items()
        if name.lower().startswith(_OPTION)
    }


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Give a schema whose columns keep the options of their table."""
    kept = dict(options)
    return StructType(
        [
            StructField(one.name, one.dataType, one.nullable, {**(one.metadata or {}), KEY: kept})
            for one in schema.fields
        ]
    )


def of_read(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Give the options of a read: those of the query, and the table's that it does not name."""
    named = {name.lower() for name in given}
    for column in schema.fields:
        kept = (column.metadata or {}).get(KEY)
        if isinstance(kept, dict):
            rest = {name: text for name, text in kept.items() if name.lower() not in named}
            return {**rest, **given}
    return dict(given)
