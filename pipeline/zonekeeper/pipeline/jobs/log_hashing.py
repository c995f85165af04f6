"""Hash the messages of a log where they are read, and those of its Parquet files.

``HashedLog`` is the source of logs with four columns more, which are the digest of each message.
So what a task reads is hashed there, before Spark or a file has it. The sums of many messages are
made in Spark, by the same functions for a log and for files.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import pyarrow
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import InputPartition
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
_NEEDED: Final = ("ledger", "sequence", "time", "payload", "headers")
_PIECES: Final = (
    "ledger bigint, messages bigint, first bigint, end bigint, first_ms bigint, last_ms bigint, "
    "size_bytes bigint, " + ", ".join(f"{lane} bigint" for lane in LANES)
)


class HashedLog(LedgerSource):
    """The source of logs, with the digest of each message."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-hashed-log"

    def schema(self) -> StructType:
        """Give all columns of a log, and those of the digest."""
        every = message_rows.COLUMNS.schema().fields
        return StructType([*every, *(StructField(lane, LongType()) for lane in LANES)])

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
            numbers = [_LANES.unpack(one) for one in digests(batch)]
            lanes = [pyarrow.array(lane, pyarrow.int64()) for lane in zip(*numbers, strict=True)]
            yield pyarrow.RecordBatch.from_arrays([*batch.columns, *lanes], schema=arrow)


def hashed(
    spark: SparkSession, connection: ConnectionOptions, log: str, first: int, end: int
) -> DataFrame:
    """Give the messages ``first <= sequence < end`` of a log, of which there is one at least."""
    spark.dataSource.register(HashedLog)
    options = copy_options.for_spark(connection)
    places = {"from": f"sequence:{first}", "to": f"sequence:{end - 1}"}
    return spark.read.format(HashedLog.name()).options(**options, log=log, **places).load()


def digests(batch: RecordBatch) -> list[bytes]:
    """Give the digest of each message of a batch that has the columns of a log."""
    for name in _NEEDED:
        if batch.column(name).null_count:
            raise ExportDamaged(f"a message has no {name} (null), and each has one")
    sequences, payloads = batch.column("sequence").to_pylist(), batch.column("payload").to_pylist()
    keys = batch.column("key").to_pylist()
    try:
        return [
            message_hash.digest(sequences[at], wall_ms, payloads[at], keys[at], headers)
            for at, (wall_ms, headers) in enumerate(zip(times(batch), _headers(batch), strict=True))
        ]
    except struct.error as error:
        raise ExportDamaged(f"a message has a sequence or a time that none has: {error}") from error


def times(batch: RecordBatch) -> list[int]:
    """Give the time of each message, in milliseconds."""
    return [one // _US for one in batch.column("time").cast(pyarrow.int64()).to_pylist()]


def _headers(batch: RecordBatch) -> list[list[tuple[bytes, bytes]]]:
    found = batch.column("headers")
    return [[(one["name"].encode(), one["value"]) for one in many] for many in found.to_pylist()]


def pieces(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Give the sums of each run of messages that were in one ledger; Spark's tasks call it."""
    with one_line.told():
        for batch in batches:
            made = list(_pieces(batch))
            names = _PIECES.replace(" bigint", "").split(", ")
            arrays = [pyarrow.array(one, pyarrow.int64()) for one in zip(*made, strict=True)]
            if made:
                yield pyarrow.RecordBatch.from_arrays(arrays, names=names)


def _pieces(batch: RecordBatch) -> Iterator[tuple[int, ...]]:
    ledgers, sequences = batch.column("ledger").to_pylist(), batch.column("sequence").to_pylist()
    made, wall_ms, sizes = digests(batch), times(batch), _sizes(batch)
    for ledger, run in groupby(range(len(ledgers)), key=ledgers.__getitem__):
        some = list(run)
        low, high = some[0], some[-1] + 1
        yield (
            ledger,
            len(some),
            min(sequences[low:high]),
            max(sequences[low:high]) + 1,
            min(wall_ms[low:high]),
            max(wall_ms[low:high]),
            sum(sizes[low:high]),
            *_LANES.unpack(message_hash.combined(made[low:high])),
        )


def _sizes(batch: RecordBatch) -> list[int]:
    payloads, keys = batch.column("payload").to_pylist(), batch.column("key").to_pylist()
    return [
        len(payload) + len(key or b"") + sum(len(name) + len(value) for name, value in headers)
        for payload, key, headers in zip(payloads, keys, _headers(batch), strict=True)
    ]


def ledgers_of(files: DataFrame) -> list[ExportedLedger]:
    """Hash the messages in Parquet files, by the ledgers that they were in."""
    rows = (
        files.mapInArrow(pieces, _PIECES)
        .groupBy("ledger")
        .agg(
            *(sql.sum(name).alias(name) for name in ("messages", "size_bytes")),
            *(sql.min(name).alias(name) for name in ("first", "first_ms")),
            *(sql.max(name).alias(name) for name in ("end", "last_ms")),
            *map(_xor, LANES),
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
