"""Volumes of a pod as folders of the host, and the provisioner of claims.

A claim's folder lives as long as its PersistentVolume, through restarts of pods and nodes. The
files of a config map or a secret are replaced when it changes (``atomic_files``), in projected
volumes, too. A token, and what a field of the pod shows, are those of the pod's start.
"""

import shutil
from pathlib import Path

from tests.cluster.kubelet import atomic_files, containers
from tests.cluster.kubelet.api import Api, Json

PROVISIONER = "lab.zonekeeper.io/folders"
TOKEN_SECONDS = 24 * 3600
ZONE_LABEL = "topology.kubernetes.io/zone"
#: What a volume with files from Kubernetes says it has.
_GIVEN = frozenset({"secret", "configMap", "projected", "downwardAPI"})


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

    def __init__(self, api: Api, pod: Json, folder: Path) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._namespace: str = pod["metadata"]["namespace"]
        self._token_text: str | None = None
        #: The volumes with files that Kubernetes gives, by name, once they are made.
        self._given: dict[str, Json] = {}

    async def mounts(
        self, container: Json, sources: containers.Sources
    ) -> list[tuple[str, str, bool]]:
        """Give (source, path, read-only) for each volume mount of a container."""
        made: dict[str, Path] = {}
        mounts = []
        for mount in container.get("volumeMounts", ()):
            name = mount["name"]
            if name not in made:
                volume = next(v for v in self._pod["spec"]["volumes"] if v["name"] == name)
                made[name] = await self._make(volume, sources)
            source = made[name] / mount.get("subPath", "")
            if not source.is_file():
                source.mkdir(parents=True, exist_ok=True)
            mounts.append((str(source), mount["mountPath"], bool(mount.get("readOnly"))))
        return mounts

    async def refresh(self, sources: containers.Sources) -> None:
        """Bring what has changed to the volumes that are made; what is gone stays as it was."""
        for volume in list(self._given.values()):
            try:
                await self._put(volume, sources)
            except containers.NotReadyError:
                continue

    async def _make(self, volume: Json, sources: containers.Sources) -> Path:
        if "persistentVolumeClaim" in volume:
            return await self._claimed(volume["persistentVolumeClaim"]["claimName"])
        if "hostPath" in volume:
            return Path(str(volume["hostPath"]["path"]))
        if _GIVEN & volume.keys():
            await self._put(volume, sources)
            self._given[str(volume["name"])] = volume
        return self._path(volume)

    def _path(self, volume: Json) -> Path:
        path = self._folder / "volumes" / str(volume["name"])
        path.mkdir(parents=True, exist_ok=True)
        return path

    async def _put(self, volume: Json, sources: containers.Sources) -> None:
        files: dict[str, bytes] = {}
        projected = volume.get("projected", {}).get("sources")
        for source in projected if projected is not None else [volume]:
            given = await self._files(source, sources)
            files |= {name: text.encode() for name, text in given.items()}
        atomic_files.put(self._path(volume), files)

    async def _claimed(self, name: str) -> Path:
        path = f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{name}"
        claim = await self._api.get(path)
        if claim is None or claim.get("status", {}).get("phase") != "Bound":
            raise containers.NotReadyError(f"claim {name} is not bound yet")
        volume = await self._api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
        if volume is None or "local" not in volume["spec"]:
            raise containers.NotReadyError(f"claim {name} has no volume of the lab's")
        return Path(str(volume["spec"]["local"]["path"]))

    async def _files(self, source: Json, sources: containers.Sources) -> dict[str, str]:
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: await self._token()}
        if "downwardAPI" in source:
            return {
                item["path"]: containers.field(self._pod, item["fieldRef"]["fieldPath"])
                for item in source["downwardAPI"]["items"]
            }
        for kind, objects in (
            ("configMap", sources.config_maps),
            ("secret", sources.secrets),
        ):
            if kind in source:
                reference = source[kind]
                name = reference.get("secretName") or reference["name"]
                if name not in objects:
                    if reference.get("optional"):
                        return {}
                    raise containers.NotReadyError(f"no {kind} named {name} yet")
                return _chosen(reference, name, objects[name])
        return {}

    async def _token(self) -> str:
        if self._token_text is None:
            self._token_text = await self._new_token()
        return self._token_text

    async def _new_token(self) -> str:
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


def _chosen(reference: Json, name: str, data: Json) -> dict[str, str]:
    """Give the files of an object by the paths that a volume asks for; without any, all of it."""
    if not (items := reference.get("items")):
        return dict(data)
    for item in items:
        if item["key"] not in data and not reference.get("optional"):
            raise containers.NotReadyError(f"{name} has no key {item['key']}")
    return {item["path"]: data[item["key"]] for item in items if item["key"] in data}
