"""What one bookie does: a real process, one client, ledgers of one copy.

    python -m benchmarks.bookie [--rounds 5] [--entries 100000]

Every round runs every case once, in a new order. Entries per CPU-second count client and bookie;
the bookie's own part stands beside it. The share is of the floor of the same round
(``support/floor.py``, one copy). *Not durable* are entries of deferred sync, which are acknowledged
before they are on disk. A thousand ledgers are written while they are open; what it costs to open
ledgers stands apart. Catch-up reads stand beside a plain ``pread`` and ``sendall`` of as many
bytes. Acks are timed at a fixed rate from the moment at which an entry was meant to be sent: alone,
beside a process that reads from behind, and while a backlog of arrival segments is rewritten.

The last table puts the two profiles of the field side by side: a log is written with low latency
and read from behind, data is written in bulk and read at random.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.support import accounting, floor, loads, measuring, reading_back, rounds
from benchmarks.support.rounds import Sample
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

BOOKIE: Final = BookieId("bk-a-0")
ONE: Final = Quorums(ensemble=1, write=1, ack=1, ack_zones=1)
SIZES: Final = (100, 1_024, 65_536)
MANY: Final = 1_000
LEDGERS: Final = (1, MANY)
#: Ledgers that are opened in a round.
OPENED: Final = 500
#: Of many ledgers, so many are read back.
READ_BACK: Final = 25
MIDDLE: Final = 1_024
ONE_AT_A_TIME: Final = 1_000
RATE: Final = 2_000
RATE_SECONDS: Final = 2
READ_BYTES: Final = 128 << 20
RANDOM_READS: Final = 1_000
#: More than the arrival segments hold, so that there is something to rewrite.
BACKLOG_BYTES: Final = 512 << 20
PERCENTILES: Final = (0.5, 0.99, 0.999)


@dataclass(slots=True)
class Timing:
    """What a block took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    def sample(
        self, entries: int, size_bytes: int, latencies_s: list[float] | None = None
    ) -> Sample:
        """Give it as a sample."""
        return Sample(
            entries=entries,
            size_bytes=size_bytes,
            wall_s=self.wall_s,
            cpu_s=self.cpu_s,
            latencies_s=latencies_s or [],
        )


