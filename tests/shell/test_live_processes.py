"""A real local cluster: a zone is killed, held, counted, let go and repaired, all by command."""

import asyncio
import dataclasses
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.shell.local_world import LocalWorld, local_world
from tests.support.python_process import PythonProcess, processes
from zonekeeper.client.client import connect
from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata import ledgers, policy_store, zone_store
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.ids import LedgerId, ZoneName
from zonekeeper.placement.observation import Observation
from zonekeeper.placement.policy import RepairRules, ZoneWatchRules
from zonekeeper.placement.zone_records import ZoneRecord
from zonekeeper.shell.live.autorecovery import autorecovery
from zonekeeper.shell.live.plan import plan
from zonekeeper.shell.live.zones import zones

pytestmark = pytest.mark.processes

A = ZoneName("a")
ENTRIES = [f"entry {number}".encode() * 100 for number in range(200)]
#: The default rules in seconds; sessions take the time that they take.
WATCH = ZoneWatchRules(
    evaluate_every_ms=1_000,
    start_grace_ms=1_000,
    suspect_for_ms=1_000,
    hold_up_ms=2_000,
    hold_up_max_ms=4_000,
    stand_in_after_ms=2_000,
)
REPAIR = RepairRules(bookie_recovery_delay_ms=15_000, open_ledger_grace_ms=1_000)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    with local_world(tmp_path / "cluster") as made:
        yield made


@pytest.fixture
def started() -> Iterator[list[PythonProcess]]:
    with processes() as given:
        yield given


def call(command: click.Command, address: str, *words: str) -> dict[str, object]:
    result = CliRunner().invoke(
        command, [*words, "--metadata", address, "--output", "json"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_a_lost_zone_is_held_counted_released_and_repaired(
    world: LocalWorld, started: list[PythonProcess]
) -> None:
    world.data("up", "--bookies-per-zone", "2", "--autorecovery", "0")
    address = str(world.data("status")["metadata"])
    asyncio.run(hurry(address))
    words = ("run", "--metadata", address, "--name", "auto-1", "--http", "127.0.0.1:0")
    process = PythonProcess("tests.shell.autorecovery_process", *words)
    started.append(process)
    ready = process.line()
    port = int(ready.rpartition(":")[2])
    ledger_id = asyncio.run(write(address))

    world.data("kill-zone", "a")
    asyncio.run(zone_is(address, Observation.DOWN))
    held = call(plan, address)["held"]
    assert isinstance(held, list)
    assert [(one["what"], one["predicate"]) for one in held] == [("zone a", "zoneHeld")]
    assert call(zones, address, "status")["zoneWatch"] == "auto-1"
    assert moved(port) == 0

    words = ("release", "--zone", "a", "--reason", "it is gone", "--by", "anna")
    counted = call(autorecovery, address, *words, "--dry-run")
    assert (counted["ledgers"], counted["processes"], counted["refusal"]) == (1, 1, None)
    assert counted["bytes"] == sum(map(len, ENTRIES))
    call(autorecovery, address, *words, "--yes")
    asyncio.run(away_from(address, ledger_id))
    assert moved(port) >= sum(map(len, ENTRIES))
    assert asyncio.run(read(address, ledger_id)) == ENTRIES

    world.data("restore-zone", "a")
    asyncio.run(zone_is(address, Observation.UP))
    assert call(autorecovery, address, "status")["zonesHeld"] == []


def moved(port: int) -> int:
    """Say how many bytes the process has copied, by its metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return sum(map(int, re.findall(r"zonekeeper_repair_bytes_moved_total\S* (\d+)\n", text)))


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[Cluster]:
    store = await open_store(address)
    try:
        yield await clusters.open_cluster(store)
    finally:
        await store.close()


async def hurry(address: str) -> None:
    """Set a policy that does not take its time."""
    async with opened(address) as cluster:
        before = await policy_store.read(cluster)
        assert before is not None
        wanted = dataclasses.replace(before, zone_watch=WATCH, repair=REPAIR)
        await policy_store.write(cluster, wanted, replaces=before.version)


async def write(address: str) -> LedgerId:
    async with connect(address) as client:
        async with await client.create() as writer:
            await writer.append_many(ENTRIES)
        return writer.ledger_id


async def read(address: str, ledger_id: LedgerId) -> list[bytes]:
    async with connect(address) as client:
        reader = await client.open(ledger_id)
        return [bytes(entry.payload) async for entry in reader.read_entries()]


async def zone_is(address: str, state: Observation) -> None:
    """Wait until zone a is seen so."""
    async with opened(address) as cluster, zone_store.watch_zones(cluster) as states:
        async for seen in states:
            record = seen.get(A)
            if isinstance(record, ZoneRecord) and record.observed.state is state:
                return


async def away_from(address: str, ledger_id: LedgerId) -> None:
    """Wait until no fragment of a ledger names a bookie of zone a."""
    async with (
        opened(address) as cluster,
        cluster.store.watch(ledgers.path(cluster, ledger_id)) as nodes,
    ):
        async for _ in nodes:
            stored = await ledgers.read(cluster, ledger_id)
            assert stored is not None
            if not any(bookie.startswith("bk-a-") for bookie in stored.metadata.bookies):
                return
