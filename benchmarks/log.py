"""What a log costs beside plain ledgers: real processes, one client, data on disk before the ack.

    python -m benchmarks.log [--rounds 5] [--entries 100000]

Every round runs every case once, in a new order, on the same three bookies at 3/3/2: messages of a
log, and entries of a plain ledger that are appended in the same way. Figures are messages per
CPU-second over the client and the bookies, and their ratio in each round; and latencies of one
outstanding message. What a log was given is read back, and counted, outside of the time. Small
messages are read as an array of Arrow as well: made of rows, message by message, and of columns.

Then messages are appended at a rate, with a hundred rotations and with none. These two run in pairs
of their own, one right after the other, because a p99 of a busy machine is another one a minute
later. At the end many writers stand idle, and their memory is counted. ``--rounds 0`` measures the
pairs alone.
"""

import argparse
import asyncio
import gc
import importlib
import itertools
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.support import accounting, loads, measuring, reading_back, rounds
from benchmarks.support.rounds import Sample
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.client.api.writer import Writer
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_reader import ReadMessages
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

QUORUMS: Final = Quorums(ensemble=3, write=3, ack=2)
SIZES: Final = (100, 1_024)
MIDDLE: Final = 1_024
ONE_AT_A_TIME: Final = 500
#: Messages a second, and for so many seconds, over so many rotations.
RATE: Final = 1_000
RATE_SECONDS: Final = 4
ROTATIONS: Final = 100
#: How often both are measured, with rotations and without.
PAIRS: Final = 15
#: Messages of one call of ``append_many``, and writers that stand idle.
MANY: Final = 1_000
IDLE: Final = 1_000
_ARROW: Final = importlib.import_module("pyarrow")
#: How the latencies of one outstanding message are told apart.
STORED: Final = "stored"
READABLE: Final = "readable"


