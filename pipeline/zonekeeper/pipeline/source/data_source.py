"""The data source ``zonekeeper``: a closed ledger as a DataFrame.

``spark.dataSource.register(LedgerSource)`` makes it known to a session. Spark creates the source
and plans in short-lived processes beside the driver, and reads in workers on the executors. Only
the options and ranges of entries go from one to the other. Each task has a client of its own.

A closed ledger never changes, so the DataFrame does not change either: a task that runs again gives
the same rows. The source takes no filters from Spark; ``options`` says why. ``tables`` says how the
options of a table in SQL get here, and ``one_line`` how a trouble gets to the person.
"""

from collections.abc import Iterator

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zonekeeper.client.api import blocking
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.reading import entry_ranges, options, rows, tables
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.pipeline.reading.rows import RecordBatch


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
            options.parse(self.options if of_table is None else of_table)
            every = rows.schema()
            return every if of_table is None else tables.with_options(every, of_table)

    def reader(self, schema: StructType) -> "LedgerReader":
        """Give a reader of the columns of a schema."""
        with one_line.told():
            rows.check(schema)
            return LedgerReader(options.parse(tables.of_read(self.options, schema)), schema)


class LedgerReader(DataSourceReader):
    """A reader that plans once, beside the driver, and reads on the executors."""

    def __init__(self, wanted: ReadOptions, schema: StructType) -> None:
        self._wanted = wanted
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Give a range of entries for each task; reads metadata, and no entry."""
        wanted = self._wanted
        with one_line.told(), blocking.connect(wanted.metadata) as client:
            ranges = entry_ranges.plan(client.metadata(wanted.ledger), wanted)
            # A wrong password is refused here once, and not in every attempt of every task.
            client.open(wanted.ledger, password=wanted.password, recover=False)
        return [InputPartition(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Give a range's entries, each checked against its digest."""
        part: range = partition.value
        if not part:
            return
        wanted = self._wanted
        with one_line.told(), blocking.connect(wanted.metadata) as client:
            reader = client.open(wanted.ledger, password=wanted.password, recover=False)
            entries = reader.read_entries(part[0], part[-1])
            yield from rows.batches(self._schema, entries, wanted.rows_per_batch)
