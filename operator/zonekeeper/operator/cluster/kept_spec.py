"""The last legal spec of a resource, kept in a ControllerRevision that the resource controls. Pure.

While an edit is refused or blocked, the cluster is kept up by this spec. The data of a
ControllerRevision cannot be changed, so each spec has one of its own. Its name has a hash of the
spec and of the resource's uid: a revision with another name is not one that the operator made. Of
several the newest counts, which is the one with the highest number.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import KEEPS_LABEL, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSpec:
    """A spec that was legal once."""

    name: str
    uid: str
    #: It rises with each spec that is kept.
    number: int
    spec: Json


def read(items: Iterable[Json], resource: Json) -> tuple[KeptSpec, ...]:
    """Read the specs that the operator kept for this very resource, the newest first."""
    uid = resource["metadata"]["uid"]
    ours = (item for item in items if owned_objects.controller_of(item) == uid)
    found = [one for item in ours if (one := _read(item, resource)) is not None]
    return tuple(sorted(found, key=lambda one: one.number, reverse=True))


def cluster_of(
    kept: Sequence[KeptSpec], resource: Json, wanted: Desired | RefusedResource
) -> Desired | None:
    """Give the cluster that the newest kept spec asks for; None: none is kept, or it is illegal.

    ``wanted`` is what the resource asks for. At rest that is the same, and nothing is read again.
    """
    if not kept:
        return None
    is_same = kept[0].spec == resource["spec"]
    found = wanted if is_same else desired.read({**resource, "spec": kept[0].spec})
    return found if isinstance(found, Desired) else None


def address(kept: Sequence[KeptSpec], resource: Json) -> str | None:
    """Give the metadata store's address; None: there is none that can be used.

    It cannot change once a cluster is built, so that of the kept spec counts.
    """
    return desired.metadata_uri({**resource, "spec": kept[0].spec} if kept else resource)


def revision(resource: Json, *, number: int) -> Json:
    """Give the ControllerRevision that keeps the resource's spec."""
    meta = resource["metadata"]
    return {
        "metadata": {
            "name": _name(resource, resource["spec"]),
            "namespace": meta["namespace"],
            "labels": {KEEPS_LABEL: meta["name"]},
            "ownerReferences": [owned_objects.owner_reference(resource)],
        },
        "revision": number,
        "data": {"spec": resource["spec"]},
    }


def _read(item: Json, resource: Json) -> KeptSpec | None:
    data = item.get("data")
    spec = data.get("spec") if isinstance(data, dict) else None
    name = item["metadata"]["name"]
    if not isinstance(spec, dict) or name != _name(resource, spec):
        return None
    return KeptSpec(
        name=name, uid=item["metadata"]["uid"], number=int(item.get("revision", 0)), spec=spec
    )


def _name(resource: Json, spec: Json) -> str:
    """Name a revision; those of StatefulSets end with a shorter hash."""
    meta = resource["metadata"]
    text = json.dumps([meta["uid"], spec], sort_keys=True)
    return f"{meta['name']}-spec-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
