"""The socket lane of bookies in pods: its port, and a roll over which it comes and goes."""

import asyncio
import dataclasses
import re
import urllib.request
from collections.abc import Callable
from typing import Final

import pytest

from tests.client.patience import PATIENT
from tests.cluster.installation import ZONES, Clusters
from tests.cluster.kubelet.api import Json
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import LedgerId

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

PORT: Final = 3182
ENTRIES: Final = 50
_CONNECTIONS: Final = re.compile(r"^zonekeeper_bookie_socket_connections (\d+)", re.M)
BOOKIES: Final = [f"log-{zone}-{ordinal}" for zone in ZONES for ordinal in range(2)]
OFFERED: Final = dataclasses.replace(PATIENT, way=BookieWay.OFFERED)
LANE_ALONE: Final = dataclasses.replace(PATIENT, way=BookieWay.SOCKET)


def ask(clusters: Clusters, *, lane: bool) -> None:
    update = {"bake": "0s", "deadline": "5m"}
    soon = {
        "placement": {"upgradeDomains": 2},
        "zoneWatch": {"evaluateEvery": "1s", "startGrace": "2s"},
    }
    clusters.apply("log", bookiesPerZone=2, socketLane=lane, update=update, policy=soon)


def ports(clusters: Clusters) -> list[dict[str, int]]:
    """Give the ports of each address that the bookies' Service leads to."""
    found = clusters.lab.list(
        "endpointslices",
        namespace=clusters.space,
        selector="kubernetes.io/service-name=log-bookies",
    )
    return [
        {one["name"]: one["port"] for one in each["ports"]}
        for each in found
        for _ in each.get("endpoints") or ()
    ]


def has_lane_by_pod(clusters: Clusters) -> list[bool]:
    """Say of each bookie's pod whether it has the port of the lane."""
    return [
        any(one["name"] == "socket" for one in pod["spec"]["containers"][0]["ports"])
        for pod in bookies(clusters)
    ]


def bookies(clusters: Clusters) -> list[Json]:
    found: list[Json] = clusters.lab.list(
        "pods", namespace=clusters.space, selector="zonekeeper.io/cluster=log"
    )
    return found


def used_lanes(clusters: Clusters) -> set[str]:
    """Name the bookies that say that their lane has connections."""
    used = set()
    for pod in bookies(clusters):
        url = f"http://{pod['status']['podIP']}:8080/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            if (found := _CONNECTIONS.search(answer.read().decode())) and int(found[1]):
                used.add(pod["metadata"]["name"])
    return used


async def write(client: Client) -> LedgerId:
    async with client.create() as writer:
        await writer.append_many([b"entry %d" % number for number in range(ENTRIES)])
        await writer.flush()
    return LedgerId(writer.ledger_id)


async def check(client: Client, ledger: LedgerId) -> None:
    reader = await client.open(ledger)
    read = [bytes(entry.payload) async for entry in reader.read_entries()]
    assert read == [b"entry %d" % number for number in range(ENTRIES)]


@pytest.mark.by_turns
def test_a_roll_that_brings_the_lane_is_passed_over_by_a_client_that_then_uses_it(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    ask(clusters, lane=False)
    clusters.wait_for_ready("log")
    written: list[LedgerId] = []

    def rolled(*, has_lane: bool) -> bool:
        served, open_at = ports(clusters), has_lane_by_pod(clusters)
        return (
            len(served) == len(open_at) == len(BOOKIES)
            and all((each.get("socket") == PORT) is has_lane for each in served)
            and set(open_at) == {has_lane}
            and clusters.condition("log", "UpToDate").get("status") == "True"
            and clusters.condition("log", "Ready").get("status") == "True"
        )

    async def roll(client: Client, *, has_lane: bool) -> None:
        """Ask for the lane, or for none, and write until every bookie is of that template."""
        await asyncio.to_thread(ask, clusters, lane=has_lane)
        while not await asyncio.to_thread(rolled, has_lane=has_lane):
            written.append(await write(client))
        written.append(await write(client))

    async def played() -> None:
        async with clusters.client(config=OFFERED) as client:
            written.append(await write(client))
            await roll(client, has_lane=True)
            while await asyncio.to_thread(used_lanes, clusters) != set(BOOKIES):
                written.append(await write(client))
            async with clusters.client(config=LANE_ALONE) as forced:
                written.append(await write(forced))
                await check(forced, written[-1])
            await roll(client, has_lane=False)
            for ledger in written:
                await check(client, ledger)

    asyncio.run(asyncio.wait_for(played(), 540))
    clusters.delete("log")
