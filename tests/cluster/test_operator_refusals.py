"""What cannot be built is refused in words, and leaves nothing half-done."""

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.cluster.installation import Clusters, resource
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy import legality
from zonekeeper.placement.policy.rules import PlacementRules

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
    for finding in verdict.refusals:
        assert finding.reason in legal["message"]

    def all_are_told() -> bool:
        told = " ".join(event["message"] for event in clusters.events("bad"))
        return all(finding.reason in told for finding in verdict.refusals)

    clusters.until("bad", all_are_told, what="every refusal in an event")  # it follows the status
    assert clusters.left(*EVERYTHING) == []
    assert store.exists(f"/{clusters.space}") is None

    clusters.apply("bad", bookiesPerZone=1)
    clusters.wait_for_ready("bad")


def test_without_a_metadata_store_nothing_is_made_and_the_condition_says_so(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("lonely", uri="zk://10.244.0.1:1/ledgers")

    found = clusters.wait("lonely", "MetadataReady", "False", "MetadataUnreachable")

    assert "10.244.0.1:1" in found["message"]
    assert clusters.condition("lonely", "PolicyPublished")["status"] == "Unknown"
    assert clusters.condition("lonely", "Ready")["status"] == "False"
    assert clusters.left(*EVERYTHING) == []


def test_a_finalizer_that_somebody_else_put_on_is_taken_off_all_the_same(
    new_clusters: Callable[[], Clusters],
) -> None:
    """As a backup does it that is played back: then it is not only the operator's to drop."""
    clusters = new_clusters()
    item = resource("played-back", clusters.space, "zk://10.244.0.1:1/ledgers")
    item["metadata"]["finalizers"] = ["zonekeeper.io/operator"]
    clusters.lab.apply([item])

    clusters.until(
        "played-back",
        lambda: not clusters.get("played-back")["metadata"].get("finalizers"),
        what="the finalizer gone",
    )


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
        ({"image": "zonekeeper"}, "spec.image"),
        ({"onDelete": "Perhaps"}, "spec.onDelete"),
        ({"bookiesPerZone": 0}, "spec.bookiesPerZone"),
        ({"zones": [{"name": "A_B"}]}, "spec.zones[0].name"),
        ({"resources": {"limits": {"memory": "lots"}}}, "spec.resources.limits[memory]"),
        ({"policy": {"reads": {"hedgeAfter": "soon"}}}, "spec.policy.reads.hedgeAfter"),
        ({"policy": {"reads": {"hedge": "2s"}}}, 'unknown field "hedge"'),
    ],
)
def test_the_schema_refuses_wrong_values(
    new_clusters: Callable[[], Clusters], change: dict[str, Any], words: str
) -> None:
    clusters = new_clusters()

    with pytest.raises(OSError, match="kubectl") as refused:
        clusters.apply("log", **change)

    assert words in str(refused.value)
    assert clusters.get("log") == {}


def classes(clusters: Clusters) -> set[str]:
    """Give the storage classes of the volumes that StatefulSets make; "": the default one."""
    return {
        item["spec"]["volumeClaimTemplates"][0]["spec"].get("storageClassName", "")
        for item in clusters.lab.list("statefulsets", namespace=clusters.space)
    }


