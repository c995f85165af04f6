"""The writers that Spark makes: a job, which is a batch query, and a stream.

Spark runs ``write`` on the executors, perhaps several times for a partition, and ``commit`` or
``abort`` once in a process beside the driver, with one message of each partition. Each batch of a
query comes into the log once, whatever runs again (``log.publishing``).

- A stream is known by Spark's id of the query, which its checkpoint keeps, and by that of the run,
  which every start has anew. Tasks find both among the properties of their job, with the number
  of the micro-batch. The object that commits is another one than those that wrote.
- A job has an id of its own, made with the writer. The same object writes and commits, as a copy.
  A job that failed is ended, so that nothing of it comes in later.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from zonekeeper.log.base.errors import BadBatch
from zonekeeper.log.publishing.partitions import BatchPart, QueryBatch
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.base.one_line import NotWritten
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import part_writing, sink_columns, sink_options
from zonekeeper.pipeline.sink.sink_options import SinkOptions

#: Spark's properties of a task of a stream. The group of its jobs is the id of the run.
QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
RUN: Final = "spark.jobGroup.id"
_TOKEN_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class PartWritten(WriterCommitMessage):
    """What a task hands to the commit."""

    part: BatchPart


_Messages: TypeAlias = Sequence[WriterCommitMessage | None]


def of_job(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> "LogJobWriter":
    """Give the writer of a batch query, if the log can be written so."""
    with one_line.told(NotWritten):
        options = _checked(given, schema, overwrite=overwrite)
        part_writing.check_log(options)
    return LogJobWriter(options, f"job-{secrets.token_hex(_TOKEN_BYTES)}")


def of_stream(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> "LogStreamWriter":
    """Give the writer of a stream. Spark asks for one with each micro-batch, so none connects."""
    with one_line.told(NotWritten):
        return LogStreamWriter(_checked(given, schema, overwrite=overwrite))


def _checked(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    options = sink_options.parse(given)
    if overwrite:
        raise sink_options.refuse_overwrite(options.log)
    sink_columns.check(schema)
    return options


class LogJobWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query into a log, in one step."""

    def __init__(self, options: SinkOptions, job: str) -> None:
        self._options = options
        self._job = job

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        """Write a partition, on an executor."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            run = QueryRun(query=self._job, run="1")
            of = QueryBatch(log=self._options.log, run=run, batch=0, is_job=True)
            return PartWritten(
                part_writing.written(self._options, of, _task().partitionId(), iterator)
            )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish all partitions in one step."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            part_writing.published(self._options, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Note that nothing of this job comes into the log any more."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            part_writing.ended(self._options, self._job)


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream into a log, each once and in one step."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        """Write a partition of a micro-batch, on an executor."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            task = _task()
            of = batch_of(self._options.log, task)
            return PartWritten(
                part_writing.written(self._options, of, task.partitionId(), iterator)
            )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's
        """Publish a micro-batch in one step; one that the log has already is discarded."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            parts = _parts(messages)
            check_batch(parts, batchId)
            part_writing.published(self._options, parts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's
        """Do nothing: the next run writes this micro-batch again."""


def batch_of(log: str, task: TaskContext) -> QueryBatch:
    """Say which batch of which query a task of a stream writes."""
    query, run, batch = (task.getLocalProperty(name) for name in (QUERY, RUN, BATCH))
    if not query or not run or batch is None or not batch.isdigit():
        raise BadBatch(
            f"log {log}: Spark gave this task no {QUERY}, {RUN} or {BATCH} ({query}, {run}, "
            f"{batch}), so a micro-batch that comes again would not be known; nothing was written: "
            "write from a query of Spark 4.3 or later, by writeStream"
        )
    return QueryBatch(log=log, run=QueryRun(query=query, run=run), batch=int(batch))


def check_batch(parts: Sequence[BatchPart | None], batch: int) -> None:
    """Hold that the parts are of the batch that Spark commits."""
    for part in parts:
        if part is not None and part.of.batch != batch:
            raise BadBatch(
                f"log {part.of.log}: Spark commits batch {batch}, and a part is of batch "
                f"{part.of.batch}; nothing was published; run the query again"
            )


def _parts(messages: _Messages) -> list[BatchPart | None]:
    return [one.part if isinstance(one, PartWritten) else None for one in messages]


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    return task
