"""A source whose first task dies once, behind its first batch: Spark's workers import it.

``dies`` says how: ``raise`` raises, ``exit`` ends the worker without a word.
"""

import os
from collections.abc import Iterator

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.source.data_source import LedgerReader, LedgerSource


class DyingSource(LedgerSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def _taken(self) -> tuple[str, LedgerSource]:
        given = dict(self.options)
        return given.pop("dies"), LedgerSource(given)

    def schema(self) -> StructType:
        return self._taken()[1].schema()

    def reader(self, schema: StructType) -> LedgerReader:
        dies, source = self._taken()
        made = source.reader(schema)
        return DyingReader(dies, made._wanted, schema)


class DyingReader(LedgerReader):
    def __init__(self, dies: str, *of_reader: object) -> None:
        super().__init__(*of_reader)  # type: ignore[arg-type]  # the fields of another reader
        self._dies = dies

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in super().read(partition):
            yield batch
            if context.attemptNumber() == 0 and context.partitionId() == 0:
                if self._dies == "exit":
                    os._exit(9)
                raise RuntimeError("the first attempt dies")
