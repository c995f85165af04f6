"""What Spark costs over the plain client: closed ledgers and logs, beside the ceiling of a source.

    python -m benchmarks.spark [--rounds 5] [--entries 100000]

Every round runs every case once, in a new order, on the same three bookies. Figures are thousands
of rows per CPU-second of the reading side: this process for the client, and for Spark the JVM with
all Python processes. A query's fixed cost, the least of a query of one row, is taken off.

The cases: the plain client; the client, with its entries made Arrow batches; Spark; and the same
Arrow batches from buffers without bookies (the ceiling). *Series* is what the client and the
ceiling would give one after the other; Spark can do no better. Two columns are read, as many as the
ceiling has. At the end: what a further task costs a warm worker, and the most memory of a Python
worker.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from benchmarks.support import measuring, process_tree, rounds, three_bookies
from benchmarks.support.process_tree import TreeClock
from benchmarks.support.rounds import Sample
from benchmarks.support.same_batch import SameBatchSource
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.reading import entry_rows, message_rows, options
from zonekeeper.pipeline.reading.columns import ColumnTypes
from zonekeeper.pipeline.source import planning, task_reading

SIZES: Final = (100, 1_024)
OURS: Final = "zonekeeper"
KINDS: Final = ("ledger", "log")
#: The columns that are read: as many and as wide as those of the ceiling.
COLUMNS: Final = {
    "ledger": "entry bigint, payload binary",
    "log": "sequence bigint, payload binary",
}
#: Messages of one call of ``append_many``.
MANY: Final = 1_000
TASKS: Final = 40
#: The ceiling is so fast that its rows are more, or the fixed cost would hide them.
CEILING_TIMES: Final = 10
_FIXED: Final = "fixed cost of a query"


@dataclass(frozen=True, slots=True)
class Bench:
    """What all cases run on."""

    address: str
    kept: KeptClient
    spark: SparkSession
    of_spark: TreeClock

    def write(self, kind: str, size: int, entries: int) -> dict[str, str]:
        """Write what is read, and give the options that name it."""
        chance = random.Random(size)
        if kind == "ledger":
            with self.kept.ledgers.create() as writer:
                writer.append_many(chance.randbytes(size) for _ in range(entries))
            return {"metadata": self.address, "ledger": str(writer.ledger_id)}
        name = f"bench/{size}"
        self.kept.logs.create(name)
        with self.kept.logs.writer(name) as log:
            for _ in range(entries // MANY):
                log.append_many([LogMessage(payload=chance.randbytes(size)) for _ in range(MANY)])
        return {"metadata": self.address, "log": name}

    async def alone(self, size: int, count: Callable[[], int]) -> Sample:
        """Measure this process."""
        return await asyncio.to_thread(_timed, size, count, time.process_time)

    async def with_spark(self, size: int, count: Callable[[], int]) -> Sample:
        """Measure the JVM and what it started."""
        return await asyncio.to_thread(_timed, size, count, self.of_spark.cpu_s)

    def client(self, given: Mapping[str, str]) -> int:
        """Read with the plain client, in batches."""
        if "ledger" in given:
            reader = self.kept.ledgers.open(int(given["ledger"]), recover=False)
            return sum(map(len, reader.read()))
        return sum(map(len, self.kept.logs.reader(given["log"]).read()))

    def arrow(self, given: Mapping[str, str]) -> int:
        """Read as a task does, to Arrow batches."""
        wanted = options.parse(given)
        tasks = self.kept.calls.do(lambda: planning.planned(self.kept.opened, wanted))
        rows = 0
        for task in tasks:
            if task.span is None:
                schema = _schema(entry_rows.COLUMNS, "ledger")
                entries = task_reading.entries(self.kept, task)
                made = entry_rows.batches(schema, entries, wanted.rows_per_batch)
            else:
                schema = _schema(message_rows.COLUMNS, "log")
                pieces = task_reading.messages(self.kept, task)
                made = message_rows.batches(schema, pieces, wanted.rows_per_batch)
            rows += sum(batch.num_rows for batch in made)
        return rows

    def query(self, given: Mapping[str, str], rows: int, source: str = OURS) -> int:
        """Read with Spark, into nothing."""
        reader = self.spark.read.format(source).options(**given)
        frame: DataFrame = (
            reader.schema(COLUMNS[source_kind(given)]) if source == OURS else reader
        ).load()
        frame.write.format("noop").mode("overwrite").save()
        return rows


def _schema(every: ColumnTypes, kind: str) -> StructType:
    """Give the columns that are read."""
    names = [one.split()[0] for one in COLUMNS[kind].split(", ")]
    return StructType([StructField(name, every.of[name]) for name in names])


def source_kind(given: Mapping[str, str]) -> str:
    """Say what options read."""
    return "ledger" if "ledger" in given else "log"


def _timed(size: int, count: Callable[[], int], used: Callable[[], float]) -> Sample:
    before, began = used(), time.perf_counter()
    rows = count()
    wall_s, cpu_s = time.perf_counter() - began, used() - before
    return Sample(entries=rows, size_bytes=size, wall_s=wall_s, cpu_s=cpu_s)


def cases(bench: Bench, entries: int) -> dict[str, rounds.Case]:
    """Give all cases by their names."""
    found: dict[str, rounds.Case] = {}
    for kind in KINDS:
        for size in SIZES:
            many = entries if size == SIZES[0] else entries // 4
            given = bench.write(kind, size, many)
            name = f"{size} B, {kind}"
            found[f"{name}, client"] = partial(bench.alone, size, partial(bench.client, given))
            found[f"{name}, arrow"] = partial(bench.alone, size, partial(bench.arrow, given))
            query = partial(bench.query, given, many)
            found[f"{name}, spark"] = partial(bench.with_spark, size, query)
            last = {"last": "0"} if kind == "ledger" else {"to": "sequence:0"}
            one = partial(bench.query, {**given, **last}, 1)
            found[f"{kind}, {_FIXED}"] = partial(bench.with_spark, size, one)
    for size in SIZES:
        many = CEILING_TIMES * (entries if size == SIZES[0] else entries // 4)
        batch = min(10_000, (1 << 20) // size)
        same = {"rows": str(batch), "bytes": str(size), "batches": str(many // batch), "tasks": "1"}
        query = partial(bench.query, same, many // batch * batch, "same_batch")
        found[f"{size} B, ceiling"] = partial(bench.with_spark, size, query)
    found[f"ceiling, {_FIXED}"] = partial(
        bench.with_spark,
        1,
        partial(
            bench.query, {"rows": "1", "bytes": "1", "batches": "1", "tasks": "1"}, 1, "same_batch"
        ),
    )
    tiny = bench.write("ledger", 1, TASKS)
    for tasks in (1, TASKS):
        ours = {**tiny, "partitions": str(tasks)}
        found[f"{tasks} tasks, ledger"] = partial(
            bench.with_spark, 1, partial(bench.query, ours, TASKS)
        )
        same = {"rows": "1", "bytes": "1", "batches": "1", "tasks": str(tasks)}
        found[f"{tasks} tasks, ceiling"] = partial(
            bench.with_spark, 1, partial(bench.query, same, tasks, "same_batch")
        )
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """All figures."""

    found: dict[str, list[Sample]]
    worker_mib: float


def rates(found: Mapping[str, list[Sample]], name: str, fixed: str | None = None) -> list[float]:
    """Give the thousands of rows per CPU-second of each round, without a query's fixed cost."""
    off = min(one.cpu_s for one in found[fixed]) if fixed else 0.0
    return [one.entries / max(one.cpu_s - off, 1e-9) / 1e3 for one in found[name]]


