"""A killed zone, repaired by the job ``zone-repair`` on two executors, one of which is killed.

    python -m benchmarks.zone_repair [--ledgers 10000] [--entries 20] [--bytes 1000]

Nine bookie processes stand in three zones. A real zone watch and a real auditor run beside them,
and no replicator. A zone is killed. While it is held the job is refused, and no bookie reads or
takes a byte. A person releases it, the auditor marks, and the job runs on two executors. In the
middle one of them is killed. At the end every mark is gone, every ledger was swapped once, and
``replica-audit`` finds nothing. What is not so ends the benchmark with an error.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pyspark

from benchmarks.support import accounting, process_tree
from tests.support import lost_zone
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.replication.audit.auditor import Auditor
from zonekeeper.replication.view.view import View
from zonekeeper.replication.watch.zone_watch import ZoneWatch
from zonekeeper.shell.local.local_cluster import LocalCluster

LOST: Final = ZoneName("c")
MASTER: Final = "local-cluster[2,1,1024]"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
LIMIT_S: Final = 3_600.0
_LOOK_EVERY_S: Final = 0.2


class Ended:
    """A command that has ended."""

    def __init__(self, code: int, out: str, err: str, took_s: float) -> None:
        self.code = code
        self.out = out
        self.err = err
        self.took_s = took_s


class Command:
    """A command that runs."""

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        self._began_s = time.perf_counter()
        self._running = subprocess.Popen(  # noqa: S603 our own commands
            words,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._running.pid

    @property
    def runs(self) -> bool:
        """Does it run?"""
        return self._running.poll() is None

    async def ended(self) -> Ended:
        """Wait for its end."""
        out, err = await asyncio.to_thread(self._running.communicate)
        took_s = time.perf_counter() - self._began_s
        return Ended(self._running.returncode, out, err, took_s)


def job(name: str, address: str, *words: str) -> Command:
    """Begin a job on two executors."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = (sys.executable, "-m", "zonekeeper.pipeline", name)
    return Command([*command, "--metadata", address, "--master", MASTER, *words], environment)


async def release(address: str) -> None:
    """Release the lost zone, as a person does."""
    words = ("autorecovery", "release", "--zone", LOST, "--reason", "it burned down")
    command = [sys.executable, "-m", "zonekeeper.shell", *words, "--yes", "--force"]
    ended = await Command([*command, "--metadata", address], dict(os.environ)).ended()
    assert ended.code == 0, ended.err


@asynccontextmanager
async def watched(client: Client) -> AsyncIterator[View]:
    """Run a zone watch and an auditor beside the block."""
    chance, cluster, name = random.SystemRandom(), client.cluster, BookieId("benchmark")

    def wall_ms() -> int:
        return time.time_ns() // 1_000_000

    view = View(cluster)
    zone_watch = ZoneWatch(
        cluster, view, name=name, chance=chance, wall_ms=wall_ms, stands_in=False
    )
    pool, around = client.bookies.pool, Surroundings(chance, wall_ms)
    auditor = Auditor(cluster, view, pool, name=name, surroundings=around)
    async with alongside(view.follow(), zone_watch.run(), auditor.run()):
        await view.known()
        yield view


async def marks(cluster: Cluster) -> int:
    """Count the marked ledgers."""
    count = 0
    async for _ in underreplication.ids(cluster):
        count += 1
    return count


async def killed_in_the_middle(running: Command, cluster: Cluster, all_of_them: int) -> None:
    """Kill one executor with its Python worker when half of the marks are gone."""
    while running.runs and await marks(cluster) > all_of_them // 2:  # noqa: ASYNC110 another process does it
        await asyncio.sleep(_LOOK_EVERY_S)
    executors = process_tree.named(running.pid, EXECUTOR)
    workers = [one for one in executors if EXECUTOR in _command(one)]
    assert workers, "no executor runs"
    below = sorted(process_tree.tree(workers[-1]))
    for one in below:
        os.kill(one, signal.SIGKILL)
    print(f"killed one executor of {len(workers)}, {len(below)} processes, in the middle")


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")


async def until_marked(cluster: Cluster, wanted: int) -> None:
    """Wait until the auditor has marked all."""
    while await marks(cluster) < wanted:  # noqa: ASYNC110 another process does it
        await asyncio.sleep(1)


async def measured(local: LocalCluster, given: argparse.Namespace) -> None:
    """Run the whole story, and print its figures."""
    address = local.address
    async with clients.connect(address) as client, watched(client) as view:
        began_s = time.perf_counter()
        ids = await lost_zone.written(client, given.ledgers, given.entries, given.bytes)
        print(f"wrote {len(ids)} ledgers in {time.perf_counter() - began_s:.0f} s")
        cluster = client.cluster
        before = await lost_zone.versions(cluster, ids)
        await local.kill_zone(LOST)
        async with asyncio.timeout(LIMIT_S):
            while len([one for one in view.missing if one.startswith(f"bk-{LOST}-")]) < 3 or (
                view.zones[LOST].gate.permits
            ):
                await view.changed(view.looks)
        await held(address, cluster)
        await release(address)
        async with asyncio.timeout(LIMIT_S):
            await until_marked(cluster, len(ids))
        await repaired(address, cluster, ids, before)


async def held(address: str, cluster: Cluster) -> None:
    """Show that the job is refused while the zone is held, and moves nothing."""
    moved = await lost_zone.bytes_at_bookies(cluster)
    refused = await job("zone-repair", address).ended()
    more = await lost_zone.bytes_at_bookies(cluster) - moved
    print(
        f"held: exit code {refused.code}, {more:.0f} bytes read or written: {refused.err.strip()}"
    )
    assert refused.code == 2
    assert more == 0


async def repaired(
    address: str, cluster: Cluster, ids: Sequence[LedgerId], before: Sequence[int]
) -> None:
    """Run the job with a kill in the middle, and then the audit."""
    running = job("zone-repair", address, "--ledgers-per-task", "250")
    ended = asyncio.ensure_future(running.ended())
    await killed_in_the_middle(running, cluster, len(ids))
    found = await ended
    print(found.out + found.err, end="")
    print(f"zone-repair: exit code {found.code} after {found.took_s:.0f} s")
    swapped = [
        after - was
        for after, was in zip(await lost_zone.versions(cluster, ids), before, strict=True)
    ]
    left = await lost_zone.naming(cluster, ids, f"bk-{LOST}-")
    print(
        f"ledgers swapped once: {swapped.count(1)} of {len(ids)}; "
        f"ledgers that still name the zone: {len(left)}; marks left: {await marks(cluster)}"
    )
    audit = await job("replica-audit", address).ended()
    print(audit.out + audit.err, end="")
    print(f"replica-audit: exit code {audit.code} after {audit.took_s:.0f} s")
    assert found.code == audit.code == 0
    assert swapped.count(1) == len(ids)
    assert not left


def main() -> None:
    """Make the cluster, run, and put it away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledgers", type=int, default=10_000)
    parser.add_argument("--entries", type=int, default=20, help="of each ledger")
    parser.add_argument("--bytes", type=int, default=1_000, help="of each entry")
    given = parser.parse_args()
    print(f"before: {accounting.conditions()}")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        local = LocalCluster(Path(folder) / "local")
        asyncio.run(local.up({"bookies_per_zone": 3, "autorecovery": 0, "tls": False}))
        try:
            asyncio.run(measured(local, given))
        finally:
            asyncio.run(local.down(purge=True))
    print(f"after: {accounting.conditions()}")


if __name__ == "__main__":
    main()
