"""Drains on a real control plane, by its own Eviction API: one zone together, no second one."""

import json
from collections.abc import Callable
from typing import Final

import pytest

from tests.cluster.installation import SYSTEM, Clusters
from tests.cluster.test_roll import SOON

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab, pytest.mark.long]

OF_A: Final = [f"log-a-{number}" for number in range(3)]
A_IS_OPEN: Final = {"log-b-closed", "log-c-closed"}


class Drained:
    """One cluster whose nodes are cordoned and drained."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        self.lab = clusters.lab

    def budgets(self) -> set[str]:
        found = self.lab.list("poddisruptionbudgets", namespace=self.clusters.space)
        return {item["metadata"]["name"] for item in found}

    def are_counted(self) -> bool:
        """Has Kubernetes counted the pods of each budget? Until then it refuses."""
        found = self.lab.list("poddisruptionbudgets", namespace=self.clusters.space)
        return all(
            one.get("status", {}).get("observedGeneration") == one["metadata"]["generation"]
            for one in found
        )

    def evict(self, pod: str) -> str:
        """Ask the API server for one eviction; give its words."""
        space = self.clusters.space
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": space},
        }
        path = f"/api/v1/namespaces/{space}/pods/{pod}/eviction"
        return self.lab.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))

    def refused(self, pod: str) -> str:
        """Ask for an eviction that is refused; give why."""
        with pytest.raises(OSError, match="kubectl create") as caught:
            self.evict(pod)
        return str(caught.value)

    def cordon(self, *nodes: str) -> None:
        self.lab.kubectl("cordon", *nodes)

    def uncordon(self, *nodes: str) -> None:
        self.lab.kubectl("uncordon", *nodes)

    def uids(self) -> dict[str, str]:
        chosen = "zonekeeper.io/cluster=log"
        found = self.lab.list("pods", namespace=self.clusters.space, selector=chosen)
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}

    def scale_operator(self, count: int) -> None:
        scale = ("scale", "deployment", "-l", "app.kubernetes.io/name=zonekeeper-operator")
        self.lab.kubectl(*scale, f"--replicas={count}", "-n", SYSTEM)

    def is_operator_gone(self) -> bool:
        return not self.lab.list("pods", namespace=SYSTEM)


def test_a_zone_is_drained_together_and_a_second_one_is_refused_also_without_the_operator(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", policy=SOON)
    clusters.wait_for_ready("log")
    clusters.wait("log", "RepairReady", "True")
    drained = Drained(clusters)
    nodes = [drained.lab.nodes_of(zone) for zone in "abc"]
    assert drained.budgets() == {"log-bookies"}
    before = drained.uids()
    try:
        drained.cordon(*nodes[0])
        clusters.until("log", lambda: drained.budgets() == A_IS_OPEN, what="zone a open")
        clusters.until("log", drained.are_counted, what="the pods counted")
        drained.scale_operator(0)
        clusters.until("log", drained.is_operator_gone, what="no operator")
        drained.cordon(*nodes[1])
        for pod in OF_A:
            drained.evict(pod)
        assert "disruption budget" in drained.refused("log-b-0")
        assert "disruption budget" in drained.refused("log-c-0")
        after = drained.uids()
        assert {name for name, uid in before.items() if after.get(name) == uid} >= {
            name for name in before if name not in OF_A
        }
    finally:
        drained.uncordon(*nodes[0], *nodes[1])
        drained.scale_operator(2)
    clusters.wait_for_ready("log")
    clusters.until("log", lambda: drained.budgets() == {"log-bookies"}, what="at rest again")
    clusters.wait("log", "Drainable", "True")
    clusters.delete("log")
