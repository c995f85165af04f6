"""What cannot be built is refused in words, and leaves nothing half-done."""

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.cluster.installation import Clusters
from zonekeeper.placement import legality
from zonekeeper.placement.ids import ZoneName
from zonekeeper.placement.policy import PlacementRules
from zonekeeper.placement.quorums import Quorums

pytestmark = pytest.mark.cluster

EVERYTHING = (
    *("statefulsets", "pods", "services", "serviceaccounts", "poddisruptionbudgets"),
    "persistentvolumeclaims",
)


def test_what_placement_refuses_is_told_in_its_words_and_nothing_is_made(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    zones = tuple(map(ZoneName, "abc"))
    verdict = legality.judge(
        Quorums(ensemble=3, write=2, ack=2, ack_zones=2), PlacementRules(zones=zones)
    )
    assert not verdict.legal

    clusters.apply("bad", policy={"quorums": {"ensemble": 3, "write": 2}})

    legal = clusters.wait("bad", "Legal", "False", "Refused")
    assert clusters.condition("bad", "Ready")["status"] == "False"
    told = " ".join(event["message"] for event in clusters.events("bad"))
    for finding in verdict.refusals:
        assert finding.reason in legal["message"]
        assert finding.reason in told
    assert clusters.left(*EVERYTHING) == []
    assert store.exists(f"/{clusters.space}") is None

    clusters.apply("bad", bookiesPerZone=1)
    clusters.wait_for_ready("bad")


def test_without_a_metadata_store_nothing_is_made_and_the_condition_says_so(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("lonely", uri="zk://10.244.0.1:1/ledgers")

    found = clusters.wait("lonely", "MetadataReady", "False", "Unreachable")

    assert "10.244.0.1:1" in found["message"]
    assert clusters.condition("lonely", "PolicyPublished")["status"] == "Unknown"
    assert clusters.condition("lonely", "Ready")["status"] == "False"
    assert clusters.left(*EVERYTHING) == []


def test_a_root_that_another_resource_owns_is_not_touched(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    clusters.apply("first", bookiesPerZone=1)
    clusters.wait_for_ready("first")
    record = store.get(f"/{clusters.space}/ledgers.zonekeeper/policy")

    clusters.apply("second", bookiesPerZone=1, onDelete="Delete")

    found = clusters.wait("second", "PolicyPublished", "False", "OwnedByAnother")
    assert f"operator/{clusters.space}/first" in found["message"]
    clusters.delete("second")
    assert store.get(f"/{clusters.space}/ledgers.zonekeeper/policy") == record
    assert not any("second" in name for name in clusters.left(*EVERYTHING))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bookiesPerZone": 1}, "removing bookies would lose what they hold"),
        ({"zones": [{"name": "a"}, {"name": "b"}]}, "removing a zone would lose what it holds"),
        ({"storage": {"size": "2Gi"}}, "the size of volumes cannot be changed yet"),
        ({"uri": "zk://elsewhere/ledgers"}, "the metadata store of a cluster cannot be changed"),
        ({"image": "zonekeeper"}, "spec.image"),
        ({"onDelete": "Perhaps"}, "spec.onDelete"),
        ({"zones": [{"name": "A_B"}]}, "spec.zones[0].name"),
        ({"policy": {"reads": {"hedgeAfter": "soon"}}}, "spec.policy.reads.hedgeAfter"),
    ],
)
def test_the_schema_refuses_what_it_can(
    new_clusters: Callable[[], Clusters], change: dict[str, object], words: str
) -> None:
    clusters = new_clusters()
    clusters.apply("log", uri="zk://10.244.0.1:1/ledgers", bookiesPerZone=2)

    with pytest.raises(OSError, match="is invalid") as refused:
        clusters.apply("log", **{"uri": "zk://10.244.0.1:1/ledgers", **change})

    assert words in str(refused.value)
