"""Parts of the jobs that copy logs, whose first task dies once: Spark's workers import them."""

from collections.abc import Iterator

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tests.pipeline import dying_sink
from zonekeeper.pipeline.jobs.log_hashing import HashedLog, HashedLogReader
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink.import_sink import ImportSink, ImportWriter
from zonekeeper.pipeline.sink.log_sink import PartWritten
from zonekeeper.pipeline.sink.mirror_sink import MirrorSink, MirrorWriter


class DyingHashedLog(HashedLog):
    """Its task dies when Spark has had all of its messages."""

    def reader(self, schema: StructType) -> "DyingHashedReader":
        plain = super().reader(schema)
        return DyingHashedReader(plain, schema)


class DyingHashedReader(HashedLogReader):
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        yield from super().read(partition)
        dying_sink.die("raise")


class DyingImportSink(ImportSink):
    """The task of the first ledger dies once, when it has written all."""

    def writer(self, schema: StructType, overwrite: bool) -> "DyingImportWriter":
        made = super().writer(schema, overwrite)
        return DyingImportWriter(made._options, made._task)


class DyingImportWriter(ImportWriter):
    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        made = super().write(iterator)
        if self._task.number == 0:
            dying_sink.die("exit")
        return made


class DyingMirrorSink(MirrorSink):
    """Its task dies once in each micro-batch, when it has written all."""

    DIES = "raise"

    @classmethod
    def name(cls) -> str:
        return f"dying-mirror-{cls.DIES}"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DyingMirrorWriter":  # noqa: N802 Spark's
        made = super().streamWriter(schema, overwrite)
        return DyingMirrorWriter(self.DIES, made)


class ExitingMirrorSink(DyingMirrorSink):
    DIES = "exit"


class DyingMirrorWriter(MirrorWriter):
    def __init__(self, dies: str, of: MirrorWriter) -> None:
        super().__init__(of._options, of._log_id)
        self._dies = dies

    def write(self, iterator: Iterator[RecordBatch]) -> PartWritten:
        written = super().write(iterator)
        assert TaskContext.get() is not None
        dying_sink.die(self._dies)
        return written