def report(measured: Measured) -> None:
    """Print the tables."""
    found = measured.found
    print(
        f"\n{'k rows/CPU-s, fixed cost off':32}{'client':>22}{'to Arrow':>22}{'Spark':>22}", end=""
    )
    print(f"{'ceiling':>22}{'Spark : series':>22}")
    for kind in KINDS:
        for size in SIZES:
            name = f"{size} B, {kind}"
            client, arrow = rates(found, f"{name}, client"), rates(found, f"{name}, arrow")
            spark = rates(found, f"{name}, spark", f"{kind}, {_FIXED}")
            ceiling = rates(found, f"{size} B, ceiling", f"ceiling, {_FIXED}")
            series = [1 / (1 / a + 1 / c) for a, c in zip(client, ceiling, strict=True)]
            ratio = [one / other for one, other in zip(spark, series, strict=True)]
            columns = "".join(
                f"{rounds.spread(one, 0):>22}" for one in (client, arrow, spark, ceiling)
            )
            print(f"{name:32}{columns}{rounds.spread(ratio, 2):>22}")
    for kind in (*KINDS, "ceiling"):
        cost = [one.cpu_s for one in found[f"{kind}, {_FIXED}"]]
        print(f"{f'{kind}, {_FIXED}':32}{rounds.spread(cost, 2):>22} CPU-s")
    print()
    for kind in ("ledger", "ceiling"):
        one, many = found[f"1 tasks, {kind}"], found[f"{TASKS} tasks, {kind}"]
        more = [(b.cpu_s - a.cpu_s) / (TASKS - 1) * 1e3 for a, b in zip(one, many, strict=True)]
        print(f"{f'a further task, {kind}':32}{rounds.spread(more, 1):>22} CPU-ms")
    print(f"{'a Python worker, at most':32}{measured.worker_mib:>22.0f} MiB")


def session(folder: Path) -> SparkSession:
    """Start Spark with one worker, quietly."""
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    properties = folder / "log4j2.properties"
    properties.write_text("rootLogger.level = off\n")
    made = (
        SparkSession.builder.master("local[1]")
        .appName("zonekeeper benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(folder))
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={properties}")
        .getOrCreate()
    )
    made.dataSource.register(SameBatchSource)
    return made


def blocking_run(address: str, folder: Path, given: argparse.Namespace) -> Measured:
    """Start Spark, write what is read, warm up, and run the rounds."""
    with ExitStack() as stack:
        spark = session(folder)
        stack.callback(spark.stop)
        (jvm,) = process_tree.named(os.getpid(), "org.apache.spark.deploy.SparkSubmit")
        bench = Bench(address, worker_client.kept(address), spark, TreeClock(jvm))
        every = cases(bench, given.entries)
        asyncio.run(rounds.run(every, 1, random.Random(1)))
        found = asyncio.run(rounds.run(every, given.rounds, random.Random(1)))
        return Measured(found, process_tree.most_mib(jvm, "pyspark.worker"))


async def measured(folder: Path, given: argparse.Namespace) -> Measured:
    """Start the bookies, and run the rounds."""
    return await three_bookies.measured(
        folder, lambda address: blocking_run(address, folder, given)
    )


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, report)


if __name__ == "__main__":
    main()
