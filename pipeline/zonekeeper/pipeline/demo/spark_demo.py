"""The demonstration of Spark: a stream from a log into a log, and an executor dies in the middle.

A cluster of bookies runs on this machine, and Spark with two executors. A log is filled with
orders. A query of Spark reads them, makes bills of those that are paid, and writes the bills into
another log. In the middle an executor is killed. In the end a plain client reads the second log and
compares it with what must be there. However the demonstration ends, it leaves no process and no
file.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from zonekeeper.log.api import blocking
from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.demo import local_spark, orders
from zonekeeper.pipeline.demo.orders import BillsFound
from zonekeeper.pipeline.jobs import command_line
from zonekeeper.placement.base.troubles import Refusal, Trouble

KEPT: Final = 0
NOT_KEPT: Final = 1
NOT_DONE: Final = 2
INTERRUPTED: Final = 130

MESSAGES: Final = 80_000
MESSAGES_MAX: Final = 10_000_000
#: Micro-batches of the query; an executor is killed behind some of them.
BATCHES: Final = 10
KILL_BEHIND: Final = 3
EXECUTORS: Final = 2
ORDERS: Final = "demo/orders"
BILLS: Final = "demo/bills"

_MANY: Final = 1_000
_LOOK_S: Final = 0.1
_SHAPE: Final = ("--zones", "3", "--bookies-per-zone", "1", "--autorecovery", "0")


class DemoError(Trouble):
    """The demonstration cannot go on."""


class BadDemoError(Refusal):
    """The demonstration cannot be run as it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRun:
    """What was seen while the query ran."""

    #: The executor that was killed; None: the query was done before.
    killed: int | None
    #: An executor that took its place; None: there was none before the query ended.
    replaced_by: int | None
    batches: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDemo:
    """The figures of a whole run."""

    orders: int
    bills: BillsFound
    run: StreamRun

    @property
    def kept(self) -> bool:
        """Was the promise kept, and was there something to keep it against?"""
        return self.bills.same and self.bills.found > 0 and self.run.killed is not None

    def table(self) -> list[str]:
        """Give the lines of the table."""
        bills, run = self.bills, self.run
        rows = [
            ("", "messages", "SHA-256 of all messages"),
            (f"{ORDERS}, written", f"{self.orders:,}", ""),
            (f"{BILLS}, expected", f"{bills.expected:,}", bills.expected_sha256),
            (f"{BILLS}, found", f"{bills.found:,}", bills.found_sha256),
            ("lost", f"{bills.lost:,}", ""),
            ("twice, or foreign", f"{bills.more:,}", ""),
        ]
        killed = (
            "no executor was killed: the query was done before"
            if run.killed is None
            else f"executor {run.killed} was killed (kill -9), "
            + (f"{run.replaced_by} took its place" if run.replaced_by else "none took its place")
        )
        return [
            *(f"  {name:26}{count:>12}  {digest}".rstrip() for name, count, digest in rows),
            f"  the sequences of {BILLS} are {'' if bills.dense else 'NOT '}0, 1, 2, ...",
            f"  {run.batches} micro-batches in {run.seconds:.0f} s; {killed}",
            f"  {'yes' if self.kept else 'NO'}: an executor died, and each bill is in the log once",
        ]


def main(words: Sequence[str] | None = None) -> int:
    """Run the demonstration; give the exit code."""
    try:
        return _run(sys.argv[1:] if words is None else words, sys.stdout)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything was stopped and removed\n")
        return INTERRUPTED
    except (Trouble, OSError) as error:
        sys.stderr.write(f"Error: {one_line.line_of(error)}\n")
    except (PySparkException, Py4JError) as error:
        sys.stderr.write(f"Error: {command_line.of_spark(str(error))}\n")
    except Exception:  # noqa: BLE001 a bug must not end with the exit code of a broken promise
        traceback.print_exc()
    return NOT_DONE


def _run(words: Sequence[str], out: TextIO) -> int:
    messages = _messages(words)
    command_line.check_java(os.environ)
    began = time.perf_counter()

    def tell(text: str) -> None:
        out.write(f"{time.perf_counter() - began:5.0f} s  {text}\n")
        out.flush()

    # Spark's last files may come while the folder is removed.
    with tempfile.TemporaryDirectory(prefix="zonekeeper-", ignore_cleanup_errors=True) as name:
        done = _played(Path(name), messages, tell)
    out.write("\n" + "".join(f"{line}\n" for line in done.table()))
    return KEPT if done.kept else NOT_KEPT


