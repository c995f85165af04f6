"""A sink of which a task dies once, when it has written all: Spark's workers import it.

``dies`` says how: ``raise`` raises, ``exit`` ends the worker without a word, ``always`` raises in
every attempt.
"""

import os
from collections.abc import Iterator

from pyspark import TaskContext
from pyspark.sql.types import StructType

from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import log_sink
from zonekeeper.pipeline.sink.log_sink import LogJobWriter, LogStreamWriter, PartWritten
from zonekeeper.pipeline.source.data_source import LedgerSource


class DyingSink(LedgerSource):
    @classmethod
    def name(cls) -> str:
        return "dying_sink"

    def writer(self, schema: StructType, overwrite: bool) -> LogJobWriter:
        given = dict(self.options)
        dies = given.pop("dies")
        made = log_sink.of_job(given, schema, overwrite=overwrite)
        return DyingJobWriter(dies, made)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:  # noqa: N802 Spark's
        given = dict(self.options)
        dies = given.pop("dies")
        return DyingStreamWriter(dies, log_sink.of_stream(given, schema, overwrite=overwrite))


class DyingJobWriter(LogJobWriter):
    def __init__(self, dies: str, of: LogJobWriter) -> None:
        super().__init__(of._options, of._job)
        self._dies = dies

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        written = super().write(iterator)
        die(self._dies)
        return written


class DyingStreamWriter(LogStreamWriter):
    def __init__(self, dies: str, of: LogStreamWriter) -> None:
        super().__init__(of._options)
        self._dies = dies

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        written = super().write(iterator)
        die(self._dies)
        return written


def die(dies: str) -> None:
    context = TaskContext.get()
    assert context is not None
    if dies != "always" and (context.attemptNumber() or context.partitionId()):
        return
    if dies == "exit":
        os._exit(9)
    raise RuntimeError("this attempt dies")
