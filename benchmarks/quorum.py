"""What a quorum of bookies does: real processes, one client, data on disk before the ack.

    python -m benchmarks.quorum [--rounds 5] [--entries 100000]

Every round runs every case once, in a new order: quorums, ledgers, entry sizes, and the baseline
that sends each entry in a message of its own. 3/3/2 is on three bookies, 5/3/2 on five others; the
ones stand still while the others work. The first figure is entries per CPU-second over the client
and the bookies of the case; the share is of the floor of the same round (see ``support/floor.py``).
What each case wrote is read back, and counted, outside its time; so is the opening of its ledgers.
Latencies count from the moment at which an entry was meant to be sent.

Before the first round each bookie is given as much as its arrival segments hold. A bookie makes
their files when it first needs them, and uses the same ones for the rest of its life.

Apache BookKeeper is compared in one run with zonekeeper: ``python -m benchmarks.apache``.
"""

import argparse
import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.support import accounting, floor, loads, measuring, per_entry, reading_back, rounds
from benchmarks.support.rounds import Sample
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.bookies import registration
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.wire.formats import digests, openings

THREE: Final = Quorums(ensemble=3, write=3, ack=2)
FIVE: Final = Quorums(ensemble=5, write=3, ack=2)
SIZES: Final = (100, 1_024, 65_536)
LEDGERS: Final = (1, 100)
MIDDLE: Final = 1_024
#: Entries a second, by their size: well below saturation, and some way up.
RATES: Final = {100: (1_000, 10_000), 1_024: (1_000, 10_000), 65_536: (100,)}
#: At a rate, or one at a time: for so long.
LATENCY_SECONDS: Final = 2
ONE_AT_A_TIME: Final = 1_000
PER_ENTRY: Final = 1_000
#: What the arrival segments of a bookie hold: 16 of 64 MiB.
WARM_UP_BYTES: Final = 16 * 64 << 20
PERCENTILES: Final = (0.5, 0.99, 0.999)
_PASSWORD: Final = b""
PLACES: Final[Mapping[Quorums, Sequence[str]]] = {
    THREE: ("a", "b", "c"),
    FIVE: ("a", "a", "b", "b", "c"),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """What the cases of one choice of quorums run on: a cluster of its own."""

    quorums: Quorums
    bookies: BookieProcesses
    client: Client
    folder: Path

    async def warm_up(self) -> None:
        """Have every bookie make the files of its arrival segments, and use each once."""
        size, copies = max(SIZES), self.quorums.write
        await self.saturation(1, size, WARM_UP_BYTES * self.quorums.ensemble // (copies * size))

    async def saturation(self, ledgers: int, size: int, entries: int) -> Sample:
        """Write as fast as it goes, then read everything back."""
        payload = random.randbytes(size)
        writers = await self._writers(ledgers, payload)
        wall, cpu = time.perf_counter(), self._cpu()
        await loads.saturate(writers, payload, entries)
        wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        await reading_back.checked(self.client, writers, payload, ledgers + entries)
        return Sample(entries=entries, size_bytes=size, wall_s=wall_s, cpu_s=cpu_s)

    async def latency(self, ledgers: int, size: int, per_second: int | None) -> Sample:
        """Write at a rate (None: one at a time)."""
        payload = random.randbytes(size)
        writers = await self._writers(ledgers, payload)
        wall, cpu = time.perf_counter(), self._cpu()
        if per_second is None:
            found = await loads.one_at_a_time(writers[0], payload, ONE_AT_A_TIME)
        else:
            count = per_second * LATENCY_SECONDS
            found = await loads.at_rate(writers, payload, per_second=per_second, entries=count)
        wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        await reading_back.checked(self.client, writers, payload, ledgers + len(found))
        return Sample(
            entries=len(found), size_bytes=size, wall_s=wall_s, cpu_s=cpu_s, latencies_s=found
        )

    async def baseline(self, size: int) -> Sample:
        """Write each entry in a message of its own."""
        payload = random.randbytes(size)
        writer = await self.client.create(quorums=self.quorums, digest=Digest.CRC32C)
        writer.halt()
        opening = openings.FragmentOpening(
            ledger_id=writer.ledger_id,
            master_key=digests.master_key(_PASSWORD),
            quorums=self.quorums,
            digest=Digest.CRC32C,
            first_entry_id=EntryId(0),
            ensemble=writer.ensemble,
        )
        addresses = await self._addresses(writer.ensemble)
        instance = self.client.cluster.instance
        async with per_entry.opened(addresses, instance, opening, _PASSWORD) as streams:
            wall, cpu = time.perf_counter(), self._cpu()
            await streams.write(payload, PER_ENTRY)
            wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        await reading_back.recovered(self.client, writer.ledger_id, payload, PER_ENTRY)
        return Sample(entries=PER_ENTRY, size_bytes=size, wall_s=wall_s, cpu_s=cpu_s)

    async def floor(self, size: int, entries: int) -> Sample:
        """Move and keep the same bytes, and nothing else."""
        return await asyncio.to_thread(
            floor.measure, self.folder, size_bytes=size, entries=entries, copies=self.quorums.write
        )

    def _cpu(self) -> float:
        return accounting.cpu_seconds(self.bookies.pids())

    async def _writers(self, ledgers: int, payload: bytes) -> Sequence[Writer]:
        """Make ledgers with one entry each: so each is open at its bookies."""
        writers = [await self.client.create(quorums=self.quorums) for _ in range(ledgers)]
        for writer in writers:
            await writer.append_and_wait(payload)
        return writers

    async def _addresses(self, names: Sequence[BookieId]) -> Mapping[BookieId, str]:
        infos = [await registration.read_service_info(self.client.cluster, name) for name in names]
        return {
            name: f"{info.bookie.host}:{info.bookie.port}"
            for name, info in zip(names, infos, strict=True)
            if info is not None and info.bookie is not None
        }


def entries_of(size: int, entries: int) -> int:
    """Say how many entries of a size a case writes: about as much work as of the others."""
    return max(LEDGERS) * max(10, entries // (1 if size <= 1_024 else 50) // max(LEDGERS))


def cases(benches: Sequence[Bench], entries: int) -> dict[str, rounds.Case]:
    """Name all cases."""
    found: dict[str, rounds.Case] = {}
    for size in SIZES:
        count = entries_of(size, entries)
        for bench, ledgers in itertools.product(benches, LEDGERS):
            name = f"{size} B, {spelled(bench.quorums)}, {ledgers} ledgers"
            found[name] = partial(bench.saturation, ledgers, size, count)
        first = benches[0]
        found[f"{size} B, floor"] = partial(first.floor, size, count)
        found[f"{size} B, an entry a message"] = partial(first.baseline, size)
    for bench, size in itertools.product(benches, SIZES):
        name = f"{size} B, {spelled(bench.quorums)}"
        found[f"{name}, one at a time"] = partial(bench.latency, 1, size, None)
        for ledgers, rate in itertools.product(LEDGERS, RATES[size]):
            case = partial(bench.latency, ledgers, size, rate)
            found[f"{name}, {ledgers} ledgers, {rate}/s"] = case
    return found


def spelled(quorums: Quorums) -> str:
    """Spell quorums as E/Qw/Qa."""
    return f"{quorums.ensemble}/{quorums.write}/{quorums.ack}"


def report(found: dict[str, list[Sample]]) -> None:
    """Print the tables."""
    print(f"\n{'saturation':36}{'k entries/CPU-s':>24}{'k/s':>8}{'CPUs':>6}{'of floor':>9}")
    for name, samples in found.items():
        if samples[0].latencies_s:
            continue
        size = samples[0].size_bytes
        share = median(rounds.ratio(samples, found[f"{size} B, floor"]))
        print(
            f"{name:36}{rounds.spread([s.per_cpu_second / 1e3 for s in samples], 2):>24}"
            f"{median(s.per_second for s in samples) / 1e3:8.2f}"
            f"{median(s.cpus for s in samples):6.2f}{share:9.1%}"
        )
    report_ratios(found)
    heads = "".join(f"{head:>20}" for head in ("p50", "p99", "p99.9"))
    print(f"\n{'latency, ms':36}{heads}{'entries/CPU-s':>15}{'of floor':>9}")
    for name, samples in found.items():
        if samples[0].latencies_s:
            share = median(rounds.ratio(samples, found[f"{samples[0].size_bytes} B, floor"]))
            parts = (rounds.spread([s.percentile_ms(p) for s in samples], 2) for p in PERCENTILES)
            print(
                f"{name:36}"
                + "".join(f"{part:>20}" for part in parts)
                + f"{median(s.per_cpu_second for s in samples):15.0f}{share:9.1%}"
            )


def report_ratios(found: dict[str, list[Sample]]) -> None:
    """Print what frames gain."""
    print(f"\n{spelled(THREE) + ', 1 ledgers, by CPU-second':36}{'x an entry a message':>24}")
    for size in SIZES:
        framed = found[f"{size} B, {spelled(THREE)}, 1 ledgers"]
        ratios = rounds.ratio(framed, found[f"{size} B, an entry a message"])
        print(f"{f'{size} B':36}{rounds.spread(ratios):>24}")


async def measured(folder: Path, given: argparse.Namespace) -> dict[str, list[Sample]]:
    """Start both clusters, and run the rounds."""
    async with AsyncExitStack() as ends:
        benches = [await ends.enter_async_context(_bench(folder, each)) for each in PLACES]
        return await rounds.run(cases(benches, given.entries), given.rounds, random.Random(1))


@asynccontextmanager
async def _bench(folder: Path, quorums: Quorums) -> AsyncIterator[Bench]:
    """Start the bookies of one choice of quorums, and use them once."""
    zones, size = PLACES[quorums], quorums.ensemble
    address = f"sqlite://{folder}/of-{size}.db"
    bookies = {BookieId(f"bk-{at}-of-{size}"): ZoneName(zone) for at, zone in enumerate(zones)}
    rules = PlacementRules(zones=tuple(sorted(set(bookies.values()))), strict=quorums is THREE)
    await make_cluster(address, Policy(placement=rules, quorums=quorums))
    with bookie_processes(address, folder, bookies) as running:
        await asyncio.to_thread(running.start)
        async with clients.connect(address) as client:
            bench = Bench(quorums, running, client, folder)
            await bench.warm_up()
            yield bench


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, report)


if __name__ == "__main__":
    main()
