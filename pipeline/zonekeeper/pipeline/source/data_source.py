"""The data source ``zonekeeper``: ledgers, or a log, as a DataFrame; and a sink into a log.

Spark finds it by its name: the module ``pyspark_zonekeeper`` is installed with this package. Spark
creates the source and plans in processes beside the driver, and reads in workers on the executors.
Only options and slices go from one to the other. The tasks of a worker share a client.

What is read is fixed when it is planned, so a task that runs again gives the same rows. The source
takes no filters from Spark; ``options`` says why. ``tables`` says how the options of a table in SQL
get here, and ``one_line`` how a trouble gets to the person. What is written is the matter of the
room ``sink``.
"""

from collections.abc import Iterator

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.reading import options, tables
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.pipeline.sink import log_sink
from zonekeeper.pipeline.sink.log_sink import LogJobWriter, LogStreamWriter
from zonekeeper.pipeline.source import planning
from zonekeeper.pipeline.source.stream_reader import LogStreamReader, RefusedStream
from zonekeeper.pipeline.source.task_batches import columns_of, connected, task_batches
from zonekeeper.placement.base.troubles import Trouble


class LedgerSource(DataSource):
    """The source that Spark creates for ``spark.read.format("zonekeeper")`` and its options."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper"

    def schema(self) -> StructType:
        """Give the schema with all columns; refuse wrong options."""
        with one_line.told():
            of_table = tables.of_creation(self.options, self.name())
            wanted = options.parse(self.options if of_table is None else of_table)
            every = columns_of(wanted).schema()
            return every if of_table is None else tables.with_options(every, of_table)

    def reader(self, schema: StructType) -> "LedgerReader":
        """Give a reader of the columns of a schema."""
        with one_line.told():
            wanted = options.parse(tables.of_read(self.options, schema))
            options.check_batch(wanted)
            columns_of(wanted).check(schema)
            return LedgerReader(wanted, schema)

    def streamReader(self, schema: StructType) -> "LogStreamReader | RefusedStream":  # noqa: N802 Spark's name
        """Give a reader of a log as a stream.

        Spark 4.3 hides an error that is raised here behind one of its own. So a refusal is raised
        at the first question instead.
        """
        try:
            wanted = options.parse(tables.of_read(self.options, schema))
            log = options.check_stream(wanted)
            columns_of(wanted).check(schema)
        except Trouble as error:
            return RefusedStream(error)
        return LogStreamReader(wanted, log, schema)

    def writer(self, schema: StructType, overwrite: bool) -> LogJobWriter:
        """Give a writer of rows into a log; refuse what cannot be written before any row moves."""
        return log_sink.of_job(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:  # noqa: N802 Spark's
        """Give a writer of a stream into a log."""
        return log_sink.of_stream(self.options, schema, overwrite=overwrite)


class LedgerReader(DataSourceReader):
    """A reader that plans once, beside the driver, and reads on the executors."""

    def __init__(self, wanted: ReadOptions, schema: StructType) -> None:
        self._wanted = wanted
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Give the slices of each task."""
        with one_line.told():
            kept = connected(self._wanted)
            tasks = kept.calls.do(lambda: planning.planned(kept.opened, self._wanted))
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Give what a task was given, each entry checked against its digest."""
        return task_batches(self._wanted, self._schema, partition.value)
