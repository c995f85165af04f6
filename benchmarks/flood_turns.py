"""The turns of a bookie's event loop while strangers flood its port over TLS.

    python -m benchmarks.flood_turns [--seconds 10]

A turn is what an append waits for at least, if it comes while the turn runs. The figures are CPU
time of the loop's thread, so other work on the machine changes them little, and the flood has the
priority of the bookie. What a client sees of it is what ``benchmarks.floods`` measures.
Each flood is against a process of its own, whose bookie is the tests' one, without disks.
"""

import argparse
import asyncio
import os
import selectors
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks import floods
from benchmarks.support import accounting, flooding
from tests.support.certificates import Authority, of_role
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.socket.socket_server import SocketServer
from zonekeeper.wire.socket.socket_tls import SocketTls

#: The floods mean this one.
BOOKIE: Final = BookieId("bk-a-0")
#: What a flood is like in its first seconds does not count.
BEGIN_S: Final = 3
#: A flood breaks off all at once, and that counts.
ENDED_S: Final = 1


class TimedSelector(selectors.DefaultSelector):
    """Measures what the loop's thread computes between two looks for events: that is a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.turns_s: list[float] = []
        self._since_s = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look for events."""
        self.turns_s.append(time.thread_time() - self._since_s)
        found = super().select(timeout)
        self._since_s = time.thread_time()
        return found


@asynccontextmanager
async def served(way: BookieWay, folder: Path) -> AsyncIterator[tuple[int, TlsFiles]]:
    """Serve over one way; give the port, and what a client shows."""
    authority = Authority(folder / "authority")
    shown = of_role(authority, Role.BOOKIE, hosts=(BOOKIE,))
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server: GrpcServer | SocketServer
    if way is BookieWay.GRPC:
        credentials = tls.server_credentials(shown)
        server = GrpcServer(host, "127.0.0.1:0", name=BOOKIE, credentials=credentials)
    else:
        encryption = SocketTls(shown, serving=True)
        server = SocketServer(host, Address("127.0.0.1", 0), name=BOOKIE, tls=encryption)
    await server.start()
    try:
        yield server.port, of_role(authority, Role.CLIENT)
    finally:
        await server.stop(0)


async def measured(way: BookieWay, flood: str, seconds: float, selector: TimedSelector) -> str:
    """Flood a server; say what its turns were like."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        async with served(way, Path(folder)) as (port, mine):
            async with floods.flooded(flood, mine, [port], niceness=0):
                await asyncio.sleep(BEGIN_S)
                selector.turns_s.clear()
                cpu_s, wall_s = accounting.cpu_seconds(), time.perf_counter()
                await asyncio.sleep(seconds)
                cpu_s = accounting.cpu_seconds() - cpu_s
                wall_s = time.perf_counter() - wall_s
            await asyncio.sleep(ENDED_S)
            turns_ms = [turn_s * 1_000 for turn_s in sorted(selector.turns_s)]
            p99_ms = turns_ms[int(0.99 * (len(turns_ms) - 1))]
            return (
                f"{way.value:8}{flood:18}{cpu_s / wall_s:8.1%}{p99_ms:14.2f}{turns_ms[-1]:14.1f}"
                f"{accounting.memory_mib(os.getpid()):8.0f}"
            )


def print_one(way: BookieWay, flood: str, seconds: float) -> None:
    """Measure one flood in this process, and print its line."""
    selector = TimedSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        print(runner.run(measured(way, flood, seconds, selector)), flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    print(f"before: {accounting.conditions()}")
    print(f"{'':26}{'CPU':>8}{'p99 turn, ms':>14}{'longest, ms':>14}{'MiB':>8}", flush=True)
    for way, kinds in flooding.FLOODS.items():
        for flood in kinds:
            process = get_context("spawn").Process(
                target=print_one, args=(way, flood, given.seconds)
            )
            process.start()
            process.join()
            assert process.exitcode == 0, "it has said why"


if __name__ == "__main__":
    main()
