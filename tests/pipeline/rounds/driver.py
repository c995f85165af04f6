"""A driver of Spark for the rounds, which runs one query after the other.

It says ``ready``, and for each line of its input, which is a ``RunWanted``, runs a query to the end
that its log has then: ``done BATCHES``, or ``failed WHY``. It ends with its JVM, without a word.
"""

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.pipeline.rounds.faulty import FaultySource
from tests.pipeline.rounds.queries import QUERIES
from tests.support.checkout_root import ROOT
from tests.support.python_process import tell
from zonekeeper.pipeline.demo import local_spark

LIMIT_S = 300
EXECUTORS = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunWanted:
    """One run of a query."""

    query: str
    metadata: str
    of: str
    to: str
    checkpoint: str
    armed: str
    rows: int

    def run(self, spark: SparkSession) -> str:
        """Run it to its end, and say what came of it."""
        given = {
            "metadata": self.metadata,
            "log": self.of,
            "cursor": "rounds",
            "maxRowsPerTrigger": str(self.rows),
            "partitions": str(EXECUTORS),
        }
        frame = spark.readStream.format("zonekeeper").options(**given).load()
        try:
            query = (
                QUERIES[self.query]
                .of(frame)
                .writeStream.format("faulty")
                .options(metadata=self.metadata, log=self.to, armed=self.armed)
                .option("checkpointLocation", self.checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            if not query.awaitTermination(LIMIT_S):
                return f"failed the query is not done after {LIMIT_S} s"
        except PySparkException as error:
            return "failed " + " ".join(str(error).split())
        return f"done {len(query.recentProgress)}"


def main() -> None:
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory(prefix="rounds-", ignore_cleanup_errors=True) as folder:
        settings = {"spark.executorEnv.PYTHONPATH": str(ROOT)}
        with local_spark.session(Path(folder), "rounds", EXECUTORS, settings) as spark:
            spark.dataSource.register(FaultySource)
            tell(f"ready {local_spark.driver()}")
            for line in sys.stdin:
                tell(RunWanted(**json.loads(line)).run(spark))


if __name__ == "__main__":
    main()
