"""A world whose volumes are local disks: with their nodes they go, and may come back."""

from typing import Final

from tests.operator.resources import SPACE
from tests.operator.volumes.losing_world import LosingWorld
from zonekeeper.operator.kubernetes.api import CLAIMS, NODES, PERSISTENT_VOLUMES, PODS, Json
from zonekeeper.operator.sight.lost_nodes import HOST_LABEL
from zonekeeper.placement.base.units import MINUTE_MS

LOST: Final = "log-b-1"
#: What the scheduler says of a pod whose volume is on no node.
PENDING: Final[Json] = {
    "conditions": [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
    ]
}


def on_host(host: str) -> Json:
    """Give the affinity of a local disk."""
    expression = {"key": HOST_LABEL, "operator": "In", "values": [host]}
    terms = [{"matchExpressions": [expression]}]
    return {"required": {"nodeSelectorTerms": terms}}


class AbsenceWorld(LosingWorld):
    """A bookie's node can be removed with its disk."""

    async def lose_node(self, name: str, *, affinity: Json | None = None) -> None:
        """Remove a bookie's node: its pod is made anew, and fits nowhere."""
        claim = self.kubernetes.peek(CLAIMS, SPACE, f"data-{name}")
        pod = self.kubernetes.peek(PODS, SPACE, name)
        assert claim is not None
        assert pod is not None
        volume = f"volume-{name}"
        self.kubernetes.put(
            PERSISTENT_VOLUMES,
            {
                "metadata": {"name": volume, "namespace": ""},
                "spec": {"nodeAffinity": affinity or on_host(self.host(name))},
            },
        )
        size = {"storage": "1Gi"}
        spec = {"volumeName": volume, "resources": {"requests": size}}
        bound = {"spec": spec, "status": {"phase": "Bound", "capacity": size}}
        self.kubernetes.put(CLAIMS, claim | bound)
        self.kubernetes.mark_deleted(PODS, SPACE, name)
        meta = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
        owners = {"ownerReferences": pod["metadata"]["ownerReferences"]}
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        self.kubernetes.put(PODS, {"metadata": meta | owners, "spec": spec, "status": PENDING})
        await self.controllers()

    async def controllers(self) -> None:
        await super().controllers()
        fits = [pod for pod in await self.kubernetes.list(PODS, SPACE) if self._fits_now(pod)]
        for pod in fits:
            # Another claim, which Kubernetes makes for a pod that waits, too, is bound to no node.
            self.kubernetes.mark_deleted(PODS, SPACE, pod["metadata"]["name"])
        if fits:
            await super().controllers()

    def _fits_now(self, pod: Json) -> bool:
        claim = self.kubernetes.peek(CLAIMS, SPACE, f"data-{pod['metadata']['name']}")
        is_bound = claim is not None and "volumeName" in claim.get("spec", {})
        return claim is not None and pod.get("status") == PENDING and not is_bound

    @staticmethod
    def host(name: str) -> str:
        """Name the host of a bookie."""
        return f"host-of-{name}"

    def have_node(self, name: str) -> None:
        """Let a node of that host be there again, and the pod not be on it yet."""
        host = self.host(name)
        meta = {"name": f"node-of-{host}", "namespace": "", "labels": {HOST_LABEL: host}}
        self.kubernetes.put(NODES, {"metadata": meta})

    async def come_back(self, name: str) -> None:
        """Let the node be there again, and the bookie serve on it."""
        self.have_node(name)
        pod = self.kubernetes.peek(PODS, SPACE, name)
        assert pod is not None
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.kubernetes.put(PODS, pod | {"spec": pod["spec"] | {"nodeName": "x"}, "status": ready})
        await self.controllers()

    async def pass_minutes(self, minutes: int) -> None:
        """Let turns come about once a minute."""
        for _ in range(minutes):
            self.now_ms += MINUTE_MS
            await self.turn()
            await self.controllers()

    async def claim_uid(self, name: str) -> str | None:
        """Give the uid of a bookie's claim; None: there is none."""
        found = await self.kubernetes.get(CLAIMS, SPACE, f"data-{name}")
        return None if found is None else str(found["metadata"]["uid"])

    async def noted(self) -> list[Json]:
        """Give ``status.lostNodes``."""
        found: list[Json] = (await self.get())["status"].get("lostNodes", [])
        return found