@dataclass(slots=True)
class Bench:
    """What the cases run on."""

    bookies: BookieProcesses
    client: Client
    folder: Path
    #: A closed ledger of ``READ_BYTES``, for the readers.
    old: LedgerId
    old_entries: int
    #: Many ledgers that are open all the time: durable ones, and others.
    many: dict[bool, list[Writer]]
    #: The bookie's own part of each case's CPU.
    bookie_cpu_s: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    async def write(
        self, name: str, size: int, ledgers: int, entries: int, durable: bool
    ) -> Sample:
        """Write as fast as it goes, and read back outside the time."""
        writers = self.many[durable] if ledgers == MANY else [await self._create(durable)]
        payload, before = random.randbytes(size), [each.last_appended for each in writers]
        with self._timed(name) as timing:
            await loads.saturate(writers, payload, entries)
        if ledgers == MANY:
            chosen = random.sample(range(MANY), READ_BACK)
            for at in chosen:
                await reading_back.since(self.client, writers[at], before[at], payload)
            written = sum(each.last_appended for each in writers) - sum(before)
            assert written == entries, f"{written} of {entries} entries were acknowledged"
        else:
            await reading_back.checked(self.client, writers, payload, entries)
        return timing.sample(entries, size)

    async def opening(self, name: str) -> Sample:
        """Open ledgers, all at once, with one entry each."""
        writers = [await self._create(durable=True) for _ in range(OPENED)]
        payload = random.randbytes(SIZES[0])
        with self._timed(name) as timing:
            await loads.saturate(writers, payload, OPENED)
        await reading_back.checked(self.client, writers, payload, OPENED)
        return timing.sample(OPENED, SIZES[0])

    async def one_at_a_time(self, name: str, durable: bool) -> Sample:
        """Append, wait, append."""
        writer, payload = await self._create(durable), random.randbytes(MIDDLE)
        with self._timed(name) as timing:
            found = await loads.one_at_a_time(writer, payload, ONE_AT_A_TIME)
        await reading_back.checked(self.client, [writer], payload, ONE_AT_A_TIME)
        return timing.sample(ONE_AT_A_TIME, MIDDLE, found)

    async def acks(self, name: str, beside: str) -> Sample:
        """Append at a rate, beside something else."""
        writer, payload = await self._create(durable=True), random.randbytes(MIDDLE)
        async with self._beside(beside):
            with self._timed(name) as timing:
                count = RATE * RATE_SECONDS
                found = await loads.at_rate([writer], payload, per_second=RATE, entries=count)
        await reading_back.checked(self.client, [writer], payload, count)
        return timing.sample(count, MIDDLE, found)

    async def catch_up(self, name: str) -> Sample:
        """Read a ledger from its first entry to its last."""
        with self._timed(name) as timing:
            entries = await self._read_old()
        assert entries == self.old_entries
        return timing.sample(entries, MIDDLE)

    async def at_random(self, name: str) -> Sample:
        """Read entries of a large ledger here and there, one after the other."""
        reader, chance = await self.client.open(self.old, recover=False), random.Random(1)
        latencies = []
        with self._timed(name) as timing:
            for _ in range(RANDOM_READS):
                wanted, began = EntryId(chance.randrange(self.old_entries)), time.perf_counter()
                async for batch in reader.read(wanted, wanted):
                    assert (batch.first, len(batch)) == (wanted, 1)
                latencies.append(time.perf_counter() - began)
        return timing.sample(RANDOM_READS, MIDDLE, latencies)

    async def floor(self, size: int, entries: int) -> Sample:
        """Move and keep the same bytes, and nothing else."""
        return await asyncio.to_thread(
            floor.measure, self.folder, size_bytes=size, entries=entries, copies=1
        )

    async def plain_read(self) -> Sample:
        """Send a file of as many bytes through a socket, and nothing else."""
        return await asyncio.to_thread(
            floor.send_file, self.folder, size_bytes=MIDDLE, entries=self.old_entries
        )

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[Timing]:
        timing = Timing()
        wall, own, theirs = time.perf_counter(), time.process_time(), self._bookie_cpu()
        yield timing
        timing.wall_s = time.perf_counter() - wall
        bookie_s = self._bookie_cpu() - theirs
        timing.cpu_s = time.process_time() - own + bookie_s
        self.bookie_cpu_s.setdefault(name, []).append(bookie_s)

    def _bookie_cpu(self) -> float:
        return accounting.cpu_seconds(self.bookies.pids()) - accounting.cpu_seconds()

    @asynccontextmanager
    async def _beside(self, what: str) -> AsyncIterator[None]:
        """Let something else go on, while a block runs."""
        if what == "a rewrite":
            writer, payload = await self._create(durable=True), random.randbytes(64 << 10)
            await loads.saturate([writer], payload, BACKLOG_BYTES // len(payload))
            yield
            await reading_back.checked(
                self.client, [writer], payload, BACKLOG_BYTES // len(payload)
            )
            return
        if what == "nothing":
            yield
            return
        arguments = ("-m", "benchmarks.support.catch_up", self.bookies.address, str(self.old))
        reading = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
        )
        assert reading.stdout is not None
        assert await reading.stdout.readline() == b"reading\n"
        yield
        reading.kill()
        await reading.communicate()

    async def _read_old(self) -> int:
        reader, entries = await self.client.open(self.old, recover=False), 0
        async for batch in reader.read(EntryId(0), reader.last_confirmed):
            entries += len(batch)
        return entries

    async def _create(self, durable: bool) -> Writer:
        return await self.client.create(quorums=ONE, deferred_sync=not durable)


