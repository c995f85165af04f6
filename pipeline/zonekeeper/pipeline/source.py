"""The data source ``zonekeeper``: a closed ledger as a DataFrame.

``spark.dataSource.register(LedgerSource)`` makes it known to a session. Spark creates the source
and plans in short-lived processes beside the driver, and reads in workers on the executors; what
goes from one to the other is the options and ranges of entries. Each task has a client of its own.

A closed ledger never changes, so neither does the DataFrame: a task that runs again gives the same
rows. Filters are not taken over from Spark; ``options`` says why.
"""

from collections.abc import Iterator

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zonekeeper.client.api import blocking
from zonekeeper.pipeline import entry_ranges, options, rows
from zonekeeper.pipeline.options import ReadOptions
from zonekeeper.pipeline.rows import RecordBatch


class LedgerSource(DataSource):
    """What Spark makes of ``spark.read.format("zonekeeper")`` and its options."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper"

    def schema(self) -> str:
        """Give all columns."""
        options.parse(self.options)
        return rows.SCHEMA

    def reader(self, schema: StructType) -> "LedgerReader":
        """Give a reader of the columns that are wanted."""
        rows.check(schema)
        return LedgerReader(options.parse(self.options), schema)


class LedgerReader(DataSourceReader):
    """Plans once, beside the driver; reads on the executors."""

    def __init__(self, wanted: ReadOptions, schema: StructType) -> None:
        self._wanted = wanted
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Give a range of entries for each task; looks at metadata only."""
        wanted = self._wanted
        with blocking.connect(wanted.metadata) as client:
            ranges = entry_ranges.plan(client.metadata(wanted.ledger), wanted)
            # Refuses a wrong password here and once, not in every attempt of every task.
            client.open(wanted.ledger, password=wanted.password, recover=False)
        return [InputPartition(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Give a range's entries, each checked against its digest."""
        part: range = partition.value
        if not part:
            return
        wanted = self._wanted
        with blocking.connect(wanted.metadata) as client:
            reader = client.open(wanted.ledger, password=wanted.password, recover=False)
            entries = reader.read_entries(part[0], part[-1])
            yield from rows.batches(self._schema, entries, wanted.rows_per_batch)
