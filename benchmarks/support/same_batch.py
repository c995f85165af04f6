"""A source of Spark that gives one Arrow batch again and again: the ceiling of any source.

``rows`` of ``bytes`` each, ``batches`` times in each of ``tasks`` tasks. Spark's workers import it.
"""

from array import array
from collections.abc import Iterator

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from zonekeeper.pipeline.reading import columns
from zonekeeper.pipeline.reading.columns import RecordBatch

SCHEMA = StructType([StructField("number", LongType()), StructField("payload", BinaryType())])


class SameBatchSource(DataSource):
    """Gives what its options say."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "same_batch"

    def schema(self) -> StructType:
        """Give two columns, as of entries and messages."""
        return SCHEMA

    def reader(self, schema: StructType) -> "SameBatchReader":
        """Give a reader."""
        given = {name: int(text) for name, text in self.options.items()}
        return SameBatchReader(given["rows"], given["bytes"], given["batches"], given["tasks"])


class SameBatchReader(DataSourceReader):
    """Makes the batch once a task."""

    def __init__(self, rows: int, size: int, batches: int, tasks: int) -> None:
        self._rows = rows
        self._size = size
        self._batches = batches
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """Give the tasks."""
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Give the batch so often."""
        rows, size = self._rows, self._size
        numbers = pyarrow.py_buffer(array("q", range(rows)))
        ends = pyarrow.py_buffer(array("i", range(0, (rows + 1) * size, size)))
        data = pyarrow.py_buffer(bytes(rows * size))
        batch = pyarrow.RecordBatch.from_arrays(
            [
                pyarrow.Array.from_buffers(pyarrow.int64(), rows, [None, numbers]),
                pyarrow.Array.from_buffers(pyarrow.binary(), rows, [None, ends, data]),
            ],
            schema=columns.arrow_schema(SCHEMA),
        )
        for _ in range(self._batches):
            yield batch