def test_what_a_built_cluster_cannot_change_is_refused_and_before_that_is_not(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", uri="zk://10.244.0.1:1/ledgers", bookiesPerZone=30)
    clusters.wait("log", "MetadataReady", "False", "MetadataUnreachable")
    clusters.apply("log", bookiesPerZone=1, storage={"size": "2Gi"})
    clusters.wait_for_ready("log")
    built: dict[str, Any] = {"bookiesPerZone": 1, "storage": {"size": "2Gi"}}

    for change, words in (
        ({"uri": "zk://elsewhere/ledgers"}, r"spec\.metadata\.uri: .*cannot change"),
        ({"storage": {"size": "1Gi"}}, r"spec\.storage\.size: .*no volume shrinks"),
        (
            {"storage": {"size": "2Gi", "className": "fast"}},
            r"spec\.storage\.className: .*cannot change",
        ),
        (
            {"storage": {"size": "2Gi", "journal": {"size": "1Gi"}}},
            r"spec\.storage\.journal: .*cannot change",
        ),
        ({"policy": {"placement": {"upgradeDomains": 2}}}, "upgradeDomains: .*cannot change"),
    ):
        with pytest.raises(OSError, match=words) as refused:
            clusters.apply("log", **{**built, **change})
        assert "<nil>" not in str(refused.value)
    clusters.wait("log", "UpToDate", "True")
    with pytest.raises(
        OSError, match=r"spec\.image: .*zonekeeper:0\.0\.9: must not be of an older"
    ):
        clusters.apply("log", **{**built, "image": "zonekeeper:0.0.9"})

    smaller = {"size": "1Gi", "className": "fast"}
    clusters.apply("log", **{**built, "storage": {"size": "2Gi", "newVolumes": smaller}})
    clusters.until("log", lambda: classes(clusters) == {"fast"}, what="sets of the new volumes")
    clusters.wait("log", "VolumesReady", "True")
    clusters.apply("log", **{**built, "storage": smaller})  # only the operator knows the volumes
    told = clusters.wait("log", "Legal", "False", "Blocked")["message"]
    assert told.count("data-log-a-0") == 2, "its size and its class stand"


def test_bookies_that_hold_nothing_are_taken_back_also_those_that_a_hand_added(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", bookiesPerZone=1)
    clusters.wait_for_ready("log")

    def replicas() -> list[int]:
        found = clusters.lab.list("statefulsets", namespace=clusters.space)
        return [item["spec"]["replicas"] for item in found]

    clusters.lab.kubectl("scale", "statefulset", "log-b", "--replicas=2", "-n", clusters.space)
    clusters.until("log", lambda: replicas() == [1, 1, 1], what="log-b put back")
    clusters.apply("log", bookiesPerZone=2)
    clusters.until("log", lambda: clusters.get("log")["status"]["bookies"] == 6, what="6 bookies")
    clusters.apply("log", bookiesPerZone=1)
    clusters.until("log", lambda: replicas() == [1, 1, 1], what="the new bookies taken back")
    clusters.wait_for_ready("log")
    assert clusters.condition("log", "Legal")["status"] == "True"


def test_a_stateful_set_that_is_deleted_while_an_edit_is_refused_comes_back(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", bookiesPerZone=1)
    clusters.wait_for_ready("log")
    before = clusters.lab.get("statefulset", "log-b", namespace=clusters.space)
    # The API server has no rule against it: placement judges it.
    illegal = {"quorums": {"ensemble": 3, "write": 2}}
    clusters.apply("log", bookiesPerZone=1, image="other:9.9.9", policy=illegal)
    refused = clusters.wait("log", "Legal", "False", "Refused")
    assert "kept as the last legal spec asked for it" in refused["message"]

    clusters.lab.kubectl("delete", "statefulset", "log-b", "-n", clusters.space)

    def is_back() -> bool:
        found = clusters.lab.get("statefulset", "log-b", namespace=clusters.space)
        return found.get("metadata", {}).get("uid") not in (None, before["metadata"]["uid"])

    clusters.until("log", is_back, what="log-b is made again")
    clusters.wait_for_ready("log")
    made = clusters.lab.get("statefulset", "log-b", namespace=clusters.space)
    images = [item["spec"]["template"]["spec"]["containers"][0]["image"] for item in (before, made)]
    assert images[0] == images[1]
    kept = clusters.lab.list("controllerrevisions", namespace=clusters.space)
    ours = [one for one in kept if one["metadata"]["name"].startswith("log-spec-")]
    assert [one["data"]["spec"]["bookiesPerZone"] for one in ours] == [1]