def cases(bench: Bench, entries: int) -> dict[str, rounds.Case]:
    """Name all cases."""
    found: dict[str, rounds.Case] = {}
    for size in SIZES:
        count = MANY * max(1, entries // (1 if size <= MIDDLE else 50) // MANY)
        for ledgers, durable in itertools.product(LEDGERS, (True, False)):
            name = f"{size} B, {ledgers} ledgers, {'durable' if durable else 'not durable'}"
            found[name] = partial(bench.write, name, size, ledgers, count, durable)
        found[f"{size} B, floor"] = partial(bench.floor, size, count)
    found[OPENING] = partial(bench.opening, OPENING)
    for name, durable in ((ONE_DURABLE, True), (ONE_NOT, False)):
        found[name] = partial(bench.one_at_a_time, name, durable)
    for beside in ("nothing", "a catch-up", "a rewrite"):
        name = f"acks at {RATE}/s beside {beside}"
        found[name] = partial(bench.acks, name, beside)
    found[CATCH_UP] = partial(bench.catch_up, CATCH_UP)
    found[PLAIN] = bench.plain_read
    found[AT_RANDOM] = partial(bench.at_random, AT_RANDOM)
    return found


OPENING: Final = "ledgers opened, one entry each"
ONE_DURABLE: Final = "one at a time, durable"
ONE_NOT: Final = "one at a time, not durable"
CATCH_UP: Final = "catch-up read"
PLAIN: Final = "pread + sendall"
AT_RANDOM: Final = "random reads, one at a time"


def report(found: dict[str, list[Sample]], bookie_cpu_s: dict[str, list[float]]) -> None:
    """Print the tables."""
    print(
        f"\n{'saturation':34}{'k entries/CPU-s':>24}{'bookie alone':>14}{'k/s':>8}{'of floor':>9}"
    )
    for name, samples in found.items():
        if f"{samples[0].size_bytes} B" not in name or "floor" in name:
            continue
        alone = median(s.entries / t for s, t in zip(samples, bookie_cpu_s[name], strict=True))
        share = median(rounds.ratio(samples, found[f"{samples[0].size_bytes} B, floor"]))
        print(
            f"{name:34}{rounds.spread([s.per_cpu_second / 1e3 for s in samples], 2):>24}"
            f"{alone / 1e3:14.1f}{median(s.per_second for s in samples) / 1e3:8.2f}{share:9.1%}"
        )
    opened = rounds.spread([s.per_cpu_second / 1e3 for s in found[OPENING]], 2)
    alone = median(
        s.entries / t for s, t in zip(found[OPENING], bookie_cpu_s[OPENING], strict=True)
    )
    print(f"{OPENING:34}{opened:>24}{alone / 1e3:14.1f}")
    print(f"\n{'reads, MB/s':34}{'of the clock':>24}{'of CPU time':>24}")
    for name in (CATCH_UP, PLAIN):
        print(
            f"{name:34}{rounds.spread([_mb(s) / s.wall_s for s in found[name]]):>24}"
            f"{rounds.spread([_mb(s) / s.cpu_s for s in found[name]]):>24}"
        )
    shares = rounds.ratio(found[CATCH_UP], found[PLAIN])
    print(f"catch-up, entries per CPU-second: {rounds.spread(shares, 2)} of the plain read")
    print(f"\n{'latency, ms':34}{'p50':>20}{'p99':>20}{'p99.9':>20}")
    for name, samples in found.items():
        if samples[0].latencies_s:
            parts = (rounds.spread([s.percentile_ms(p) for s in samples], 2) for p in PERCENTILES)
            print(f"{name:34}" + "".join(f"{part:>20}" for part in parts))
    report_profiles(found)


def report_profiles(found: dict[str, list[Sample]]) -> None:
    """Print the two profiles of the field."""
    one = median(s.percentile_ms(0.99) for s in found[ONE_DURABLE])
    behind = median(_mb(s) / s.wall_s for s in found[CATCH_UP])
    bulk = [s for n, s in found.items() if n == f"{SIZES[-1]} B, {LEDGERS[0]} ledgers, durable"]
    written = median(_mb(s) / s.wall_s for s in bulk[0])
    here = median(s.per_second for s in found[AT_RANDOM])
    print(f"\nlog:  appended one at a time, p99 {one:.1f} ms; read from behind, {behind:.0f} MB/s")
    print(f"data: written in bulk, {written:.0f} MB/s; read at random, {here:.0f} entries/s")


def _mb(sample: Sample) -> float:
    return sample.entries * sample.size_bytes / 1e6


async def measured(
    folder: Path, given: argparse.Namespace
) -> tuple[dict[str, list[Sample]], dict[str, list[float]]]:
    """Start the bookie, write what is read, and run the rounds."""
    address = f"sqlite://{folder}/meta.db"
    zones = {BOOKIE: ZoneName("a")}
    rules = PlacementRules(zones=(ZoneName("a"),), min_zones=1, desired_zones=1, strict=False)
    await make_cluster(address, Policy(placement=rules, quorums=ONE))
    with bookie_processes(address, folder, zones) as bookies:
        await asyncio.to_thread(bookies.start)
        async with clients.connect(address) as client:
            writer, count = await client.create(quorums=ONE), READ_BYTES // MIDDLE
            await loads.saturate([writer], random.randbytes(MIDDLE), count)
            await writer.close()
            many = {durable: await opened(client, durable) for durable in (True, False)}
            bench = Bench(bookies, client, folder, writer.ledger_id, count, many)
            found = await rounds.run(cases(bench, given.entries), given.rounds, random.Random(1))
            return found, bench.bookie_cpu_s


async def opened(client: Client, durable: bool) -> list[Writer]:
    """Give many ledgers that are open, with an entry each."""
    writers = [await client.create(quorums=ONE, deferred_sync=not durable) for _ in range(MANY)]
    await loads.saturate(writers, b"opened", MANY)
    return writers


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, lambda found: report(*found))


if __name__ == "__main__":
    main()
