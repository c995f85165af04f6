"""A zone is added on a real control plane, filled and removed; every entry is read afterwards."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest
import yaml
from kazoo.client import KazooClient

from tests.cluster.installation import Clusters, resource
from tests.cluster.kubelet.api import Json
from tests.cluster.test_roll import Writing, uids
from tests.cluster.test_scale_down import POLICY, until
from zonekeeper.metadata.cluster import cluster as metadata_clusters
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.replication.decisions import order_steps

pytestmark = [pytest.mark.cluster, pytest.mark.long]

LABEL: Final = "topology.kubernetes.io/zone"
THREE: Final = [{"name": zone} for zone in "abc"]
FOUR: Final = [*THREE, {"name": "d"}]
NEW: Final = {"log-d-0", "log-d-1"}
#: So many ledgers must be on the new zone before it leaves.
LEDGERS_MIN: Final = 6


_logger = logging.getLogger(__name__)


def asked(clusters: Clusters, zones: Sequence[Json]) -> Json:
    """Give the resource with two bookies in each of these zones."""
    return resource(
        "log",
        clusters.space,
        clusters.uri,
        zones=zones,
        policy=POLICY,
        bookiesPerZone=2,
        update={"bake": "0s"},
        storage={"size": "1Gi", "onScaleDown": "Delete"},
    )


def ask(clusters: Clusters, zones: Sequence[Json]) -> None:
    clusters.lab.apply([asked(clusters, zones)])


async def ledgers_of(uri: str) -> dict[LedgerId, LedgerMetadata]:
    """Read all ledgers."""
    store = await open_store(uri)
    cluster = await metadata_clusters.open_cluster(store)
    listed = [one async for one in ledger_listing.all_of(cluster)]
    await store.close()
    assert all(isinstance(one, StoredLedger) for one in listed)
    return {one.id: one.metadata for one in listed if isinstance(one, StoredLedger)}


def on_zone_d(found: Mapping[LedgerId, LedgerMetadata]) -> list[LedgerId]:
    return [name for name, one in found.items() if NEW & {*map(str, one.bookies)}]


def moved_bytes(
    before: Mapping[LedgerId, LedgerMetadata], after: Mapping[LedgerId, LedgerMetadata]
) -> int:
    """Give the payload that bookies hold now and did not hold before."""
    return sum(
        order_steps.held_bytes(ledger, bookie)
        for name, ledger in after.items()
        for bookie in {*ledger.bookies} - {*before[name].bookies}
    )


def zones_of(store: KazooClient, clusters: Clusters, folder: str) -> list[str]:
    return sorted(store.get_children(f"/{clusters.space}/ledgers.zonekeeper/{folder}"))


def named(store: KazooClient, clusters: Clusters) -> list[str]:
    """Give the zones that the policy names."""
    value, _ = store.get(f"/{clusters.space}/ledgers.zonekeeper/policy")
    found: list[str] = json.loads(value)["placement"]["zones"]
    return found


def test_a_zone_is_added_filled_and_removed_and_moves_what_the_preflight_said(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    ask(clusters, THREE)
    clusters.wait_for_ready("log")
    before = uids(clusters)
    with clusters.lab.one_more("d") as node:
        clusters.lab.kubectl("label", "node", node, f"{LABEL}-")
        ask(clusters, FOUR)
        said = clusters.wait("log", "PolicyPublished", "False", "ZoneNotNamed")
        assert "no bookie of it is registered" in said["message"]
        assert named(store, clusters) == ["a", "b", "c"]
        clusters.lab.kubectl("label", "node", node, f"{LABEL}=d")
        clusters.wait("log", "PolicyPublished", "True")
        clusters.wait_for_ready("log")
        assert named(store, clusters) == ["a", "b", "c", "d"]
        clusters.wait("log", "RepairReady", "True")

        writing = Writing(clusters)

        def is_filled() -> bool:
            found = asyncio.run(ledgers_of(clusters.uri))
            return len(on_zone_d(found)) >= LEDGERS_MIN

        asyncio.run(until(writing, is_filled))
        held = asyncio.run(ledgers_of(clusters.uri))
        smaller = asked(clusters, THREE)
        words = ("operator", "plan", "-f", "-", "--output", "json")
        plan = json.loads(clusters.zonekeeper(*words, stdin=yaml.safe_dump(smaller)))
        assert [one["bookie"] for one in plan["removals"]] == ["log-d-1", "log-d-0"]

        ask(clusters, THREE)
        clusters.until(
            "log", lambda: "d" not in zones_of(store, clusters, "zones"), what="zone d has left"
        )
        clusters.wait("log", "Scaled", "True")
        clusters.wait_for_ready("log")
    after = asyncio.run(ledgers_of(clusters.uri))
    moved, promised = moved_bytes(held, after), plan["movedBytes"]
    _logger.info("zone d left: %d bytes moved, the preflight said %d", moved, promised)
    assert on_zone_d(after) == []
    assert abs(moved - promised) <= promised / 10
    cookies = {*store.get_children(f"/{clusters.space}/ledgers/cookies")}
    assert cookies == {*before}
    assert uids(clusters) == before, "no bookie that stays was restarted"
    left = clusters.left("statefulsets", "deployments", "persistentvolumeclaims")
    assert not [one for one in left if "log-d" in one]
    asyncio.run(writing.read_all())
    clusters.delete("log")
