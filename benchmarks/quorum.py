"""What a quorum of bookies does: real processes, one client, data on disk before the ack.

    python -m benchmarks.quorum [--rounds 5] [--entries 150000]

Every round runs every case once, in a new order: quorums, ledgers, entry sizes, and the baseline
that sends each entry in a message of its own. The first figure is entries per CPU-second over the
client and all bookies; the share is of the floor of the same round (see ``support/floor.py``). What
each case wrote is read back, and counted, outside its time. Latencies count from the moment at
which an entry was meant to be sent.

The figures of Apache BookKeeper that are printed beside are of another run, on this class of
machine; only the order of magnitude may be compared.
"""

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.support import accounting, floor, loads, per_entry, reading_back, rounds
from benchmarks.support.rounds import Sample
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from zonekeeper.client import client as clients
from zonekeeper.client.client import Client
from zonekeeper.client.writer import Writer
from zonekeeper.metadata import registration
from zonekeeper.placement.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.policy import PlacementRules, Policy
from zonekeeper.placement.quorums import Quorums

THREE: Final = Quorums(ensemble=3, write=3, ack=2)
FIVE: Final = Quorums(ensemble=5, write=3, ack=2)
SIZES: Final = (100, 1_024, 65_536)
LEDGERS: Final = (1, 100)
RATES: Final = (1_000, 10_000)
#: At a rate, or one at a time: for so long.
LATENCY_SECONDS: Final = 2
ONE_AT_A_TIME: Final = 1_000
PER_ENTRY: Final = 1_500
#: Entries per CPU-second of tuned Apache BookKeeper 4.17.3 (client and bookies, saturation, 3/3/2).
APACHE_TUNED: Final = {100: 31_300, 1_024: 25_900, 65_536: 1_690}
PERCENTILES: Final = (0.5, 0.99, 0.999)
#: Ledger ids of the baseline, which writes without a client: far from those that are given out.
_BASELINE_IDS: Final = itertools.count(1 << 40)

