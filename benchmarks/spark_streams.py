"""What Spark's sink and its micro-batches cost over a ``LogWriter`` and over Spark's own source.

    python -m benchmarks.spark_streams [--rounds 5] [--entries 100000]

Every round runs every case once, in a new order, on the same three bookies.

- The sink: thousands of rows per CPU-second of the writing side: this process for ``LogWriter``,
  and for Spark the JVM with all Python processes. The rows come from a batch that is made once. A
  query's fixed cost, and what Spark takes to bring the rows to a sink that does nothing, are off.
- A micro-batch of 100 rows, from a log and from Spark's ``rate-micro-batch``, into a sink that does
  nothing: the median of a query's triggers in milliseconds, behind the first few.
"""

import argparse
import asyncio
import os
import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks import spark as reading
from benchmarks.spark import Bench
from benchmarks.support import measuring, process_tree, rounds, three_bookies
from benchmarks.support.process_tree import TreeClock
from benchmarks.support.rounds import Sample
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.pipeline.base import worker_client

ROWS: Final = 100
TRIGGERS: Final = 40
#: The first triggers start processes.
FIRST: Final = 5
LIMIT_S: Final = 300
_BATCH_BYTES: Final = 1 << 20
_SINK, _NOTHING, _FIXED = "sink", "noop", "fixed cost of the sink"
SOURCES: Final = ("log", "rate")


@dataclass(frozen=True, slots=True)
class StreamsBench:
    """What all cases run on."""

    of: Bench
    folder: Path
    names: "count[int]"

    def log_writer(self, size: int, messages: int) -> int:
        """Write messages with the plain client."""
        name = f"streams/{next(self.names)}"
        self.of.kept.logs.create(name)
        many = [LogMessage(payload=bytes(size))] * reading.MANY
        with self.of.kept.logs.writer(name) as log:
            for _ in range(messages // reading.MANY):
                log.append_many(many)
        return messages

    def sink(self, given: Mapping[str, str], messages: int) -> int:
        """Write rows of a batch that is made once into a log."""
        name = f"streams/{next(self.names)}"
        self.of.kept.logs.create(name)
        writing = self._rows(given).write.format(reading.OURS)
        writing.options(metadata=self.of.address, log=name).mode("append").save()
        return messages

    def nothing(self, given: Mapping[str, str], messages: int) -> int:
        """Bring the same rows to a sink that does nothing."""
        self._rows(given).write.format("noop").mode("overwrite").save()
        return messages

    def _rows(self, given: Mapping[str, str]) -> DataFrame:
        return self.of.spark.read.format("same_batch").options(**given).load().select("payload")

    async def triggers(self, source: str) -> Sample:
        """Give the milliseconds of a query's triggers, as latencies in seconds."""
        return await asyncio.to_thread(self._triggers, source)

    def _triggers(self, source: str) -> Sample:
        stream = self.of.spark.readStream
        frame = (
            stream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
            if source == "rate"
            else stream.format(reading.OURS)
            .options(metadata=self.of.address, log="streams/read")
            .option("maxRowsPerTrigger", ROWS)
        ).load()
        checkpoint = self.folder / f"checkpoint-{next(self.names)}"
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="0 seconds")
            .start()
        )
        while len(query.recentProgress) < TRIGGERS:
            query.awaitTermination(1)
        found = [one for one in query.recentProgress if one["numInputRows"] == ROWS]
        query.stop()
        took = [one["durationMs"]["triggerExecution"] / 1e3 for one in found[FIRST:TRIGGERS]]
        return Sample(
            entries=ROWS * len(took), size_bytes=1, wall_s=sum(took), cpu_s=1.0, latencies_s=took
        )


