"""The twin of a Kubernetes API server: objects in memory, enough of it to run the operator against.

It stores what is applied, gives uids, counts generations and versions, honours finalizers and
preconditions (uid, version), and removes what a deleted object owned. It runs no controllers: what
a StatefulSet's pods do, a test says with ``put``. Unlike the real one it validates nothing and
defaults nothing, and a field that an apply no longer mentions stays, except in a status, and but
for finalizers: of these one goes that only applies put on.
"""

import copy
import itertools
from collections.abc import Callable, Sequence

from zonekeeper.operator.api import (
    FINALIZER,
    ChangedError,
    GoneError,
    Json,
    Kind,
    Kubernetes,
    KubernetesError,
)

_Key = tuple[str, str, str]


class MemoryKubernetes(Kubernetes):
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[_Key, Json] = {}
        #: The finalizers that nobody but applies put on, by the object's uid.
        self._applied: dict[str, set[str]] = {}
        self._numbers = itertools.count(1)
        #: Called before each verb with its name and kind; raises what that call shall meet.
        self.disturb: Callable[[str, Kind], None] = lambda verb, kind: None

    def put(self, kind: Kind, body: Json) -> Json:
        """Let an object be there, as if somebody else had made or changed it."""
        meta = body["metadata"]
        key = _key(kind, meta.get("namespace", ""), meta["name"])
        known = self._objects.get(key, {}).get("metadata", {})
        fresh = {"uid": f"uid-{next(self._numbers)}", "generation": 1, "finalizers": []}
        version = {"resourceVersion": str(next(self._numbers))}
        self._objects[key] = copy.deepcopy(
            {**body, "metadata": {**fresh, **_kept(known), **body["metadata"], **version}}
        )
        return copy.deepcopy(self._objects[key])

    def peek(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Read one object past ``disturb``."""
        return copy.deepcopy(self._objects.get(_key(kind, namespace, name)))

    def mark_deleted(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete as a user does: what has a finalizer only gets a mark."""
        self._mark(_key(kind, namespace, name))

    def _mark(self, key: _Key) -> None:
        if self._objects[key]["metadata"]["finalizers"]:
            self._objects[key]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        else:
            self._remove(key)

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Read one object."""
        self.disturb("get", kind)
        return self.peek(kind, namespace, name)

    async def list(self, kind: Kind, namespace: str, *, labels: str = "") -> list[Json]:
        """Read objects by labels (``name=value``, joined by commas)."""
        self.disturb("list", kind)
        wanted = dict(pair.split("=") for pair in labels.split(",") if pair)
        return [
            copy.deepcopy(item)
            for (plural, space, _), item in sorted(self._objects.items())
            if plural == kind.plural
            and namespace in ("", space)
            and wanted.items() <= item["metadata"].get("labels", {}).items()
        ]

    async def create(self, kind: Kind, body: Json) -> None:
        """Create an object."""
        self.disturb("create", kind)
        meta = body["metadata"]
        if _key(kind, meta.get("namespace", ""), meta["name"]) in self._objects:
            raise KubernetesError(409, f"{kind.name} {meta['name']} exists already")
        self.put(kind, body)

    async def apply(self, kind: Kind, body: Json, *, subresource: str = "") -> None:
        """Merge an object into what is there."""
        self.disturb("apply", kind)
        meta = body["metadata"]
        key = _key(kind, meta.get("namespace", ""), meta["name"])
        known = self._objects.get(key)
        if "uid" in meta and (known is None or known["metadata"]["uid"] != meta["uid"]):
            raise GoneError(409, f"{kind.name} {meta['name']} is not the one with this uid")
        if known is None:
            self.put(kind, body)
            return
        version = known["metadata"]["resourceVersion"]
        if meta.get("resourceVersion", version) != version:
            raise ChangedError(409, f"{kind.name} {meta['name']} is another version")
        before = copy.deepcopy(known)
        if subresource:
            known[subresource] = copy.deepcopy(body[subresource])
        else:
            if "spec" in body and body["spec"] != known.get("spec"):
                known["metadata"]["generation"] += 1
            finalizers = self._finalizers(known["metadata"], meta.get("finalizers", []))
            _merge(known, copy.deepcopy(body))
            self._finalize(key, finalizers)
        if known != before:
            known["metadata"]["resourceVersion"] = str(next(self._numbers))

    async def release(self, kind: Kind, seen: Json) -> None:
        """Take our finalizer off."""
        self.disturb("release", kind)
        meta = seen["metadata"]
        key = _key(kind, meta.get("namespace", ""), meta["name"])
        known = self._objects.get(key, {}).get("metadata", {})
        if (known.get("uid"), known.get("finalizers")) != (meta["uid"], meta["finalizers"]):
            raise KubernetesError(422, f"{kind.name} {meta['name']} has changed")
        known["resourceVersion"] = str(next(self._numbers))
        self._finalize(key, [name for name in known["finalizers"] if name != FINALIZER])

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str) -> None:
        """Delete an object by name and uid."""
        self.disturb("delete", kind)
        known = self._objects.get(_key(kind, namespace, name))
        if known is not None and known["metadata"]["uid"] == uid:
            self.mark_deleted(kind, namespace, name)

    async def close(self) -> None:
        """Nothing to let go of."""

    def _finalizers(self, known: Json, said: Sequence[str]) -> Sequence[str]:
        """Give what finalizers stand once an apply has said its own."""
        ours = self._applied.setdefault(known["uid"], set())
        stay = [name for name in known["finalizers"] if name not in ours or name in said]
        fresh = [name for name in said if name not in stay]
        self._applied[known["uid"]] = (ours & set(said)) | set(fresh)
        return [*stay, *fresh]

    def _finalize(self, key: _Key, finalizers: Sequence[str]) -> None:
        meta = self._objects[key]["metadata"]
        meta["finalizers"] = [*finalizers]
        if meta.get("deletionTimestamp") and not finalizers:
            self._remove(key)

    def _remove(self, key: _Key) -> None:
        uid = self._objects.pop(key)["metadata"]["uid"]
        for other, item in list(self._objects.items()):
            owners = item["metadata"].get("ownerReferences", [])
            if other in self._objects and any(owner["uid"] == uid for owner in owners):
                self._mark(other)


def _key(kind: Kind, namespace: str, name: str) -> _Key:
    return kind.plural, namespace, name


def _kept(meta: Json) -> Json:
    return {name: meta[name] for name in ("uid", "generation", "finalizers") if name in meta}


def _merge(known: Json, body: Json) -> None:
    for name, value in body.items():
        if isinstance(value, dict) and isinstance(known.get(name), dict):
            _merge(known[name], value)
        else:
            known[name] = value
