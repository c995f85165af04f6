"""A repair whose first task dies once, in the middle of its ledgers: Spark's workers import it."""

import os
from collections.abc import Iterator
from typing import Final

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from zonekeeper.pipeline.jobs.zone_repair import RepairReader, ZoneRepairSource
from zonekeeper.pipeline.planning.job_source import Row

#: The first task ends without a word behind so many ledgers.
DIES_BEHIND: Final = 20


class DyingRepairSource(ZoneRepairSource):
    @classmethod
    def name(cls) -> str:
        return "dying-zone-repair"

    def reader(self, schema: StructType) -> "DyingRepairReader":
        made = super().reader(schema)
        return DyingRepairReader(self, made._plan, made._shares)


class DyingRepairReader(RepairReader):
    def read(self, partition: InputPartition) -> Iterator[Row]:
        context = TaskContext.get()
        assert context is not None
        for number, row in enumerate(super().read(partition)):
            if number == DIES_BEHIND and context.attemptNumber() == context.partitionId() == 0:
                os._exit(9)
            yield row
