"""Repair is installed with the cluster: the copies of a lost bookie are made again by itself."""

import asyncio
from collections.abc import Callable, Set
from typing import Final

import pytest

from tests.cluster.installation import ZONES, Clusters
from zonekeeper.placement.base.ids import BookieId, LedgerId

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

LEDGERS: Final = 12
ENTRIES: Final = 50
#: Production waits longer before it repairs; a test has no time for that.
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


def payload(ledger: int, entry: int) -> bytes:
    return f"{ledger} {entry} ".encode() * 20


async def write(clusters: Clusters) -> list[LedgerId]:
    """Write ledgers, and close them."""
    written = []
    async with clusters.client() as client:
        for _ in range(LEDGERS):
            async with client.create() as writer:
                for entry in range(ENTRIES):
                    await writer.append(payload(writer.ledger_id, entry))
            written.append(writer.ledger_id)
    return written


async def named(clusters: Clusters, ledgers: list[LedgerId]) -> set[BookieId]:
    """Name every bookie that holds an entry of these ledgers, by their metadata."""
    async with clusters.client() as client:
        found = [await client.metadata(ledger) for ledger in ledgers]
    return {bookie for one in found for part in one.fragments for bookie in part.ensemble}


async def read_all(clusters: Clusters, ledgers: list[LedgerId]) -> None:
    async with clusters.client() as client:
        for ledger in ledgers:
            reader = await client.open(ledger)
            entries = [bytes(entry.payload) async for entry in reader.read_entries()]
            assert entries == [payload(ledger, number) for number in range(ENTRIES)]


def bookies_on(clusters: Clusters, node: str) -> Set[BookieId]:
    pods = clusters.lab.list("pods", namespace=clusters.space, selector="zonekeeper.io/cluster=log")
    return {
        BookieId(pod["metadata"]["name"]) for pod in pods if pod["spec"].get("nodeName") == node
    }


@pytest.mark.by_turns
def test_the_copies_of_a_bookie_whose_node_is_lost_are_made_again_and_nobody_helped(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", policy=SOON)
    clusters.wait_for_ready("log")
    said = clusters.wait("log", "RepairReady", "True")
    assert said["message"].startswith("3 of 3 autorecovery processes are ready")
    assert clusters.left("deployments") == [
        f"deployments/log-{zone}-autorecovery" for zone in ZONES
    ]

    ledgers = asyncio.run(write(clusters))
    node = min(clusters.lab.nodes_of("a"), key=lambda name: len(bookies_on(clusters, name)))
    lost = bookies_on(clusters, node)
    assert len(lost) == 1, "the three bookies of zone a stand on two nodes"
    assert lost <= asyncio.run(named(clusters, ledgers)), "it holds entries"

    try:
        clusters.lab.stop_node(node)
        clusters.until(
            "log",
            lambda: lost.isdisjoint(asyncio.run(named(clusters, ledgers))),
            what=f"every copy of {', '.join(lost)} made again",
        )
        asyncio.run(read_all(clusters, ledgers))
    finally:
        clusters.lab.start_node(node)
        clusters.lab.wait_for_nodes([node])
    clusters.wait_for_ready("log")
    clusters.delete("log")
