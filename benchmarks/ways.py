"""gRPC against the socket lane: the same bookies, the same store, two clients of one process.

    python -m benchmarks.ways [--rounds 5] [--entries 100000]

Three real bookies serve both. Every round runs every case over each way once, in a new order, at
3/3/2, data on disk before the ack. A figure of one way stands for nothing; the ratios compare both
ways round by round. CPU is that of the client and the bookies. Latencies count from the moment at
which an entry was meant to be sent. What each case wrote is read back outside its time.
"""

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.support import accounting, loads, measuring, reading_back, rounds
from benchmarks.support.rounds import Sample
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

QUORUMS: Final = Quorums(ensemble=3, write=3, ack=2)
SIZES: Final = (100, 1_024, 65_536)
MIDDLE: Final = 1_024
RATE: Final = 5_000
RATE_SECONDS: Final = 2
ONE_AT_A_TIME: Final = 500
WAYS: Final = (BookieWay.GRPC, BookieWay.SOCKET)


@dataclass(frozen=True, slots=True)
class Way:
    """A client over one way."""

    client: Client
    bookies: BookieProcesses

    async def saturation(self, size: int, entries: int) -> Sample:
        """Write as fast as it goes."""
        return await self._measured(size, entries, None)

    async def one_at_a_time(self) -> Sample:
        """Append, wait, append."""
        return await self._measured(MIDDLE, ONE_AT_A_TIME, 0)

    async def at_rate(self) -> Sample:
        """Append at a rate."""
        return await self._measured(MIDDLE, RATE * RATE_SECONDS, RATE)

    async def _measured(self, size: int, entries: int, per_second: int | None) -> Sample:
        payload, latencies = random.randbytes(size), list[float]()
        writer = await self.client.create(quorums=QUORUMS)
        await writer.append_and_wait(payload)
        wall, cpu = time.perf_counter(), self._cpu()
        if per_second is None:
            await loads.saturate([writer], payload, entries)
        elif per_second == 0:
            latencies = await loads.one_at_a_time(writer, payload, entries)
        else:
            latencies = await loads.at_rate(
                [writer], payload, per_second=per_second, entries=entries
            )
        wall_s, cpu_s = time.perf_counter() - wall, self._cpu() - cpu
        await reading_back.checked(self.client, [writer], payload, 1 + entries)
        return Sample(
            entries=entries, size_bytes=size, wall_s=wall_s, cpu_s=cpu_s, latencies_s=latencies
        )

    def _cpu(self) -> float:
        return accounting.cpu_seconds(self.bookies.pids())


def cases(ways: Mapping[BookieWay, Way], entries: int) -> dict[str, rounds.Case]:
    """Name all cases."""
    found: dict[str, rounds.Case] = {}
    for way, over in ways.items():
        for size in SIZES:
            count = max(100, entries // (1 if size <= MIDDLE else 50))
            found[f"{size} B, {way.value}"] = partial(over.saturation, size, count)
        found[f"one at a time, {way.value}"] = over.one_at_a_time
        found[f"{RATE}/s, {way.value}"] = over.at_rate
    return found


def report(found: dict[str, list[Sample]]) -> None:
    """Print the table: CPU, and the median latency, of both ways and as a ratio."""
    print(f"\n{'':16}{'CPU-us, grpc':>24}{'CPU-us, socket':>24}{'socket / grpc':>20}")
    names = [name.removesuffix(", grpc") for name in found if name.endswith(", grpc")]
    for name in names:
        grpc, lane = (found[f"{name}, {way.value}"] for way in WAYS)
        costs = [[1e6 / each.per_cpu_second for each in samples] for samples in (grpc, lane)]
        ratios = [lane_us / grpc_us for grpc_us, lane_us in zip(*costs, strict=True)]
        print(
            f"{name:16}{rounds.spread(costs[0]):>24}{rounds.spread(costs[1]):>24}"
            f"{rounds.spread(ratios, 2):>20}"
        )
    print(f"\n{'':16}{'p50 ms, grpc':>24}{'p50 ms, socket':>24}{'socket / grpc':>20}")
    for name in names:
        grpc, lane = (found[f"{name}, {way.value}"] for way in WAYS)
        if grpc[0].latencies_s:
            times = [[each.percentile_ms(0.5) for each in samples] for samples in (grpc, lane)]
            ratios = [lane_ms / grpc_ms for grpc_ms, lane_ms in zip(*times, strict=True)]
            print(
                f"{name:16}{rounds.spread(times[0], 2):>24}{rounds.spread(times[1], 2):>24}"
                f"{rounds.spread(ratios, 2):>20}"
            )
    rates = [
        f"{name}: {median(one.per_second / 1e3 for one in found[name]):.1f}"
        for name in found
        if not found[name][0].latencies_s
    ]
    print(f"\nk entries/s: {'; '.join(rates)}")


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[Mapping[BookieWay, Way]]:
    """Give a cluster whose bookies serve both ways, and a client over each."""
    address = f"sqlite://{folder}/meta.db"
    zones = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
    rules = PlacementRules(zones=tuple(zones.values()), strict=True)
    await make_cluster(address, Policy(placement=rules, quorums=QUORUMS))
    with bookie_processes(
        address, folder, zones, flags={"--listen-socket": "127.0.0.1:0"}
    ) as bookies:
        await asyncio.to_thread(bookies.start)
        async with (
            clients.connect(address, ClientConfig(way=BookieWay.GRPC)) as grpc,
            clients.connect(address, ClientConfig(way=BookieWay.SOCKET)) as lane,
        ):
            yield {BookieWay.GRPC: Way(grpc, bookies), BookieWay.SOCKET: Way(lane, bookies)}


async def measured(folder: Path, given: argparse.Namespace) -> dict[str, list[Sample]]:
    """Run all rounds."""
    async with both(folder) as ways:
        for way in ways.values():
            await way.saturation(MIDDLE, 20_000)
        return await rounds.run(cases(ways, given.entries), given.rounds, random.Random(1))


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, report)


if __name__ == "__main__":
    main()