@dataclass(frozen=True, slots=True)
class Bench:
    """What all cases run on."""

    bookies: BookieProcesses
    client: Client
    logs: LogClient
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def plain(self, size: int, entries: int) -> Sample:
        """Append entries to a ledger as fast as it takes them."""
        payload = random.randbytes(size)
        writer = await self._ledger(payload)
        sample = await self._timed(
            size, entries, partial(loads.saturate, [writer], payload, entries)
        )
        await reading_back.checked(self.client, [writer], payload, 1 + entries)
        return sample

    async def log(self, size: int, entries: int) -> Sample:
        """Append messages to a log as fast as it takes them."""
        message = LogMessage(payload=random.randbytes(size))

        async def fill(writer: LogWriter) -> None:
            append = writer.append
            for _ in range(entries):
                await append(message)
            await writer.stored(writer.next_sequence - 1)

        async with self._log(LogRules()) as (name, writer):
            sample = await self._timed(size, entries, partial(fill, writer))
        await self._count(name, 1 + entries)
        return sample

    async def log_many(self, size: int, entries: int) -> Sample:
        """Append messages to a log in lists."""
        many = [LogMessage(payload=random.randbytes(size))] * MANY

        async def fill(writer: LogWriter) -> None:
            for _ in range(entries // MANY):
                await writer.append_many(many)
            await writer.stored(writer.next_sequence - 1)

        async with self._log(LogRules()) as (name, writer):
            sample = await self._timed(size, entries // MANY * MANY, partial(fill, writer))
        await self._count(name, 1 + entries // MANY * MANY)
        return sample

    async def read_as(self, array_of: Callable[[ReadMessages], object], entries: int) -> Sample:
        """Read small messages from a log, and make arrays of Arrow of them."""
        size = SIZES[0]
        many = [LogMessage(payload=random.randbytes(size))] * (entries // MANY * MANY)
        found = 0

        async def read(name: str) -> None:
            nonlocal found
            async for one in self.logs.reader(name).read():
                found += len(one)
                array_of(one)

        async with self._log(LogRules()) as (name, writer):
            await writer.append_many(many)
            await writer.flushed(writer.next_sequence - 1)
        sample = await self._timed(size, len(many), partial(read, name))
        if found != 1 + len(many):
            raise AssertionError(f"{name} gave {found} messages, and has {1 + len(many)}")
        return sample

    async def idle(self) -> float:
        """Open many logs, append a message to each, and give the KB that each then takes."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._log(LogRules()))  # what all share is there
            gc.collect()
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(IDLE):
                await stack.enter_async_context(self._log(LogRules()))
            await asyncio.sleep(1)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return (after - before) / IDLE / 1_024

    async def plain_one(self, kind: str) -> Sample:
        """Append to a ledger, and wait until the entry is stored, or readable."""
        payload = random.randbytes(MIDDLE)
        writer = await self._ledger(payload)

        async def one() -> None:
            await writer.append_and_wait(payload)
            if kind is READABLE:
                await writer.tell_confirmed()

        sample = await self._one_at_a_time(one)
        await writer.close()
        return sample

    async def log_one(self, kind: str) -> Sample:
        """Append to a log, and wait until the message is stored, or readable."""
        message = LogMessage(payload=random.randbytes(MIDDLE))
        async with self._log(LogRules()) as (_, writer):

            async def one() -> None:
                await writer.append_and_wait(message, stored=kind is STORED)

            return await self._one_at_a_time(one)

    async def log_at_rate(self, rotations: int) -> Sample:
        """Append to a log at a rate, over so many rotations."""
        message, count = LogMessage(payload=random.randbytes(MIDDLE)), RATE * RATE_SECONDS
        rules = LogRules(rotate_messages=count // rotations) if rotations else LogRules()
        latencies: list[float] = []

        async def hear(writer: LogWriter, sequence: int, meant: float) -> None:
            await writer.stored(sequence)
            latencies.append(time.perf_counter() - meant)

        async def load(writer: LogWriter) -> None:
            began = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    meant = began + number / RATE
                    if (early_s := meant - time.perf_counter()) > 0:
                        await asyncio.sleep(early_s)
                    group.create_task(hear(writer, await writer.append(message), meant))

        async with self._log(rules) as (name, writer):
            # A full collection takes 50 ms, and would fall into one of the two cases by chance.
            gc.collect()
            sample = await self._timed(MIDDLE, count, partial(load, writer))
        await self._count(name, 1 + count)
        sample.latencies_s.extend(latencies)
        return sample

    async def _one_at_a_time(self, one: Callable[[], Awaitable[None]]) -> Sample:
        latencies: list[float] = []

        async def load() -> None:
            for _ in range(ONE_AT_A_TIME):
                began = time.perf_counter()
                await one()
                latencies.append(time.perf_counter() - began)

        sample = await self._timed(MIDDLE, ONE_AT_A_TIME, load)
        sample.latencies_s.extend(latencies)
        return sample

    async def _timed(self, size: int, entries: int, load: Callable[[], Awaitable[None]]) -> Sample:
        wall, cpu = time.perf_counter(), self._cpu()
        await load()
        wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        return Sample(entries=entries, size_bytes=size, wall_s=wall_s, cpu_s=cpu_s)

    def _cpu(self) -> float:
        return accounting.cpu_seconds(self.bookies.pids())

    async def _ledger(self, payload: bytes) -> Writer:
        """Make a ledger with one entry: so it is open at its bookies."""
        writer = await self.client.create(quorums=QUORUMS)
        await writer.append_and_wait(payload)
        return writer

    @asynccontextmanager
    async def _log(self, rules: LogRules) -> AsyncIterator[tuple[str, LogWriter]]:
        """Make a log with one message."""
        name = f"bench/{next(self.numbers)}"
        await self.logs.create(name, rules)
        async with self.logs.writer(name) as writer:
            await writer.append_and_wait(LogMessage(payload=b"first"))
            yield name, writer

    async def _count(self, name: str, expected: int) -> None:
        """Check that a log holds as many messages as it was given."""
        found = 0
        async for many in self.logs.reader(name).read():
            found += len(many)
        if found != expected:
            raise AssertionError(f"{name} holds {found} messages, and was given {expected}")


def of_rows(many: ReadMessages) -> object:
    """Make an array of Arrow, message by message."""
    return _ARROW.array([one.message.payload for one in many], _ARROW.binary())


def of_columns(many: ReadMessages) -> object:
    """Make an array of Arrow of the buffers of a batch."""
    column = many.batch.payloads
    buffers = [None, _ARROW.py_buffer(column.offsets), _ARROW.py_buffer(column.data)]
    return _ARROW.Array.from_buffers(_ARROW.binary(), len(column), buffers).slice(many.first)


def cases(bench: Bench, entries: int) -> dict[str, rounds.Case]:
    """Name all cases."""
    found: dict[str, rounds.Case] = {}
    for size in SIZES:
        found[f"{size} B, ledger"] = partial(bench.plain, size, entries)
        found[f"{size} B, log"] = partial(bench.log, size, entries)
        found[f"{size} B, log, in lists"] = partial(bench.log_many, size, entries)
    found["read as rows"] = partial(bench.read_as, of_rows, entries)
    found["read as columns"] = partial(bench.read_as, of_columns, entries)
    for kind in (STORED, READABLE):
        found[f"one at a time, {kind}, ledger"] = partial(bench.plain_one, kind)
        found[f"one at a time, {kind}, log"] = partial(bench.log_one, kind)
    return found


def at_a_rate(bench: Bench) -> dict[str, rounds.Case]:
    """Name the two cases of a pair: no rotation, and many."""
    return {
        f"{RATE}/s, {rotations} rotations": partial(bench.log_at_rate, rotations)
        for rotations in (0, ROTATIONS)
    }


@dataclass(frozen=True, slots=True)
class Measured:
    """All figures."""

    found: dict[str, list[Sample]]
    pairs: dict[str, list[Sample]]
    #: None: no writer stood idle.
    idle_kb: float | None


def report(measured: Measured) -> None:
    """Print the tables."""
    if measured.idle_kb is not None:
        _report_cases(measured.found)
        print(f"\n{IDLE} idle writers: {measured.idle_kb:.1f} KB each")
    _report_pairs(measured.pairs)


def _report_cases(found: dict[str, list[Sample]]) -> None:
    print(f"\n{'saturation':36}{'k messages/CPU-s':>24}{'k/s':>8}{'CPUs':>6}{'log : ledger':>20}")
    for size in SIZES:
        ledger = found[f"{size} B, ledger"]
        for name in ("ledger", "log", "log, in lists"):
            samples = found[f"{size} B, {name}"]
            ratio = "" if name == "ledger" else rounds.spread(rounds.ratio(samples, ledger), 2)
            print(
                f"{f'{size} B, {name}':36}"
                f"{rounds.spread([s.per_cpu_second / 1e3 for s in samples], 2):>24}"
                f"{median(s.per_second for s in samples) / 1e3:8.2f}"
                f"{median(s.cpus for s in samples):6.2f}{ratio:>20}"
            )
    rows, columns = found["read as rows"], found["read as columns"]
    print(f"\n{'100 B, as an array of Arrow':36}{'k messages/CPU-s':>24}{'columns : rows':>24}")
    for name, samples in (("rows", rows), ("columns", columns)):
        ratio = rounds.spread(rounds.ratio(columns, rows), 2) if name == "columns" else ""
        per_cpu = rounds.spread([s.per_cpu_second / 1e3 for s in samples], 0)
        print(f"{name:36}{per_cpu:>24}{ratio:>24}")
    for kind in (STORED, READABLE):
        names = (f"one at a time, {kind}, ledger", f"one at a time, {kind}, log")
        _report_latencies({name: found[name] for name in names}, 0.5)


def _report_pairs(pairs: dict[str, list[Sample]]) -> None:
    _report_latencies(pairs, 0.99)
    without, with_rotations = pairs.values()
    cpu = rounds.spread([1 / one for one in rounds.ratio(with_rotations, without)], 2)
    print(f"{PAIRS} pairs; CPU of a message with rotations : without {cpu}")


def _report_latencies(found: dict[str, list[Sample]], part: float) -> None:
    """Print the latencies of two cases, and the ratio of one percentile in each round."""
    print(f"\n{'latency, ms':36}{'p50':>24}{'p99':>24}{'ratio':>24}")
    one, other = found.values()
    ratios = [
        b.percentile_ms(part) / a.percentile_ms(part) for a, b in zip(one, other, strict=True)
    ]
    for name, samples in found.items():
        said = f"p{part * 100:.0f} {rounds.spread(ratios, 2)}" if samples is other else ""
        p50, p99 = (rounds.spread([s.percentile_ms(p) for s in samples], 2) for p in (0.5, 0.99))
        print(f"{name:36}{p50:>24}{p99:>24}{said:>24}")


async def measured(folder: Path, given: argparse.Namespace) -> Measured:
    """Start the bookies, and run the rounds."""
    address = f"sqlite://{folder}/meta.db"
    bookies = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in ("a", "b", "c")}
    rules = PlacementRules(zones=tuple(sorted(set(bookies.values()))))
    await make_cluster(address, Policy(placement=rules, quorums=QUORUMS))
    with bookie_processes(address, folder, bookies) as running:
        await asyncio.to_thread(running.start)
        async with clients.connect(address) as client:
            surroundings = Surroundings(random.Random(1), lambda: time.time_ns() // 1_000_000)
            bench = Bench(running, client, LogClient(client, surroundings))
            chance = random.Random(1)
            found = await rounds.run(cases(bench, given.entries), given.rounds, chance)
            pairs = await rounds.run(at_a_rate(bench), PAIRS, chance)
            return Measured(found, pairs, await bench.idle() if given.rounds else None)


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, report)


if __name__ == "__main__":
    main()
