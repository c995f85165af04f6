"""What entries and messages have in common as columns: names, types, and the limits of a batch.

Spark does not tell a source which columns a query uses. A query that needs few columns gives a
schema, and only the columns of the schema are made and sent to Spark.

Spark takes an Arrow batch as it is, and does not split it. So its bytes are bounded as well as its
rows. Pieces are gathered into one batch until it is worth sending.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from zonekeeper.placement.base.troubles import Refusal

#: A batch ends before it has more bytes than this, unless it has one row.
BATCH_BYTES_MAX: Final = 8 << 20
#: A batch that has so many bytes is sent as it is.
GATHERED_BYTES: Final = 1 << 20
#: The bytes of a row beside its bytes of variable length, at most.
ROW_BYTES: Final = 64

#: This alias names the type, because pyarrow has no types of its own for the checker.
RecordBatch: TypeAlias = pyarrow.RecordBatch


class BadSchemaError(Refusal):
    """The requested schema has no column, or one that does not exist or has another type."""


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The columns that there are."""

    of: Mapping[str, DataType]
    #: The columns in which a value may be missing.
    may_be_null: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """All columns, in Spark's notation for a schema."""
        return ", ".join(f"{name} {kind.simpleString()}" for name, kind in self.of.items())

    def schema(self) -> StructType:
        """Give the schema with all columns."""
        return StructType([StructField(name, kind) for name, kind in self.of.items()])

    def check(self, schema: StructType) -> None:
        """Raise ``BadSchemaError`` unless every column exists, once, with its type.

        A column without missing values may be NOT NULL. Of one that has some, Spark would take the
        missing values for others.
        """
        names = [column.name for column in schema.fields]
        wrong = [
            f"{column.name} {column.dataType.simpleString()}"
            for at, column in enumerate(schema.fields)
            if column.name not in self.of
            or self.of[column.name].simpleString() != column.dataType.simpleString()
            or column.name in names[:at]
        ]
        wrong += [
            f"{column.name} {column.dataType.simpleString()} NOT NULL"
            for column in schema.fields
            if column.name in self.may_be_null and not column.nullable
        ]
        if wrong or not schema.fields:
            raise BadSchemaError(
                f"the schema asks for {', '.join(wrong) or 'no column'}; give some of these "
                f"columns, each once, with their types, in any order: {self.text}"
            )


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """Give the Arrow schema that Spark compares with that of the first batch."""
    return to_arrow_schema(schema, timezone="UTC")


class ColumnPiece(Protocol):
    """Rows that come together, with their bytes."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the rows, all columns together."""


AnyPiece = TypeVar("AnyPiece", bound=ColumnPiece)


def gathered(pieces: Iterable[AnyPiece], rows_max: int) -> Iterator[list[AnyPiece]]:
    """Give pieces in lists; a list of several keeps to ``rows_max`` and ``BATCH_BYTES_MAX``."""
    gathering: list[AnyPiece] = []
    rows = size_bytes = 0
    for piece in pieces:
        more_rows, more_bytes = piece.rows, piece.size_bytes
        if gathering and (
            rows + more_rows > rows_max
            or size_bytes + more_bytes > BATCH_BYTES_MAX
            or size_bytes >= GATHERED_BYTES
        ):
            yield gathering
            gathering, rows, size_bytes = [], 0, 0
        gathering.append(piece)
        rows, size_bytes = rows + more_rows, size_bytes + more_bytes
    if gathering:
        yield gathering
