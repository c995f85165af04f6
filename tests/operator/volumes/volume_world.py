"""A world whose volumes have sizes and a driver that lets them grow, and whose pods are adopted."""

from pathlib import Path
from typing import Final

from tests.operator.resources import NAME, SPACE, is_of_a_set
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import (
    CLAIMS,
    CLUSTER_LABEL,
    CONTROLLER_REVISIONS,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Json,
)

CLASS: Final = "fast"


class VolumeWorld(World):
    """Claims have the class ``fast``, and a volume as soon as they are there."""

    def __init__(self, folder: Path | None = None, **spec: object) -> None:
        super().__init__(folder, **spec)
        #: Does the driver raise what a claim has to what it asks for?
        self.expands = True
        #: Does a file system grow only when its pod starts anew?
        self.needs_restart = False
        #: In which pod each file system was mounted last, by claim.
        self._mounted: dict[str, str] = {}
        self.allow(growth=True)

    def allow(self, *, growth: bool) -> None:
        """Let the storage class allow growth, or not."""
        meta = {"name": CLASS, "namespace": ""}
        self.kubernetes.put(STORAGE_CLASSES, {"metadata": meta, "allowVolumeExpansion": growth})

    async def controllers(self) -> None:
        await self.adopt()
        for pod in await self.kubernetes.list(PODS, SPACE):
            self._stamp(pod)
        await super().controllers()
        for pod in await self.kubernetes.list(PODS, SPACE):
            self._stamp(pod)
        for claim in await self.kubernetes.list(CLAIMS, SPACE):
            await self._serve(claim)

    async def adopt(self) -> None:
        """Let StatefulSets take up pods that no object controls."""
        sets = await self.kubernetes.list(STATEFUL_SETS, SPACE)
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in sets}
        for pod in await self.kubernetes.list(PODS, SPACE, labels=f"{CLUSTER_LABEL}={NAME}"):
            uid = uids.get(pod["metadata"]["name"].rpartition("-")[0])
            if uid is not None and not pod["metadata"]["ownerReferences"]:
                owner = {"kind": "StatefulSet", "controller": True, "uid": uid}
                pod["metadata"]["ownerReferences"] = [owner]
                self.kubernetes.put(PODS, pod)

    def _stamp(self, pod: Json) -> None:
        """Say when a bookie's pod was made."""
        if is_of_a_set(pod) and "creationTimestamp" not in pod["metadata"]:
            pod["metadata"]["creationTimestamp"] = f"{self.wall():%Y-%m-%dT%H:%M:%SZ}"
            self.kubernetes.put(PODS, pod)

    async def _serve(self, claim: Json) -> None:
        """Do for a claim what the binder, the driver and the kubelet do."""
        before = str(claim)
        name = claim["metadata"]["name"]
        if "spec" not in claim:
            claim["spec"] = await self._asked(name)
            claim["status"] = {"phase": "Bound", "capacity": claim["spec"]["resources"]["requests"]}
        pod = await self.kubernetes.get(PODS, SPACE, name.partition("-")[2])
        mounted = "" if pod is None else str(pod["metadata"]["uid"])
        asked = claim["spec"]["resources"]["requests"]
        if self.expands and claim["status"]["capacity"] != asked:
            pending = claim["status"].get("conditions")
            if self.needs_restart and not pending:
                when = f"{self.wall():%Y-%m-%dT%H:%M:%SZ}"
                said = {"type": "FileSystemResizePending", "status": "True"}
                claim["status"]["conditions"] = [said | {"lastTransitionTime": when}]
            elif not self.needs_restart or mounted != self._mounted.get(name, mounted):
                claim["status"] = {"phase": "Bound", "capacity": asked}
        self._mounted[name] = mounted
        if str(claim) != before:
            self.kubernetes.put(CLAIMS, claim)

    async def _asked(self, name: str) -> Json:
        """Give what a new claim's StatefulSet asks for."""
        volume, _, bookie = name.partition("-")
        item = await self.kubernetes.get(STATEFUL_SETS, SPACE, bookie.rpartition("-")[0])
        assert item is not None
        templates = item["spec"]["volumeClaimTemplates"]
        spec: Json = next(one["spec"] for one in templates if one["metadata"]["name"] == volume)
        return {"storageClassName": CLASS, **spec}


async def sizes(world: World) -> dict[str, str]:
    """Give what each claim asks for."""
    found = await world.kubernetes.list(CLAIMS, SPACE)
    return {
        item["metadata"]["name"]: item["spec"]["resources"]["requests"]["storage"] for item in found
    }


async def templates(world: World) -> set[str]:
    """Give the sizes of the volumes that StatefulSets make."""
    return {
        one["spec"]["resources"]["requests"]["storage"]
        for item in await world.kubernetes.list(STATEFUL_SETS, SPACE)
        for one in item["spec"]["volumeClaimTemplates"]
    }


async def kept_sets(world: World) -> list[str]:
    """Name what is kept of StatefulSets that are made again."""
    found = await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE)
    return [item["metadata"]["name"] for item in found if "statefulSet" in item["data"]]