BOOKIES: Final = {
    BookieId(f"bk-{zone}-{ordinal}"): ZoneName(zone)
    for zone, ordinal in (("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0))
}


@dataclass(frozen=True, slots=True)
class Bench:
    """What the cases run on."""

    bookies: BookieProcesses
    client: Client
    folder: Path

    async def saturation(self, quorums: Quorums, ledgers: int, size: int, entries: int) -> Sample:
        """Write as fast as it goes, then read everything back."""
        writers = await self._writers(quorums, ledgers)
        payload = random.randbytes(size)
        wall, cpu = time.perf_counter(), self._cpu()
        await loads.saturate(writers, payload, entries)
        wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        await reading_back.checked(self.client, writers, payload, entries)
        return Sample(entries=entries, size_bytes=size, wall_s=wall_s, cpu_s=cpu_s)

    async def latency(self, per_second: int | None, size: int) -> Sample:
        """Write at a rate (None: one at a time)."""
        writers = await self._writers(THREE, 1)
        payload = random.randbytes(size)
        wall, cpu = time.perf_counter(), self._cpu()
        if per_second is None:
            found = await loads.one_at_a_time(writers[0], payload, ONE_AT_A_TIME)
        else:
            count = per_second * LATENCY_SECONDS
            found = await loads.at_rate(writers, payload, per_second=per_second, entries=count)
        wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        await reading_back.checked(self.client, writers, payload, len(found))
        return Sample(
            entries=len(found), size_bytes=size, wall_s=wall_s, cpu_s=cpu_s, latencies_s=found
        )

    async def baseline(self, size: int) -> Sample:
        """Write each entry in a message of its own."""
        names = list(BOOKIES)[: THREE.ensemble]
        infos = [await registration.read_service_info(self.client.cluster, name) for name in names]
        addresses = {
            name: f"{info.bookie.host}:{info.bookie.port}"
            for name, info in zip(names, infos, strict=True)
            if info is not None and info.bookie is not None
        }
        payload, ledger_id = random.randbytes(size), LedgerId(next(_BASELINE_IDS))
        wall, cpu = time.perf_counter(), self._cpu()
        await per_entry.write(addresses, ledger_id, payload, count=PER_ENTRY, quorums=THREE)
        wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        return Sample(entries=PER_ENTRY, size_bytes=size, wall_s=wall_s, cpu_s=cpu_s)

    async def floor(self, size: int, entries: int) -> Sample:
        """Move and keep the same bytes, and nothing else."""
        return await asyncio.to_thread(
            floor.measure, self.folder, size_bytes=size, entries=entries, copies=THREE.write
        )

    def _cpu(self) -> float:
        return accounting.cpu_seconds(self.bookies.pids())

    async def _writers(self, quorums: Quorums, ledgers: int) -> Sequence[Writer]:
        return [await self.client.create(quorums=quorums) for _ in range(ledgers)]


def entries_of(size: int, entries: int) -> int:
    """Say how many entries of a size a case writes: about as much work as of the others."""
    return max(LEDGERS) * max(10, entries // (1 if size <= 1_024 else 50) // max(LEDGERS))


def cases(bench: Bench, entries: int) -> dict[str, rounds.Case]:
    """Name all cases."""
    found: dict[str, rounds.Case] = {}
    for size in SIZES:
        count = entries_of(size, entries)
        for quorums, ledgers in itertools.product((THREE, FIVE), LEDGERS):
            name = f"{size} B, {spelled(quorums)}, {ledgers} ledgers"
            found[name] = partial(bench.saturation, quorums, ledgers, size, count)
        found[f"{size} B, floor"] = partial(bench.floor, size, count)
        found[f"{size} B, an entry a message"] = partial(bench.baseline, size)
    for rate in (None, *RATES):
        name = "one at a time" if rate is None else f"{rate}/s"
        found[f"1024 B, {name}"] = partial(bench.latency, rate, 1_024)
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
    print(f"\n{'ratios of entries per CPU-second, by rounds':50}")
    for size in SIZES:
        framed = found[f"{size} B, {spelled(THREE)}, 1 ledgers"]
        ratios = rounds.ratio(framed, found[f"{size} B, an entry a message"])
        apache = median(s.per_cpu_second for s in framed) / APACHE_TUNED[size]
        print(
            f"{size} B: {rounds.spread(ratios)} x an entry a message; "
            f"{apache:.1f} x tuned Apache BookKeeper (of another run)"
        )
    print(f"\n{'latency, ms':36}{'p50':>18}{'p99':>18}{'p99.9':>18}")
    for name, samples in found.items():
        if samples[0].latencies_s:
            parts = (rounds.spread([s.percentile_ms(p) for s in samples]) for p in PERCENTILES)
            print(f"{name:36}" + "".join(f"{part:>18}" for part in parts))


async def measured(folder: Path, given: argparse.Namespace) -> dict[str, list[Sample]]:
    """Start bookies, and run the rounds."""
    address = f"sqlite://{folder}/meta.db"
    rules = PlacementRules(zones=tuple(sorted(set(BOOKIES.values()))), strict=False)
    await make_cluster(address, Policy(placement=rules, quorums=THREE))
    with bookie_processes(address, folder, BOOKIES) as bookies:
        await asyncio.to_thread(bookies.start)
        async with clients.connect(address) as client:
            bench = Bench(bookies, client, folder)
            return await rounds.run(cases(bench, given.entries), given.rounds, random.Random(1))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--entries", type=int, default=150_000, help="of a case with small ones")
    given = parser.parse_args()
    print(f"before: {accounting.conditions()}; {given.rounds} rounds; median (least-most)")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        report(asyncio.run(measured(Path(folder), given)))
    print(f"\nafter: {accounting.conditions()}")


if __name__ == "__main__":
    main()
