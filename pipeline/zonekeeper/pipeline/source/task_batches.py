"""What a worker of Spark does with a task: connect once, read, and give Arrow batches."""

from collections.abc import Iterator

from pyspark.sql.types import StructType

from zonekeeper.pipeline.base import one_line, worker_client
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.reading import entry_rows, message_rows
from zonekeeper.pipeline.reading.columns import ColumnTypes, RecordBatch
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.pipeline.reading.slices import ReadTask
from zonekeeper.pipeline.reading.wanted import OneLog
from zonekeeper.pipeline.source import task_reading


def columns_of(wanted: ReadOptions) -> ColumnTypes:
    """Give the columns that there are of what is read."""
    return message_rows.COLUMNS if isinstance(wanted.wanted, OneLog) else entry_rows.COLUMNS


def connected(wanted: ReadOptions) -> KeptClient:
    """Give this process's client of the cluster that is read; reads the files of secrets."""
    return worker_client.kept(wanted.connection.metadata, wanted.connection.config())


def task_batches(wanted: ReadOptions, schema: StructType, task: ReadTask) -> Iterator[RecordBatch]:
    """Give the Arrow batches of a task."""
    if not task.slices:
        return
    with one_line.told():
        kept = connected(wanted)
        with task_reading.counted(kept):
            if task.span is None:
                read = task_reading.entries(kept, task)
                yield from entry_rows.batches(schema, read, wanted.rows_per_batch)
            else:
                pieces = task_reading.messages(kept, task)
                yield from message_rows.batches(schema, pieces, wanted.rows_per_batch)
