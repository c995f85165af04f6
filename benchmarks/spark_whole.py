"""Whole logs through Spark, every byte compared by hash: 1 GiB of 1 KiB, and 10 M of 100 B.

    python -m benchmarks.spark_whole [--rounds 1] [--entries 10000000]

Each log is written by a plain client and read by a query of Spark on a local session, once in one
task and once in as many as the source makes. The query counts the messages, adds up their bytes,
and joins by exclusive or the SHA-256 of each one's sequence and payload; the writer does the same.
At the end: the most memory that a Python worker has had.
"""

import argparse
import hashlib
import os
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from benchmarks import spark as reading
from benchmarks.support import measuring, process_tree, three_bookies
from benchmarks.support.process_tree import TreeClock
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.worker_client import KeptClient

#: So many hexadecimal digits of a SHA-256 fit into a number of Spark.
_DIGITS: Final = 15
_MANY: Final = 1_000
_SUMS: Final = (
    "count(*) AS messages",
    "coalesce(sum(length(payload)), 0) AS size",
    f"coalesce(bit_xor(CAST(conv(substr(sha2(concat(CAST(concat(sequence, ':') AS binary), payload)"
    f", 256), 1, {_DIGITS}), 16, 10) AS bigint)), 0) AS hash",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSums:
    """What is compared."""

    messages: int
    size: int
    hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRead:
    """One read of one log."""

    name: str
    tasks: str
    wanted: WholeSums
    found: WholeSums
    wall_s: float
    cpu_s: float
    worker_mib: float


def write(kept: KeptClient, name: str, size: int, messages: int) -> WholeSums:
    """Fill a log, and give its sums."""
    chance = random.Random(size)
    kept.logs.create(name)
    joined = 0
    with kept.logs.writer(name) as log:
        for first in range(0, messages, _MANY):
            count = min(_MANY, messages - first)
            block = chance.randbytes(size * count)
            payloads = [block[at : at + size] for at in range(0, len(block), size)]
            for sequence, payload in enumerate(payloads, first):
                digest = hashlib.sha256(b"%d:" % sequence + payload).hexdigest()
                joined ^= int(digest[:_DIGITS], 16)
            log.append_many([LogMessage(payload=one) for one in payloads])
    return WholeSums(messages=messages, size=messages * size, hash=joined)


def read(
    spark: SparkSession, of_spark: TreeClock, jvm: int, given: dict[str, str], wanted: WholeSums
) -> WholeRead:
    """Read a log whole."""
    cpu_s, began = of_spark.cpu_s(), time.perf_counter()
    frame = spark.read.format(reading.OURS).options(**given).schema(reading.COLUMNS["log"]).load()
    (row,) = frame.selectExpr(*_SUMS).collect()
    return WholeRead(
        name=given["log"],
        tasks=given.get("partitions", "many"),
        wanted=wanted,
        found=WholeSums(messages=row.messages, size=row.size, hash=row.hash),
        wall_s=time.perf_counter() - began,
        cpu_s=of_spark.cpu_s() - cpu_s,
        worker_mib=process_tree.most_mib(jvm, "pyspark.daemon"),
    )


def blocking_run(address: str, folder: Path, given: argparse.Namespace) -> list[WholeRead]:
    """Write the logs, and read them."""
    with ExitStack() as stack:
        kept = worker_client.kept(address)
        sizes = {1_024: given.entries // 10 * 1_048_576 // 1_000_000, 100: given.entries}
        sums = {size: write(kept, f"whole/{size}", size, many) for size, many in sizes.items()}
        spark = reading.session(folder)
        stack.callback(spark.stop)
        (jvm,) = process_tree.named(os.getpid(), "org.apache.spark.deploy.SparkSubmit")
        clock = TreeClock(jvm)
        found = []
        for _ in range(given.rounds):
            for size, wanted in sums.items():
                options = {"metadata": address, "log": f"whole/{size}"}
                for more in ({"partitions": "1"}, {}):
                    found.append(read(spark, clock, jvm, {**options, **more}, wanted))
        return found


async def measured(folder: Path, given: argparse.Namespace) -> list[WholeRead]:
    """Start the bookies, and run the rounds."""
    return await three_bookies.measured(
        folder, lambda address: blocking_run(address, folder, given)
    )


def report(found: list[WholeRead]) -> None:
    """Print the table."""
    print(
        f"\n{'log':14}{'tasks':>6}{'messages':>14}{'MiB':>8}{'s':>8}{'CPU-s':>8}{'k/CPU-s':>9}"
        f"{'worker MiB':>12}  every byte the same"
    )
    for one in found:
        same = "yes" if one.found == one.wanted else f"NO: {one.found}, wanted {one.wanted}"
        print(
            f"{one.name:14}{one.tasks:>6}{one.found.messages:>14,}"
            f"{one.found.size / (1 << 20):>8.0f}"
            f"{one.wall_s:>8.1f}{one.cpu_s:>8.1f}{one.found.messages / one.cpu_s / 1e3:>9.0f}"
            f"{one.worker_mib:>12.0f}  {same}"
        )


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, report, rounds=1, entries=10_000_000)


if __name__ == "__main__":
    main()
