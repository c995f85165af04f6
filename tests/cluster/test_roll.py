"""A roll on a real control plane: nine bookies are made anew under writes, and nobody notices."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.cluster.installation import ZONES, Clusters
from tests.cluster.kubelet.api import Json
from zonekeeper.placement.base.ids import LedgerId

pytestmark = pytest.mark.cluster

ENTRIES_A_LEDGER: Final = 200
SAMPLE_SECONDS: Final = 0.5
#: Production looks less often; a test has no time for that.
SOON: Final = {
    "zoneWatch": {
        "evaluateEvery": "1s",
        "startGrace": "2s",
        "suspectFor": "10s",
        "betweenMarksFor": "10s",
        "holdUp": "2s",
        "holdUpMax": "30s",
    },
    "repair": {"bookieRecoveryDelay": "30s"},
}
UPDATE: Final = {"bake": "0s"}
_MOVED: Final = re.compile(r"^zonekeeper_repair_bytes_moved_total(?:\{[^}]*\})? ([0-9.e+]+)$", re.M)


def payload(ledger: int, entry: int) -> bytes:
    return f"{ledger} {entry} ".encode() * 20


def bookies(clusters: Clusters) -> dict[str, Json]:
    found = clusters.lab.list(
        "pods", namespace=clusters.space, selector="zonekeeper.io/cluster=log"
    )
    return {item["metadata"]["name"]: item for item in found}


def uids(clusters: Clusters) -> dict[str, str]:
    return {name: item["metadata"]["uid"] for name, item in bookies(clusters).items()}


def zones_away(clusters: Clusters) -> set[str]:
    """Name the zones that have a bookie without a pod that is ready."""
    ready = {
        name
        for name, item in bookies(clusters).items()
        if not item["metadata"].get("deletionTimestamp")
        and any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in item.get("status", {}).get("conditions", ())
        )
    }
    return {zone for zone in ZONES for n in range(3) if f"log-{zone}-{n}" not in ready}


def roll(clusters: Clusters) -> Json:
    found: Json = clusters.get("log").get("status", {}).get("roll", {})
    return found


def declared(store: KazooClient, clusters: Clusters) -> Sequence[str]:
    try:
        found: Sequence[str] = store.get_children(
            f"/{clusters.space}/ledgers.zonekeeper/maintenance"
        )
    except NoNodeError:
        return ()
    return found


def bytes_copied(clusters: Clusters) -> float:
    """Add up what the autorecovery processes say that they have copied."""
    total = 0.0
    for item in clusters.lab.list(
        "pods", namespace=clusters.space, selector="zonekeeper.io/repairs=log"
    ):
        url = f"http://{item['status']['podIP']}:8080/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            total += sum(map(float, _MOVED.findall(answer.read().decode())))
    return total


class Writing:
    """Writes ledgers, one after another, until it is told to end."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._ends = False
        self.written: list[LedgerId] = []

    def end(self) -> None:
        self._ends = True

    async def run(self) -> None:
        async with self._clusters.client() as client:
            while not self._ends:
                async with client.create() as writer:
                    for entry in range(ENTRIES_A_LEDGER):
                        await writer.append_and_wait(payload(writer.ledger_id, entry))
                self.written.append(writer.ledger_id)

    async def read_all(self) -> None:
        """Read every entry that was acknowledged."""
        async with self._clusters.client() as client:
            for ledger in self.written:
                reader = await client.open(ledger)
                entries = [bytes(entry.payload) async for entry in reader.read_entries()]
                assert entries == [payload(ledger, one) for one in range(ENTRIES_A_LEDGER)]


async def watched(
    clusters: Clusters, writing: Writing, is_over: Callable[[], bool]
) -> list[set[str]]:
    """Give the zones that had a bookie away at each sample, while entries are written."""
    samples: list[set[str]] = []

    async def sample() -> None:
        try:
            while not await asyncio.to_thread(is_over):
                samples.append(await asyncio.to_thread(zones_away, clusters))
                await asyncio.sleep(SAMPLE_SECONDS)
        finally:
            writing.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(writing.run())
        group.create_task(sample())
    return samples


def annotate(clusters: Clusters, **annotations: str) -> None:
    said = [f"zonekeeper.io/{name}={text}" for name, text in annotations.items()]
    clusters.lab.kubectl(
        "annotate", "--overwrite", "bookiecluster", "log", "-n", clusters.space, *said
    )


def is_rolled(clusters: Clusters, before: Mapping[str, str]) -> bool:
    now = uids(clusters)
    return roll(clusters).get("phase") == "Settled" and all(
        now.get(name) not in (None, uid) for name, uid in before.items()
    )


def test_nine_bookies_are_made_anew_under_writes_unit_by_unit_and_a_bad_change_halts(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    clusters.apply("log", policy=SOON, update=UPDATE)
    clusters.wait_for_ready("log")
    clusters.wait("log", "RepairReady", "True")
    before = uids(clusters)
    writing = Writing(clusters)

    annotate(clusters, restart="monday")
    samples = asyncio.run(watched(clusters, writing, lambda: is_rolled(clusters, before)))

    assert max(map(len, samples)) == 1, json.dumps([sorted(one) for one in samples])
    assert {zone for one in samples for zone in one} == {*ZONES}, "the roll was seen at work"
    assert writing.written
    asyncio.run(writing.read_all())
    assert declared(store, clusters) == []
    assert bytes_copied(clusters) == 0

    # A change that no node has room for: the canary fits nowhere, and nothing more is touched.
    rolled = uids(clusters)
    huge = {"requests": {"cpu": "1000"}}
    clusters.apply("log", policy=SOON, update=UPDATE, resources=huge)
    said = clusters.wait("log", "Rolling", "False", "Halted")
    assert said["message"].startswith("log-a-0: Unschedulable: ")
    clusters.until("log", lambda: declared(store, clusters) == [], what="maintenance ended")
    assert [name for name, uid in uids(clusters).items() if rolled[name] != uid] == ["log-a-0"]

    clusters.apply("log", policy=SOON, update=UPDATE)
    clusters.wait_for_ready("log")
    clusters.wait("log", "Rolling", "True", "Settled")
    assert [name for name, uid in uids(clusters).items() if rolled[name] != uid] == ["log-a-0"]
    assert declared(store, clusters) == []
    asyncio.run(writing.read_all())
    clusters.delete("log")
