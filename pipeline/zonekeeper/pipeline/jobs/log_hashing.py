"""Hash the messages of a log where they are read, and those of its Parquet files.

``HashedLog`` is the source of logs with four columns more, which are the digest of each message.
So what a task reads is hashed there, before Spark or a file has it. The sums of many messages are
made in Spark, by the same functions for a log and for files.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import LongType, StructField, StructType

from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.pipeline.planning import copy_options
from zonekeeper.pipeline.reading import columns, message_rows
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.reports import message_hash
from zonekeeper.pipeline.reports.import_plan import ExportDamaged, ExportedLedger
from zonekeeper.pipeline.reports.message_hash import MessageSums
from zonekeeper.pipeline.source.data_source import LedgerReader, LedgerSource

#: A digest as four numbers of 64 bits.
LANES: Final = ("hash0", "hash1", "hash2", "hash3")
_LANES: Final = struct.Struct(f">{len(LANES)}q")
_US: Final = 1_000
#: The columns that are hashed, in the order of the parameters.
HASHED: Final = ("sequence", "time", "payload", "key", "headers")
_DIGEST: Final = StructType([StructField(lane, LongType()) for lane in LANES])


class HashedLog(LedgerSource):
    """The source of logs, with the digest of each message."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-hashed-log"

    def schema(self) -> StructType:
        """Give all columns of a log, and those of the digest."""
        every = message_rows.COLUMNS.schema().fields
        return StructType([*every, *_DIGEST.fields])

    def reader(self, schema: StructType) -> "HashedLogReader":
        """Give a reader of all columns."""
        plain = super().reader(message_rows.COLUMNS.schema())
        return HashedLogReader(plain, schema)


class HashedLogReader(LedgerReader):
    """Reads as the reader of logs does, and hashes."""

    def __init__(self, plain: LedgerReader, schema: StructType) -> None:
        super().__init__(plain._wanted, plain._schema)  # noqa: SLF001 a reader of the same things
        self._hashed = schema

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Give what a task was given, each message with its digest."""
        arrow = columns.arrow_schema(self._hashed)
        for batch in super().read(partition):
            lanes = lanes_of(digests(*(batch.column(name) for name in HASHED)))
            yield pyarrow.RecordBatch.from_arrays([*batch.columns, *lanes], schema=arrow)


def hashed(
    spark: SparkSession, connection: ConnectionOptions, log: str, first: int, end: int
) -> DataFrame:
    """Give the messages ``first <= sequence < end`` of a log, of which there is one at least."""
    spark.dataSource.register(HashedLog)
    options = copy_options.for_spark(connection)
    places = {"from": f"sequence:{first}", "to": f"sequence:{end - 1}"}
    return spark.read.format(HashedLog.name()).options(**options, log=log, **places).load()


def digest_lanes(
    sequence: pyarrow.Array,
    time: pyarrow.Array,
    payload: pyarrow.Array,
    key: pyarrow.Array,
    headers: pyarrow.Array,
) -> pyarrow.Array:
    """Give the digest of each message, as a function of Spark over columns of Arrow."""
    with one_line.told():
        lanes = lanes_of(digests(sequence, time, payload, key, headers))
    return pyarrow.StructArray.from_arrays(lanes, names=list(LANES))


def lanes_of(made: Sequence[bytes]) -> list[pyarrow.Array]:
    """Give digests as four columns of numbers."""
    numbers = [_LANES.unpack(one) for one in made]
    return [
        pyarrow.array([one[at] for one in numbers], pyarrow.int64()) for at in range(len(LANES))
    ]


def digests(
    sequence: pyarrow.Array,
    time: pyarrow.Array,
    payload: pyarrow.Array,
    key: pyarrow.Array,
    headers: pyarrow.Array,
) -> list[bytes]:
    """Give the digest of each message."""
    needed = {"sequence": sequence, "time": time, "payload": payload, "headers": headers}
    for name, column in needed.items():
        if column.null_count:
            raise ExportDamaged(f"a message has no {name} (null), and each has one")
    times = time.cast(pyarrow.int64()).to_pylist()
    columns = (sequence.to_pylist(), times, payload.to_pylist(), key.to_pylist(), _headers(headers))
    try:
        return [
            message_hash.digest(number, us // _US, data, name, some)
            for number, us, data, name, some in zip(*columns, strict=True)
        ]
    except struct.error as error:
        raise ExportDamaged(f"a message has a sequence or a time that none has: {error}") from error


def _headers(found: pyarrow.Array) -> list[list[tuple[bytes, bytes]]]:
    return [[(one["name"].encode(), one["value"]) for one in many] for many in found.to_pylist()]


def ledgers_of(files: DataFrame) -> list[ExportedLedger]:
    """Hash the messages in Parquet files, by the ledgers that they were in."""
    key_bytes = sql.coalesce(sql.octet_length("key"), sql.lit(0))
    # Its hints say which kind of function it is; a kind that is given would be a warning.
    digest = arrow_udf(digest_lanes, _DIGEST)  # type: ignore[call-overload]  # no stub for that
    rows = (
        files.select(
            "ledger",
            "sequence",
            sql.unix_millis("time").alias("ms"),
            (sql.octet_length("payload") + key_bytes).alias("size_bytes"),
            digest(*HASHED).alias("digest"),
        )
        .select("*", "digest.*")
        .groupBy("ledger")
        .agg(
            *totals(),
            sql.sum("size_bytes").alias("size_bytes"),
            sql.min("ms").alias("first_ms"),
            sql.max("ms").alias("last_ms"),
        )
        .collect()
    )
    return [
        ExportedLedger(
            ledger=row["ledger"],
            sums=sums_of(row),
            size_bytes=row["size_bytes"],
            first_ms=row["first_ms"],
            last_ms=row["last_ms"],
        )
        for row in rows
    ]


def totals() -> list[Column]:
    """Give the sums of the messages of ``hashed``, as columns of one row."""
    return [
        sql.count(sql.lit(1)).alias("messages"),
        sql.min("sequence").alias("first"),
        (sql.max("sequence") + 1).alias("end"),
        *map(_xor, LANES),
    ]


def sums_of(row: Row | dict[str, int]) -> MessageSums:
    """Read a row of sums that has a message."""
    return MessageSums(
        messages=row["messages"],
        first=row["first"],
        end=row["end"],
        hash=_LANES.pack(*(row[lane] for lane in LANES)),
    )


def _xor(lane: str) -> Column:
    return sql.bit_xor(lane).alias(lane)
