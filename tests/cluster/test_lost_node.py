"""A node is lost for good with its local disk: its bookie is healed elsewhere, in both ways."""

import asyncio
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.cluster.installation import Clusters
from tests.cluster.test_replace import changed, claims
from tests.cluster.test_roll import SOON, bookies, uids
from tests.cluster.test_volumes import members, write

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab, pytest.mark.long]


def on(clusters: Clusters, node: str) -> str:
    """Name the one bookie that stands on a node."""
    (found,) = (
        name for name, pod in bookies(clusters).items() if pod["spec"].get("nodeName") == node
    )
    return found


@pytest.mark.parametrize("way", ["Recover", "Refill"])
def test_the_bookie_of_a_node_that_is_lost_for_good_is_healed_on_another_one(
    new_clusters: Callable[[], Clusters], store: KazooClient, way: str
) -> None:
    clusters = new_clusters()
    lab = clusters.lab
    with lab.one_more("a") as node:
        clusters.apply("log", policy=SOON, heal={"lostVolume": way, "after": "1m"})
        clusters.wait_for_ready("log")
        clusters.wait("log", "RepairReady", "True")
        victim, written = on(clusters, node), asyncio.run(write(clusters))
        assert victim in asyncio.run(members(clusters, written))
        pods, volumes = uids(clusters), claims(clusters)
        cookie = f"/{clusters.space}/ledgers/cookies/{victim}"
        made = store.exists(cookie).czxid

        lab.lose_node(node)
        # What Kubernetes' collector does a minute after a node has gone.
        gone = ("delete", "pod", victim, "-n", clusters.space, "--grace-period=0", "--force")
        lab.kubectl(*gone)
        clusters.until(
            "log", lambda: clusters.get("log")["status"].get("lostNodes"), what="a count of time"
        )
        assert claims(clusters) == volumes, "nothing is deleted before its time"

        volume = f"data-{victim}"
        clusters.until(
            "log",
            lambda: claims(clusters).get(volume, volumes[volume]) != volumes[volume],
            what="another claim",
        )
        clusters.wait("log", "VolumesReady", "True")
        clusters.wait_for_ready("log")

        assert (store.exists(cookie).czxid == made) is (way == "Refill")
        named = asyncio.run(members(clusters, written))  # having read every entry
        # Repair may have made its copies elsewhere before its time: the policy's delay is shorter.
        assert way == "Refill" or victim not in named
        assert changed(volumes, claims(clusters)) == [volume]
        assert changed(pods, uids(clusters)) == [victim]
        assert clusters.get("log")["status"].get("lostNodes", []) == []
        clusters.delete("log")
