"""The sink of a mirror: each message gets the sequence that it has in the log that is followed.

The query of a mirror is named after the log that is followed, not after the checkpoint, and a
batch's number is the sequence of its first message. So how far a mirror is stands in the log that
it writes, and moves in the step that brings a batch in. A micro-batch that Spark repeats is known.
A batch that comes neither again nor right behind the last message is refused
(``log.publishing.partitions``). So whatever a checkpoint says, nothing is lost and nothing comes in
twice.

A micro-batch is one partition, so its order is that of the log.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from zonekeeper.log.base.errors import BadBatch
from zonekeeper.log.publishing.partitions import BatchPart, IdlePartition, QueryBatch
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.base.one_line import NotWritten
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import log_sink, part_writing, sink_options
from zonekeeper.pipeline.sink.log_sink import PartWritten
from zonekeeper.pipeline.sink.sink_options import SinkOptions

#: The columns that the sink takes.
COLUMNS: Final = ("sequence", "time", "key", "payload", "headers")
#: The option that has the id of the log that is followed.
OF: Final = "mirrorOf"


def query_of(log_id: str) -> str:
    """Give the query of all mirrors of a log."""
    return f"mirror-{log_id}"


class MirrorSink(DataSource):
    """The sink as a data source; a mirror alone uses it."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-log-mirror"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "MirrorWriter":  # noqa: N802 Spark's
        """Give a writer of a micro-batch."""
        del overwrite
        assert tuple(schema.names) == COLUMNS, "the mirror selects them"
        with one_line.told(NotWritten):
            return MirrorWriter(*options_of(self.options))


def options_of(given: Mapping[str, str]) -> tuple[SinkOptions, str]:
    """Read the options that the mirror gives: the log that is written, and that which is read."""
    texts = {name.lower(): text for name, text in given.items()}
    log_id = texts.pop(OF.lower())
    return sink_options.parse(texts), log_id


class MirrorWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a mirror."""

    def __init__(self, options: SinkOptions, log_id: str) -> None:
        self._options = options
        self._log_id = log_id

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        """Write a micro-batch, on an executor."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            task = TaskContext.get()
            assert task is not None, "Spark writes in tasks"
            run = task.getLocalProperty(log_sink.RUN)
            if not run:
                raise BadBatch(
                    f"Spark gave this task no {log_sink.RUN}; nothing was written: mirror with "
                    "Spark 4.3 or later"
                )
            of = QueryRun(query=query_of(self._log_id), run=run)
            return PartWritten(mirrored(self._options, of, task.partitionId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's
        """Publish a micro-batch in one step; one that the log has already is discarded."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            parts = [one.part if isinstance(one, PartWritten) else None for one in messages]
            part_writing.published(self._options, parts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's
        """Do nothing: the next run writes these messages again."""


def mirrored(
    options: SinkOptions, run: QueryRun, partition: int, batches: Iterable[RecordBatch]
) -> BatchPart:
    """Write the messages of a micro-batch; the first one says which batch it is."""
    some = (batch for batch in batches if batch.num_rows)
    begun = next(some, None)
    if begun is None:
        return IdlePartition(of=QueryBatch(log=options.log, run=run, batch=0), partition=partition)
    first: int = begun.column("sequence")[0].as_py()
    of = QueryBatch(log=options.log, run=run, batch=first, begins_at=first)
    return part_writing.written(options, of, partition, dense(first, chain([begun], some)))


def dense(first: int, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Give batches whose sequences follow one another; raises ``BadBatch`` for any other."""
    following = first
    for batch in batches:
        found = batch.column("sequence").to_pylist()
        if found != list(range(following, following + len(found))):
            raise BadBatch(
                f"message {following} is to come, and there are {len(found)} from {found[0]} to "
                f"{found[-1]}: the messages do not come in order, each once; nothing was written"
            )
        following += len(found)
        yield batch
