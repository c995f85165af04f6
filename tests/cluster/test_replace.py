"""A bookie that serves gets a smaller volume on a real control plane, at a person's word."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from kazoo.client import KazooClient

from tests.cluster.installation import Clusters
from tests.cluster.test_roll import SOON, uids
from tests.cluster.test_volumes import asked, members, write

pytestmark = [pytest.mark.cluster, pytest.mark.long]

VICTIM: Final = "log-b-1"
WORD: Final = "zonekeeper.io/replace"


def claims(clusters: Clusters) -> Mapping[str, str]:
    """Give the uid of each claim."""
    found = clusters.lab.list("pvc", namespace=clusters.space)
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def phase(clusters: Clusters) -> str:
    """Say how far the replacement is."""
    found: str = clusters.get("log").get("status", {}).get("replacing", {}).get("phase", "")
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [name for name in before if after.get(name) != before[name]]


def test_a_bookie_that_serves_is_emptied_and_gets_another_volume(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    journal = {"size": "512Mi"}
    clusters.apply("log", policy=SOON, storage={"size": "1Gi", "journal": journal})
    clusters.wait_for_ready("log")
    clusters.wait("log", "RepairReady", "True")
    written = asyncio.run(write(clusters))
    assert VICTIM in asyncio.run(members(clusters, written))
    pods, volumes = uids(clusters), claims(clusters)
    cookie = f"/{clusters.space}/ledgers/cookies/{VICTIM}"
    made = store.exists(cookie).czxid

    smaller = {"size": "1Gi", "newVolumes": {"size": "768Mi"}, "journal": journal}
    clusters.apply("log", policy=SOON, storage=smaller)
    clusters.lab.kubectl("annotate", "bkc", "log", "-n", clusters.space, f"{WORD}={VICTIM}")
    clusters.until("log", lambda: phase(clusters) == "Done", what="another volume")
    clusters.wait("log", "VolumesReady", "True")
    clusters.wait_for_ready("log")

    assert changed(volumes, claims(clusters)) == [f"data-{VICTIM}", f"journal-{VICTIM}"]
    assert changed(pods, uids(clusters)) == [VICTIM]
    assert [name for name, size in asked(clusters).items() if size == "768Mi"] == [f"data-{VICTIM}"]
    assert store.exists(cookie).czxid == made, "the cookie was never deleted"
    assert VICTIM not in asyncio.run(members(clusters, written)), "every entry is read elsewhere"
    later = asyncio.run(write(clusters))
    assert VICTIM in asyncio.run(members(clusters, later)), "it takes writes again"
    clusters.delete("log")
