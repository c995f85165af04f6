"""An honest writer while strangers flood its bookies, over TLS.

    python -m benchmarks.floods [--rounds 5] [--entries 2000]

Three real bookies, which hold the rights of roles, serve both ways. An honest client appends 1 KB
entries at a rate, at 3/3/2, with nothing beside it and during each flood, in a new order in every
round. The floods come from a process of the lowest priority, because real ones come from other
machines. What an entry waited counts from the moment at which it was meant to be sent. A figure of
one case stands for nothing: the ratios compare a flood with the quiet case of its own round.
"""

import argparse
import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.support import accounting, flooding, loads, measuring, reading_back, rounds
from benchmarks.support.rounds import Sample
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.certificates import Authority, of_role
from tests.support.checkout_root import ROOT
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role

QUORUMS: Final = Quorums(ensemble=3, write=3, ack=2)
PAYLOAD_BYTES: Final = 1_024
RATE: Final = 500
#: A flood that has not begun by then is a bug of the benchmark.
BEGIN_S: Final = 120
QUIET: Final = "nothing"
WAYS: Final = (BookieWay.GRPC, BookieWay.SOCKET)
#: Where the word before a port stands in a bookie's first line.
_PORT_AFTER: Final = {BookieWay.GRPC: "grpc", BookieWay.SOCKET: "socket"}


@dataclass(frozen=True, slots=True)
class Ground:
    """A client over one way, and the ports of that way which are flooded."""

    client: Client
    bookies: BookieProcesses
    files: TlsFiles
    ports: Sequence[int]

    async def during(self, flood: str, entries: int) -> Sample:
        """Append at the rate while this flood is on."""
        writer = await self.client.create(quorums=QUORUMS)
        payload = random.randbytes(PAYLOAD_BYTES)
        await writer.append_and_wait(payload)
        async with flooded(flood, self.files, self.ports):
            wall, cpu = time.perf_counter(), accounting.cpu_seconds(self.bookies.pids())
            latencies = await loads.at_rate([writer], payload, per_second=RATE, entries=entries)
            wall_s = time.perf_counter() - wall
            cpu_s = accounting.cpu_seconds(self.bookies.pids()) - cpu
        await reading_back.checked(self.client, [writer], payload, 1 + entries)
        return Sample(
            entries=entries,
            size_bytes=PAYLOAD_BYTES,
            wall_s=wall_s,
            cpu_s=cpu_s,
            latencies_s=latencies,
        )


@asynccontextmanager
async def flooded(
    flood: str, files: TlsFiles, ports: Sequence[int], *, niceness: int = flooding.LOWEST
) -> AsyncIterator[None]:
    """Flood these ports during the block."""
    if flood == QUIET:
        yield
        return
    given = (str(files.authority), str(files.certificate), str(files.key))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", flooding.__name__, flood, str(niceness), *given, *map(str, ports)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(BEGIN_S):
            said = await process.stdout.readline()
        assert said == b"flooding\n", f"the flood did not begin: {said!r}"
        yield
        assert process.returncode is None, f"the flood has ended: {process.returncode}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def report(found: dict[str, list[Sample]]) -> None:
    """Print the tails of both ways, and their ratios to the quiet case of the same round."""
    for part in (0.5, 0.99):
        heads = "".join(f"{way.value + ' ms':>24}{'to quiet':>18}" for way in WAYS)
        print(f"\np{part * 100:g} during{'':8}{heads}")
        for flood in (QUIET, *flooding.FLOODS[BookieWay.GRPC]):
            line = f"{flood:19}"
            for way in WAYS:
                if f"{flood}, {way.value}" not in found:
                    continue  # the flood is of the other way alone
                mine, quiet = (
                    [one.percentile_ms(part) for one in found[f"{name}, {way.value}"]]
                    for name in (flood, QUIET)
                )
                ratios = [a / b for a, b in zip(mine, quiet, strict=True)]
                line += f"{rounds.spread(mine, 2):>24}{rounds.spread(ratios, 2):>18}"
            print(line)


@asynccontextmanager
async def grounds(folder: Path) -> AsyncIterator[Mapping[BookieWay, Ground]]:
    """Give a cluster whose bookies serve both ways over TLS, and a client over each."""
    address = f"sqlite://{folder}/meta.db"
    zones = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
    rules = PlacementRules(zones=tuple(zones.values()), strict=True)
    await make_cluster(address, Policy(placement=rules, quorums=QUORUMS))
    authority = Authority(folder / "authority")
    shown = of_role(authority, Role.BOOKIE, hosts=tuple(zones))
    mine = of_role(authority, Role.CLIENT)
    flags = {
        "--tls-authority": str(shown.authority),
        "--tls-certificate": str(shown.certificate),
        "--tls-key": str(shown.key),
        "--access": "on",
        "--listen-socket": "127.0.0.1:0",
    }
    with bookie_processes(address, folder, zones, flags=flags) as bookies:
        await asyncio.to_thread(bookies.start)
        async with (
            clients.connect(address, ClientConfig(way=BookieWay.GRPC, tls=mine)) as grpc,
            clients.connect(address, ClientConfig(way=BookieWay.SOCKET, tls=mine)) as lane,
        ):
            yield {
                way: Ground(over, bookies, mine, [port_of(bookies, name, way) for name in zones])
                for way, over in zip(WAYS, (grpc, lane), strict=True)
            }


def port_of(bookies: BookieProcesses, name: BookieId, way: BookieWay) -> int:
    """Give the port of a bookie's way, as it said when it was ready."""
    words = bookies.said(name).replace(",", " ").split()
    return int(words[words.index(_PORT_AFTER[way]) + 1].rpartition(":")[2])


async def measured(folder: Path, given: argparse.Namespace) -> dict[str, list[Sample]]:
    """Run all rounds."""
    async with grounds(folder) as made:
        for ground in made.values():
            await ground.during(QUIET, given.entries)
        cases = {
            f"{flood}, {way.value}": partial(ground.during, flood, given.entries)
            for way, ground in made.items()
            for flood in (QUIET, *flooding.FLOODS[way])
        }
        return await rounds.run(cases, given.rounds, random.Random(1))


def main() -> None:
    """Measure, and print."""
    measuring.run(__doc__, measured, report, entries=2_000)


if __name__ == "__main__":
    main()
