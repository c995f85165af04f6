"""The twin of a Kubernetes API server, which holds its objects in memory.

The twin stores applied objects, gives uids, counts generations and versions, honours finalizers and
preconditions (uid, version), and removes an object that has lost its last owner. It runs no
controllers: a test makes the pods of a StatefulSet with ``put``.

The twin differs from a real API server in these points:

- It knows no rights and no defaults.
- It validates two things: a deleted object gets no new finalizer, and the claim templates of a
  StatefulSet stay as they were made.
- It does not know the managers of a field. A field that an apply no longer names stays, except in a
  status. A finalizer that an apply no longer names goes if only applies have put it on.
- An apply replaces a list as a whole, also where the real one merges by key.
- A status in the body of an apply to the whole object is stored. An apply to the status replaces
  the whole status.
- Labels are selected by ``name=value`` only.
- An object that has lost its owner is gone at once, not a little later.
"""

import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from zonekeeper.operator.kubernetes.api import (
    FINALIZER,
    PODS,
    STATEFUL_SETS,
    GoneError,
    Json,
    Kubernetes,
    KubernetesError,
    ObjectChangedError,
    ObjectKind,
)

T = TypeVar("T")

_Key = tuple[str, str, str]

_TEMPLATES: Final = "volumeClaimTemplates"