def cases(bench: StreamsBench, entries: int) -> dict[str, rounds.Case]:
    """Give all cases by their names."""
    found: dict[str, rounds.Case] = {}
    for size in reading.SIZES:
        many = entries if size == reading.SIZES[0] else entries // 4
        rows = min(10_000, _BATCH_BYTES // size)
        batches = many // rows
        same = {"rows": str(rows), "bytes": str(size), "batches": str(batches), "tasks": "1"}
        given, total = dict(same), rows * batches
        writer = partial(bench.log_writer, size, total)
        found[f"{size} B, LogWriter"] = partial(bench.of.alone, size, writer)
        for name, case in ((_SINK, bench.sink), (_NOTHING, bench.nothing)):
            query = partial(case, given, total)
            found[f"{size} B, {name}"] = partial(bench.of.with_spark, size, query)
    one = {"rows": "1", "bytes": "1", "batches": "1", "tasks": "1"}
    found[_FIXED] = partial(bench.of.with_spark, 1, partial(bench.sink, one, 1))
    found[f"{_NOTHING}, {_FIXED}"] = partial(bench.of.with_spark, 1, partial(bench.nothing, one, 1))
    for source in SOURCES:
        found[f"triggers, {source}"] = partial(bench.triggers, source)
    return found


def report(found: dict[str, list[Sample]]) -> None:
    """Print the tables."""
    print(f"\n{'k rows/CPU-s, fixed cost off':32}{'LogWriter':>22}{'sink':>22}{'ratio':>22}")
    fixed = {
        _SINK: min(one.cpu_s for one in found[_FIXED]),
        _NOTHING: min(one.cpu_s for one in found[f"{_NOTHING}, {_FIXED}"]),
    }
    for size in reading.SIZES:
        writer = [one.per_cpu_second / 1e3 for one in found[f"{size} B, LogWriter"]]
        pairs = zip(found[f"{size} B, {_SINK}"], found[f"{size} B, {_NOTHING}"], strict=True)
        sink = [
            one.entries / (one.cpu_s - fixed[_SINK] - (none.cpu_s - fixed[_NOTHING])) / 1e3
            for one, none in pairs
        ]
        ratio = [a / b for a, b in zip(sink, writer, strict=True)]
        columns = "".join(f"{rounds.spread(one, 0):>22}" for one in (writer, sink))
        print(f"{f'{size} B':32}{columns}{rounds.spread(ratio, 2):>22}")
    print(f"{_FIXED:32}{rounds.spread([one.cpu_s for one in found[_FIXED]], 2):>22} CPU-s\n")
    medians = {
        source: [median(one.latencies_s) * 1e3 for one in found[f"triggers, {source}"]]
        for source in SOURCES
    }
    for source, values in medians.items():
        print(f"{f'a trigger of {ROWS} rows, {source}':32}{rounds.spread(values, 0):>22} ms")
    ratio = [a / b for a, b in zip(medians["log"], medians["rate"], strict=True)]
    print(f"{'log : rate':32}{rounds.spread(ratio, 2):>22}")


def blocking_run(address: str, folder: Path, given: argparse.Namespace) -> dict[str, list[Sample]]:
    """Start Spark, write what is read, warm up, and run the rounds."""
    with ExitStack() as stack:
        spark: SparkSession = reading.session(folder)
        stack.callback(spark.stop)
        (jvm,) = process_tree.named(os.getpid(), "org.apache.spark.deploy.SparkSubmit")
        of = Bench(address, worker_client.kept(address), spark, TreeClock(jvm))
        of.kept.logs.create("streams/read")
        with of.kept.logs.writer("streams/read") as log:
            log.append_many([LogMessage(payload=b"x" * 100)] * (ROWS * 2 * TRIGGERS))
        every = cases(StreamsBench(of, folder, count()), given.entries)
        asyncio.run(rounds.run(every, 1, random.Random(1)))
        return asyncio.run(rounds.run(every, given.rounds, random.Random(1)))


async def measured(folder: Path, given: argparse.Namespace) -> dict[str, list[Sample]]:
    """Start the bookies, and run the rounds."""
    return await three_bookies.measured(
        folder, lambda address: blocking_run(address, folder, given)
    )


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, report)


if __name__ == "__main__":
    main()
