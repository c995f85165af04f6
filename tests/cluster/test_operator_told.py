"""What people are told: why a bookie is not ready, and what a change would do."""

import json
from collections.abc import Callable

import pytest

from tests.cluster.installation import ZONES, Clusters, resource
from tests.cluster.kubelet.api import Json

pytestmark = pytest.mark.cluster

NOWHERE = {"topology.kubernetes.io/zone": "nowhere"}


def plan(clusters: Clusters, name: str, **spec: object) -> Json:
    """Run ``zonekeeper operator plan`` for a change, and give its answer."""
    wanted = json.dumps(resource(name, clusters.space, clusters.uri, **spec))
    words = ("operator", "plan", "-f", "-", "--output", "json")
    answer: Json = json.loads(clusters.zonekeeper(*words, stdin=wanted))
    return answer


def test_a_pod_that_fits_nowhere_is_told_in_the_schedulers_words_and_a_change_is_foreseen(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    lost: list[Json] = [{"name": zone} for zone in ZONES]
    lost[2]["nodeSelector"] = NOWHERE
    clusters.apply("log", bookiesPerZone=1, zones=lost)

    found = clusters.wait("log", "Ready", "False", "Unschedulable")

    assert "log-c-0" in found["message"]
    assert "node affinity/selector" in found["message"]
    told = {one["pod"]: one for one in clusters.get("log")["status"]["unwell"]}
    assert told["log-c-0"]["reason"] == "Unschedulable"
    assert told["log-c-0"]["since"]

    def counts() -> list[int]:
        return [one["count"] for one in clusters.events("log") if one["reason"] == "Unschedulable"]

    clusters.until("log", lambda: counts() != [], what="an event")
    assert len(counts()) == 1, "one cause is one event"

    foreseen = plan(clusters, "log", bookiesPerZone=1)
    changed = {one["name"] for one in foreseen["changes"] if one["kind"] == "StatefulSet"}
    assert changed == {"log-c"}
    assert [step["bookies"] for step in foreseen["steps"]] == [["log-c-0"]]
    assert foreseen["notSeen"] == []

    clusters.apply("log", bookiesPerZone=1)
    clusters.until("log", lambda: selector(clusters) != NOWHERE, what="log-c has its node labels")
    clusters.lab.kubectl("delete", "pod", "log-c-0", "-n", clusters.space, "--ignore-not-found")
    clusters.wait_for_ready("log")
    units = clusters.get("log")["status"]["units"]
    assert {(one["zone"], one["domain"], one["ready"]) for one in units} == {
        (zone, "ud-0", 1) for zone in ZONES
    }


def selector(clusters: Clusters) -> Json:
    """Give the node labels that pods of zone c ask for."""
    found = clusters.lab.get("statefulset", "log-c", namespace=clusters.space)
    labels: Json = found["spec"]["template"]["spec"]["nodeSelector"]
    return labels
