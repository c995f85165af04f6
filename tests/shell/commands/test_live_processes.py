"""A real cluster that loses things: a zone, then a bookie for good, then one that is emptied.

All of it by command, as a person on call does it; the two autorecovery processes of the cluster do
what is automatic. Commands that take long run as processes of their own.
"""

import asyncio
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.live_cluster import (
    PATIENCE_S,
    WHO,
    LiveCluster,
    is_calm,
    live_cluster,
    opened,
    registration,
)
from zonekeeper.client.api.client import connect
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.shell.commands.audit import audit
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.plan import plan
from zonekeeper.shell.commands.timeline import timeline
from zonekeeper.shell.commands.zones import zones

pytestmark = pytest.mark.processes

A = ZoneName("a")
ENTRIES = [f"entry {number}".encode() * 100 for number in range(200)]
SIZE_BYTES = sum(map(len, ENTRIES))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path / "cluster", "--bookies-per-zone", "2") as up:
        yield up


def test_what_is_lost_is_held_counted_released_repaired_and_forgotten(
    cluster: LiveCluster,
) -> None:
    ledger_id = asyncio.run(write(cluster.address))
    a_zone_is_lost_and_its_repair_is_held(cluster)
    it_is_released_after_a_person_saw_what_that_does(cluster, ledger_id)
    the_zone_is_back(cluster)
    a_bookie_that_is_lost_for_good_is_recovered(cluster, ledger_id)
    a_bookie_is_drained_and_taken_back(cluster, ledger_id)
    a_bookie_that_is_there_is_emptied_and_forgotten(cluster, ledger_id)
    assert asyncio.run(read(cluster.address, ledger_id)) == ENTRIES
    told = [
        (one["kind"], one["subject"])
        for one in json.loads(cluster.text(timeline, "--output", "json"))
        if one["by"] == "anna"
    ]
    assert told == [
        ("removed", "bookie bk-b-1"),
        ("drained", "bookie bk-b-1"),
        ("draining", "bookie bk-b-1"),
        ("taken back", "bookie bk-b-1"),
        ("drained", "bookie bk-b-1"),
        ("draining", "bookie bk-b-1"),
        ("recovered", "bookie bk-c-1"),
        ("recovering", "bookie bk-c-1"),
        ("changed", "zone a"),
    ]


def a_zone_is_lost_and_its_repair_is_held(cluster: LiveCluster) -> None:
    cluster.local.data("kill-zone", "a")
    cluster.until(lambda view: view.zones[A].observed.state is Observation.DOWN)
    waiting = cluster.data(plan)["held"]
    assert isinstance(waiting, list)
    assert [(one["what"], one["predicate"]) for one in waiting] == [("zone a", "zoneHeld")]
    held = {row["bookie"]: row["repairHeldBy"] for row in listed(cluster)}
    assert {name: one["by"] for name, one in held.items() if isinstance(one, dict)} == {  # S149.
        "bk-a-0": "zoneHeld",
        "bk-a-1": "zoneHeld",
    }
    found = cluster.data(zones, "status", "a")["zones"]
    assert isinstance(found, dict)
    assert (found["a"]["observation"], found["a"]["permission"]) == ("down", "held")
    assert moved_bytes(cluster) == 0


def it_is_released_after_a_person_saw_what_that_does(
    cluster: LiveCluster, ledger_id: LedgerId
) -> None:
    release = ("release", "--zone", "a", *WHO)
    counted = cluster.data(autorecovery, *release, "--dry-run")
    assert (counted["ledgers"], counted["refusal"]) == (1, None)
    assert counted["bytes"] == SIZE_BYTES
    assert cluster.data(autorecovery, "status")["zonesHeld"] == ["a"]
    cluster.text(autorecovery, *release, "--yes")
    asyncio.run(away_from(cluster.address, ledger_id, "bk-a-"))
    assert moved_bytes(cluster) >= SIZE_BYTES
    assert asyncio.run(read(cluster.address, ledger_id)) == ENTRIES


def the_zone_is_back(cluster: LiveCluster) -> None:
    cluster.local.data("restore-zone", "a")
    cluster.until(is_calm)
    assert cluster.data(autorecovery, "status")["zonesHeld"] == []


