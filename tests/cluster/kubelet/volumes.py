"""Volumes of a pod as folders of the host, and the provisioner of claims.

A claim's folder lives as long as its PersistentVolume, through restarts of pods and nodes. What a
config map, secret, token or field shows is written when the pod starts, and not again.
"""

import shutil
from pathlib import Path

from tests.cluster.kubelet import containers
from tests.cluster.kubelet.api import Api, Json

PROVISIONER = "lab.zonekeeper.io/folders"
TOKEN_SECONDS = 24 * 3600
ZONE_LABEL = "topology.kubernetes.io/zone"


async def provision(api: Api, claims: dict[str, Json], node: str, folder: Path) -> None:
    """Make a volume for each claim that the scheduler put on this node, and bind them."""
    for claim in claims.values():
        name = claim["metadata"]["name"]
        chosen = claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")
        if chosen != node or claim["spec"].get("volumeName"):
            continue
        volume = f"pvc-{claim['metadata']['uid']}"
        path = folder / volume
        path.mkdir(parents=True, exist_ok=True)
        await api.create(
            "/api/v1/persistentvolumes",
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {
                    "name": volume,
                    "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
                },
                "spec": {
                    "capacity": claim["spec"]["resources"]["requests"],
                    "accessModes": claim["spec"]["accessModes"],
                    "persistentVolumeReclaimPolicy": "Delete",
                    "storageClassName": claim["spec"]["storageClassName"],
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": claim["metadata"]["namespace"],
                        "name": name,
                        "uid": claim["metadata"]["uid"],
                    },
                    "local": {"path": str(path)},
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": "kubernetes.io/hostname",
                                            "operator": "In",
                                            "values": [node],
                                        }
                                    ]
                                }
                            ]
                        }
                    },
                },
            },
        )


async def reclaim(api: Api, volumes: dict[str, Json], folder: Path) -> None:
    """Remove the folder of each volume of ours whose claim was deleted, then the volume."""
    for volume in volumes.values():
        path = Path(volume["spec"].get("local", {}).get("path", "/nowhere"))
        if volume.get("status", {}).get("phase") == "Released" and path.parent == folder:
            shutil.rmtree(path, ignore_errors=True)
            await api.delete(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


class Volumes:
    """The volumes of one pod: made in ``folder``, given as sources of bind mounts."""

    def __init__(self, api: Api, pod: Json, folder: Path, sources: containers.Sources) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._sources = sources
        self._namespace: str = pod["metadata"]["namespace"]

    async def mounts(self, container: Json) -> list[tuple[str, str, bool]]:
        """Give (source, path, read-only) for each volume mount of a container."""
        made: dict[str, Path] = {}
        mounts = []
        for mount in container.get("volumeMounts", ()):
            name = mount["name"]
            if name not in made:
                volume = next(v for v in self._pod["spec"]["volumes"] if v["name"] == name)
                made[name] = await self._make(volume)
            source = made[name] / mount.get("subPath", "")
            source.mkdir(parents=True, exist_ok=True)
            mounts.append((str(source), mount["mountPath"], bool(mount.get("readOnly"))))
        return mounts

    async def _make(self, volume: Json) -> Path:
        if "persistentVolumeClaim" in volume:
            return await self._claimed(volume["persistentVolumeClaim"]["claimName"])
        if "hostPath" in volume:
            return Path(str(volume["hostPath"]["path"]))
        path = self._folder / "volumes" / str(volume["name"])
        path.mkdir(parents=True, exist_ok=True)
        projected = volume.get("projected", {}).get("sources")
        for source in projected if projected is not None else [volume]:
            for name, text in (await self._files(source)).items():
                target = path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
        return path

    async def _claimed(self, name: str) -> Path:
        path = f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{name}"
        claim = await self._api.get(path)
        if claim is None or claim.get("status", {}).get("phase") != "Bound":
            raise containers.NotReadyError(f"claim {name} is not bound yet")
        volume = await self._api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
        if volume is None or "local" not in volume["spec"]:
            raise containers.NotReadyError(f"claim {name} has no volume of the lab's")
        return Path(str(volume["spec"]["local"]["path"]))

    async def _files(self, source: Json) -> dict[str, str]:
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: await self._token()}
        if "downwardAPI" in source:
            return {
                item["path"]: containers.field(self._pod, item["fieldRef"]["fieldPath"])
                for item in source["downwardAPI"]["items"]
            }
        for kind, objects in (
            ("configMap", self._sources.config_maps),
            ("secret", self._sources.secrets),
        ):
            if kind in source:
                reference = source[kind]
                name = reference.get("secretName") or reference["name"]
                if name not in objects:
                    if reference.get("optional"):
                        return {}
                    raise containers.NotReadyError(f"no {kind} named {name} yet")
                items = reference.get("items")
                data: dict[str, str] = dict(objects[name])
                return {i["path"]: data[i["key"]] for i in items} if items else data
        return {}

    async def _token(self) -> str:
        account = self._pod["spec"].get("serviceAccountName", "default")
        answer = await self._api.call(
            "POST",
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "expirationSeconds": TOKEN_SECONDS,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": self._pod["metadata"]["name"],
                        "uid": self._pod["metadata"]["uid"],
                    },
                },
            },
        )
        return str(answer["status"]["token"])