class MemoryKubernetes(Kubernetes):
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[_Key, Json] = {}
        #: The finalizers that only applies have put on, by the object's uid.
        self._applied: dict[str, set[str]] = {}
        self._numbers = itertools.count(1)
        #: The logs of pods, by namespace and name.
        self.logs: dict[tuple[str, str], str] = {}
        #: Is called before each verb with its name and kind; the call fails with what it raises.
        self.disturb: Callable[[str, ObjectKind], None] = lambda verb, kind: None

    def put(self, kind: ObjectKind, body: Json) -> Json:
        """Make or replace an object, as a person or a controller does."""
        meta = body["metadata"]
        key = _key(kind, meta.get("namespace", ""), meta["name"])
        known = self._objects.get(key, {}).get("metadata", {})
        fresh = {"uid": f"uid-{next(self._numbers)}", "generation": 1, "finalizers": []}
        version = {"resourceVersion": str(next(self._numbers))}
        self._objects[key] = _stored(
            kind, {**body, "metadata": {**fresh, **_kept(known), **body["metadata"], **version}}
        )
        return _copied(self._objects[key])

    def peek(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Read one object without calling ``disturb``."""
        return _copied(self._objects.get(_key(kind, namespace, name)))

    def copy(self) -> "MemoryKubernetes":
        """Give another twin with the objects of now, for reads that are old."""
        other = MemoryKubernetes()
        other._objects = _copied(self._objects)
        return other

    def mark_deleted(self, kind: ObjectKind, namespace: str, name: str) -> None:
        """Delete as a user does: an object with a finalizer is only marked as deleted."""
        self._mark(_key(kind, namespace, name))

    def _mark(self, key: _Key) -> None:
        meta = self._objects[key]["metadata"]
        if not meta["finalizers"]:
            self._remove(key)
        elif "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            meta["generation"] += 1
            self._new_version(meta)

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Read one object."""
        self.disturb("get", kind)
        return self.peek(kind, namespace, name)

    async def list(self, kind: ObjectKind, namespace: str, *, labels: str = "") -> list[Json]:
        """Read objects by labels (``name=value``, joined by commas)."""
        self.disturb("list", kind)
        wanted = dict(pair.split("=") for pair in labels.split(",") if pair)
        found = [
            (key, item)
            for key, item in self._objects.items()
            if key[0] == kind.plural
            and namespace in ("", key[1])
            and wanted.items() <= item["metadata"].get("labels", {}).items()
        ]
        return [_copied(item) for _, item in sorted(found, key=_by_name)]

    async def create(self, kind: ObjectKind, body: Json) -> None:
        """Create an object."""
        self.disturb("create", kind)
        meta = body["metadata"]
        if _key(kind, meta.get("namespace", ""), meta["name"]) in self._objects:
            raise KubernetesError(409, f"{kind.name} {meta['name']} exists already")
        self.put(kind, body)

    async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        """Merge ``body`` into the object that is there."""
        self.disturb("apply", kind)
        meta = body["metadata"]
        key = _key(kind, meta.get("namespace", ""), meta["name"])
        known = self._objects.get(key)
        if "uid" in meta and (known is None or known["metadata"]["uid"] != meta["uid"]):
            raise GoneError(409, f"{kind.name} {meta['name']} is not the one with this uid")
        if known is None and subresource:
            raise GoneError(404, f"{kind.name} {meta['name']} is not there")
        if known is None:
            made = self.put(kind, body)["metadata"]
            self._applied[made["uid"]] = {*made["finalizers"]}
            return
        version = known["metadata"]["resourceVersion"]
        if meta.get("resourceVersion", version) != version:
            raise ObjectChangedError(409, f"{kind.name} {meta['name']} is another version")
        if _changes_templates(kind, known, body):
            why = "spec.volumeClaimTemplates: field is immutable"
            raise KubernetesError(422, f"StatefulSet {meta['name']} is invalid: {why}")
        before = _copied(known)
        if subresource:
            known[subresource] = _emptied(known.get(subresource), _plain(body[subresource]))
        else:
            finalizers = self._finalizers(known["metadata"], meta.get("finalizers", []))
            _merge(known, _stored(kind, body))
            if known.get("spec") != before.get("spec"):
                known["metadata"]["generation"] += 1
            self._finalize(key, finalizers)
        if known != before:
            self._new_version(known["metadata"])

    async def edit(self, kind: ObjectKind, seen: Json, changes: Json) -> None:
        """Merge ``changes`` into the object, if it still is what was seen."""
        self.disturb("edit", kind)
        meta = seen["metadata"]
        known = self._objects.get(_key(kind, meta.get("namespace", ""), meta["name"]))
        if known is None or known["metadata"]["uid"] != meta["uid"]:
            raise GoneError(409, f"{kind.name} {meta['name']} is not the one with this uid")
        if known["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise ObjectChangedError(409, f"{kind.name} {meta['name']} is another version")
        before = _copied(known)
        _merge(known, _plain(changes), removes=True)
        if known.get("spec") != before.get("spec"):
            known["metadata"]["generation"] += 1
        if known != before:
            self._new_version(known["metadata"])

    async def log(self, namespace: str, pod: str, *, lines: int) -> str | None:
        """Give the end of what a test has put into ``logs``."""
        self.disturb("log", PODS)
        text = self.logs.get((namespace, pod))
        return None if text is None else "".join(text.splitlines(keepends=True)[-lines:])

    async def release(self, kind: ObjectKind, seen: Json) -> None:
        """Take the operator's finalizer off."""
        self.disturb("release", kind)
        meta = seen["metadata"]
        place = meta["finalizers"].index(FINALIZER)
        key = _key(kind, meta.get("namespace", ""), meta["name"])
        if key not in self._objects:
            raise GoneError(404, f"{kind.name} {meta['name']} is not there")
        known = self._objects[key]["metadata"]
        stand = known["finalizers"]
        if known["uid"] != meta["uid"] or stand[place : place + 1] != [FINALIZER]:
            raise KubernetesError(422, f"{kind.name} {meta['name']} has changed")
        self._new_version(known)
        self._finalize(key, [*stand[:place], *stand[place + 1 :]])

    async def delete(
        self, kind: ObjectKind, namespace: str, name: str, *, uid: str, orphans: bool = False
    ) -> None:
        """Delete an object by name and uid."""
        self.disturb("delete", kind)
        known = self._objects.get(_key(kind, namespace, name))
        if known is not None and known["metadata"]["uid"] == uid:
            if orphans:
                self._orphan(uid)
            self.mark_deleted(kind, namespace, name)

    def _orphan(self, uid: str) -> None:
        """Let no object have this owner any more."""
        for item in self._objects.values():
            owners = item["metadata"].get("ownerReferences", [])
            left = [owner for owner in owners if owner["uid"] != uid]
            if left != owners:
                item["metadata"]["ownerReferences"] = left
                self._new_version(item["metadata"])

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _finalizers(self, known: Json, said: Sequence[str]) -> Sequence[str]:
        """Give the finalizers of an object after an apply that names these."""
        ours = self._applied.setdefault(known["uid"], set())
        stay = [name for name in known["finalizers"] if name not in ours or name in said]
        fresh = [name for name in said if name not in stay]
        if fresh and "deletionTimestamp" in known:
            raise KubernetesError(422, f"{known['name']} is deleted: no new finalizers")
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
            left = [owner for owner in owners if owner["uid"] != uid]
            if other not in self._objects or left == owners:
                continue
            if left:
                item["metadata"]["ownerReferences"] = left
                self._new_version(item["metadata"])
            else:
                self._mark(other)

    def _new_version(self, meta: Json) -> None:
        meta["resourceVersion"] = str(next(self._numbers))


def _changes_templates(kind: ObjectKind, known: Json, body: Json) -> bool:
    """Would an apply change what the real server lets nobody change?"""
    said = body.get("spec", {}).get(_TEMPLATES)
    return kind is STATEFUL_SETS and said is not None and said != known["spec"].get(_TEMPLATES)


def _key(kind: ObjectKind, namespace: str, name: str) -> _Key:
    return kind.plural, namespace, name


def _by_name(entry: tuple[_Key, Json]) -> tuple[str, str]:
    (_, namespace, name), _ = entry
    return name, namespace


def _kept(meta: Json) -> Json:
    return {name: meta[name] for name in ("uid", "generation", "finalizers") if name in meta}


def _plain(value: T) -> T:
    """Copy JSON so that no part of the copy stands in two places, as it is when it is sent."""
    if isinstance(value, dict):
        return cast(T, {name: _plain(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return cast(T, [_plain(inner) for inner in value])
    return value


def _stored(kind: ObjectKind, body: Json) -> Json:
    """Give an object as it is stored: of Kubernetes' own kinds no empty list of a spec is."""
    stored = _plain(body)
    is_own = "." not in kind.group or kind.group.endswith(".k8s.io")
    if is_own and "spec" in stored:
        stored["spec"] = _without_empty_lists(stored["spec"])
    return stored


def _emptied(before: object, after: T) -> T:
    """Give a status as it is stored: a list that an apply empties is dropped."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    kept = {name: value for name, value in after.items() if value != [] or not before.get(name)}
    return cast(T, {name: _emptied(before.get(name), value) for name, value in kept.items()})


def _without_empty_lists(value: T) -> T:
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if inner != []}
        return cast(T, {name: _without_empty_lists(inner) for name, inner in kept.items()})
    if isinstance(value, list):
        return cast(T, [_without_empty_lists(inner) for inner in value])
    return value


def _copied(value: T) -> T:
    """Copy what is stored; ``pickle`` is three times as fast as Python, and many times deepcopy."""
    return cast(T, pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)))  # noqa: S301 our own bytes


def _merge(known: Json, body: Json, *, removes: bool = False) -> None:
    for name, value in body.items():
        if removes and value is None:
            known.pop(name, None)
        elif isinstance(value, dict) and isinstance(known.get(name), dict):
            _merge(known[name], value, removes=removes)
        else:
            known[name] = value