def a_bookie_that_is_lost_for_good_is_recovered(cluster: LiveCluster, ledger_id: LedgerId) -> None:
    cluster.local.data("kill-bookie", "bk-c-1")
    cluster.until(registration("bk-c-1", Registration.ABSENT))
    (lost,) = [row for row in listed(cluster) if row["state"] == "absent"]
    assert lost["repairHeldBy"] is None, "its zone is open, and a zone watch is seen to evaluate"
    with cluster.process("bookies", "recover", "bk-c-1", *WHO, "--yes") as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "bk-c-1 is recovered elsewhere\n"), err
    asyncio.run(away_from(cluster.address, ledger_id, "bk-c-1"))
    copies = cluster.data(audit, "replicas", "--ledger", str(ledger_id))
    assert copies["counts"] == {"nothing found": 1}


def a_bookie_is_drained_and_taken_back(cluster: LiveCluster, ledger_id: LedgerId) -> None:
    assert cluster.text(bookies, "drain", "bk-b-1", *WHO, "--yes") == "bk-b-1 is emptied\n"
    asyncio.run(away_from(cluster.address, ledger_id, "bk-b-1"))
    cluster.until(registration("bk-b-1", Registration.READ_ONLY))
    said = "order to drain it (by anna: a test), emptied"
    assert said in cluster.text(bookies, "show", "bk-b-1")
    assert f"bk-b-1: {said}" in cluster.text(autorecovery, "status")
    taken = cluster.text(bookies, "take-back", "bk-b-1", *WHO)
    assert taken == "the order about bk-b-1 is taken back\n"
    cluster.until(registration("bk-b-1", Registration.WRITABLE))
    assert "order" not in cluster.text(bookies, "show", "bk-b-1")


def a_bookie_that_is_there_is_emptied_and_forgotten(
    cluster: LiveCluster, ledger_id: LedgerId
) -> None:
    order = ("bookies", "decommission", "bk-b-1", *WHO, "--yes", "--here")
    with cluster.process(*order) as process:
        words = until_it_says(process, "waiting for the bookie to be stopped")
        asyncio.run(away_from(cluster.address, ledger_id, "bk-b-1"))
        cluster.local.data("kill-bookie", "bk-b-1")
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "bk-b-1 is emptied and forgotten\n"), words + err
    assert "bk-b-1" not in [row["bookie"] for row in listed(cluster)]


def listed(cluster: LiveCluster) -> list[dict[str, dict[str, str] | str | None]]:
    found: list[dict[str, dict[str, str] | str | None]] = json.loads(
        cluster.text(bookies, "list", "--output", "json")
    )
    return found


def until_it_says(process: "subprocess.Popen[str]", wanted: str) -> str:
    """Read what a process says of its progress until it says something."""
    assert process.stderr is not None
    words = ""
    for line in process.stderr:
        words += line
        if wanted in line:
            return words
    raise AssertionError(f"it ended without a word of {wanted!r}: {words}")


def moved_bytes(cluster: LiveCluster) -> int:
    """Say how many bytes the autorecovery processes that live have copied, by their metrics."""
    moved = 0
    for process in filter(lambda one: one["http"], cluster.local.autorecovery().values()):
        with urllib.request.urlopen(f"http://{process['http']}/metrics") as answer:
            text = answer.read().decode()
        samples = re.findall(r"zonekeeper_repair_bytes_moved_total\S* (\d+)\n", text)
        moved += sum(map(int, samples))
    return moved


async def write(address: str) -> LedgerId:
    async with connect(address) as client:
        async with await client.create() as writer:
            await writer.append_many(ENTRIES)
        return writer.ledger_id


async def read(address: str, ledger_id: LedgerId) -> list[bytes]:
    async with connect(address) as client:
        reader = await client.open(ledger_id)
        return [bytes(entry.payload) async for entry in reader.read_entries()]


async def away_from(address: str, ledger_id: LedgerId, prefix: str) -> None:
    """Wait until no fragment of a ledger names a bookie whose name begins so."""
    async with (
        opened(address) as cluster,
        cluster.store.watch(ledgers.path(cluster, ledger_id)) as nodes,
    ):
        async for _ in nodes:
            stored = await ledgers.read(cluster, ledger_id)
            assert stored is not None
            if not any(bookie.startswith(prefix) for bookie in stored.metadata.bookies):
                return
