"""The sink of an import: one task writes some messages into a ledger, which comes in later.

Spark's commit does not publish here. It puts the part of the task into a file of the driver's
machine, where the job takes it from. So the job publishes the parts of all its tasks in one step.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from zonekeeper.log.publishing.partitions import BatchPart, QueryBatch
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.base.one_line import NotWritten
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import mirror_sink, part_writing, sink_options
from zonekeeper.pipeline.sink.log_sink import PartWritten
from zonekeeper.pipeline.sink.sink_options import SinkOptions

_OWN: Final = ("importquery", "importrun", "importbegins", "importnumber", "importfirst")
_FILE: Final = "importfile"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTask:
    """What a task of an import writes."""

    of: QueryBatch
    #: The number of the task: its ledger is behind those of the tasks with lower ones.
    number: int
    #: The sequence of its first message.
    first: int
    #: Where the commit puts the part.
    file: str

    def options(self) -> dict[str, str]:
        """Give the task as options of the sink."""
        of = self.of
        values = (of.run.query, of.run.run, of.begins_at, self.number, self.first)
        return {**dict(zip(_OWN, map(str, values), strict=True)), _FILE: self.file}


def task_of(log: str, texts: Mapping[str, str]) -> ImportTask:
    """Read what ``ImportTask.options`` gave."""
    query, run, begins, number, first = (texts[name] for name in _OWN)
    of = QueryBatch(
        log=log, run=QueryRun(query=query, run=run), batch=0, is_job=True, begins_at=int(begins)
    )
    return ImportTask(of=of, number=int(number), first=int(first), file=texts[_FILE])


class ImportSink(DataSource):
    """The sink as a data source; an import alone uses it."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-log-import"

    def writer(self, schema: StructType, overwrite: bool) -> "ImportWriter":
        """Give the writer of a task."""
        assert tuple(schema.names) == mirror_sink.COLUMNS, "the import selects them"
        assert not overwrite, "an import appends"
        texts = {name.lower(): text for name, text in self.options.items()}
        own = {name: texts.pop(name) for name in (*_OWN, _FILE)}
        with one_line.told(NotWritten):
            options = sink_options.parse(texts)
        return ImportWriter(options, task_of(options.log, own))


class ImportWriter(DataSourceArrowWriter):
    """Writes the messages of a task, in order."""

    def __init__(self, options: SinkOptions, task: ImportTask) -> None:
        self._options = options
        self._task = task

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        """Write the messages, on an executor."""
        with one_line.told(NotWritten, f"log {self._options.log}"):
            return PartWritten(written(self._options, self._task, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Put the part where the job looks for it."""
        (part,) = (one.part for one in messages if isinstance(one, PartWritten))
        Path(self._task.file).write_bytes(pickle.dumps(part))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: the job deletes the log."""


def written(options: SinkOptions, task: ImportTask, batches: Iterable[RecordBatch]) -> BatchPart:
    """Write the messages of a task."""
    some = (batch for batch in batches if batch.num_rows)
    many = mirror_sink.dense(task.first, some)
    # Ledgers alone come in by the order of their ids, so no partition is a small one.
    return part_writing.written(options, task.of, task.number, many, small_bytes=0)


def part_of(task: ImportTask) -> BatchPart:
    """Take the part of a task that Spark has committed."""
    part: BatchPart = pickle.loads(Path(task.file).read_bytes())  # noqa: S301 our commit wrote it
    return part
