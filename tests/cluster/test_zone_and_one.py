"""The sample with six copies: a zone and one more bookie are lost under writes, and nothing is."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest
import yaml

from tests.cluster.installation import Clusters
from tests.cluster.processes import until
from tests.support.checkout_root import ROOT
from tests.zones import load
from zonekeeper.placement.base.ids import BookieId

pytestmark = pytest.mark.cluster

SAMPLE: Final = ROOT / "manifests" / "samples" / "bookiecluster-zone-and-one.yaml"
#: Entries that must be acknowledged while the zone and the bookie are away.
MORE: Final = 200


def test_with_six_copies_a_zone_and_one_more_bookie_may_be_away(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    spec = yaml.safe_load(SAMPLE.read_text())["spec"]
    del spec["metadata"]
    # The lab's nodes have no room of gigabytes to give away.
    clusters.apply("log", **{**spec, "storage": {"size": "1Gi"}})
    clusters.wait_for_counts("log", dict.fromkeys("abc", 4))
    try:
        asyncio.run(lose_a_zone_and_one_more(clusters))
    finally:
        clusters.lab.start_node("b-0")
        clusters.lab.kubectl("uncordon", "a-0", "a-1", "b-0", "c-0")
        clusters.lab.wait_for_nodes(["b-0"])
    clusters.wait_for_counts("log", dict.fromkeys("abc", 4))
    clusters.delete("log")


async def lose_a_zone_and_one_more(clusters: Clusters) -> None:
    async with clusters.client() as client, clusters.client() as other:
        abandoned = await other.create()
        await load.append(abandoned, 60)
        await abandoned.flush()
        left = abandoned.last_confirmed
        abandoned.halt()
        victim = next(one for one in abandoned.ensemble if not one.startswith("log-b-"))
        async with load.under_load(client) as written:
            await written_more(written, MORE)
            clusters.lab.stop_zone("b")
            await asyncio.to_thread(stop_pod, clusters, victim)
            await written_more(written, MORE)
            await load.check(other, abandoned.ledger_id, left, recover=True)
        assert written.failures == []
        for ledger_id, acked in written.acked.items():
            await load.check(other, ledger_id, acked, recover=True)


def stop_pod(clusters: Clusters, name: BookieId) -> None:
    """End a bookie at once; the pod that Kubernetes makes anew finds no node."""
    clusters.lab.kubectl("cordon", *clusters.lab.nodes_of(name.split("-")[1]))
    words = ("--grace-period=0", "--force", "--wait=false")
    clusters.lab.kubectl("delete", "pod", name, "-n", clusters.space, *words)


async def written_more(written: load.Load, count: int) -> None:
    """Wait until so many entries more were acknowledged."""
    aim = written.entries + count
    await asyncio.to_thread(until, lambda: written.entries >= aim, what=f"{count} more entries")