def _messages(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m zonekeeper.pipeline.demo",
        description="A stream from a log into a log; an executor dies, and nothing is lost.",
        allow_abbrev=False,
    )
    parser.add_argument("--messages", type=int, default=MESSAGES, help="orders [%(default)s]")
    messages: int = parser.parse_args(words).messages
    if not BATCHES <= messages <= MESSAGES_MAX:
        raise BadDemoError(
            f"--messages {messages}: it must be from {BATCHES} to {MESSAGES_MAX}; nothing was done"
        )
    return messages


def _played(folder: Path, messages: int, tell: Callable[[str], None]) -> SparkDemo:
    tell("a cluster starts on this machine: three zones, a bookie in each")
    with _bookies(folder / "cluster") as address, blocking.connect(address) as logs:
        for name in (ORDERS, BILLS):
            logs.create(name)
        _fill(logs, messages)
        tell(f"{messages:,} orders are in {ORDERS}; Spark starts, with {EXECUTORS} executors")
        with local_spark.session(folder, "zonekeeper demo", EXECUTORS) as spark:
            tell(f"a query makes bills of the paid ones, and writes them into {BILLS}")
            run = _streamed(_started(spark, address, folder, messages), tell)
        tell(f"the query is done; a plain client reads {BILLS}, and compares")
        found = list(logs.reader(BILLS).read_messages())
        bills = orders.compared(
            orders.bills(messages),
            [one.message for one in found],
            [one.sequence for one in found],
        )
        return SparkDemo(orders=messages, bills=bills, run=run)


@contextmanager
def _bookies(folder: Path) -> Iterator[str]:
    """Run a cluster, as a person would; give its metadata address."""

    def local(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "zonekeeper.shell", "local", *words]
        return subprocess.run(  # noqa: S603 the words are ours
            [*command, "--folder", str(folder)], capture_output=True, text=True, check=False
        )

    try:
        started = local("up", *_SHAPE, "--output", "json")
        if started.returncode:
            why = started.stderr.strip().removeprefix("Error: ")
            raise DemoError(f"the cluster does not start: {why or 'it does not say why'}")
        yield str(json.loads(started.stdout)["metadata"])
    finally:
        local("down", "--purge")


def _fill(logs: BlockingLogs, messages: int) -> None:
    with logs.writer(ORDERS) as writer:
        for first in range(0, messages, _MANY):
            many = range(first, min(first + _MANY, messages))
            writer.append_many([orders.order(number) for number in many])


def _started(spark: SparkSession, address: str, folder: Path, messages: int) -> StreamingQuery:
    given = {
        "metadata": address,
        "log": ORDERS,
        "maxRowsPerTrigger": str(-(-messages // BATCHES)),
        "partitions": str(EXECUTORS),
    }
    return (
        spark.readStream.format("zonekeeper")
        .options(**given)
        .load()
        .selectExpr(*orders.SPLIT)
        .where(orders.PAID)
        .selectExpr(*orders.BILLED)
        .writeStream.format("zonekeeper")
        .options(metadata=address, log=BILLS)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def _streamed(query: StreamingQuery, tell: Callable[[str], None]) -> StreamRun:
    """Let the query run to its end, and kill an executor behind some micro-batches."""
    began = time.perf_counter()
    driver = local_spark.driver()
    killed: int | None = None
    before: set[int] = set()
    while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # Spark takes parts, too
        if killed is None and _done(query) >= KILL_BEHIND:
            before = set(local_spark.executors(driver))
            killed = min(before)
            os.kill(killed, signal.SIGKILL)
            tell(f"micro-batch {_done(query) + 1} runs: executor {killed} is killed (kill -9)")
    after = set(local_spark.executors(driver)) - before
    return StreamRun(
        killed=killed,
        replaced_by=min(after, default=None),
        batches=_done(query),
        seconds=time.perf_counter() - began,
    )


def _done(query: StreamingQuery) -> int:
    """Give the number of micro-batches that a query has done."""
    last = query.lastProgress
    return 0 if last is None else int(last["batchId"]) + 1
