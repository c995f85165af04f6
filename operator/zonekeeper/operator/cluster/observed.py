"""One look as one value: the resource, the objects that belong to it, and the root. Pure.

A turn creates and deletes objects because of this value. So everything in it is read at the start
of the turn, from the API server and the metadata store, and never from a cache.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zonekeeper.operator.kubernetes.api import (
    FINALIZER,
    INSTANCE_LABEL,
    REVISION_LABEL,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
)
from zonekeeper.operator.roots import roots
from zonekeeper.placement.base.ids import BookieId, ZoneName


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A bookie's pod."""

    name: BookieId
    zone: ZoneName
    ready: bool
    #: None: the pod is not bound to a node yet.
    node: str | None
    #: The revision of the StatefulSet's template that the pod was made from.
    revision: str
    #: The uid of the StatefulSet that made the pod; None: no object controls it.
    controller: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """The claim of a bookie's volume."""

    uid: str
    #: The instance whose data the volume holds; None: the claim lacks the label.
    instance: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that one look has read."""

    resource: Json
    #: Objects with the cluster's label or with a name that it needs, by plural and name.
    owned: Mapping[tuple[str, str], Json]
    pods: tuple[Pod, ...]
    #: The claims of bookies' volumes by name, also those of an earlier cluster.
    claims: Mapping[str, VolumeClaim]
    #: The labels of each node by its name; None: the operator may not read nodes.
    nodes: Mapping[str, Mapping[str, str]] | None
    root: roots.Facts
    #: The failures of the last turn's acts, in words.
    failures: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        """The uid of this very resource; another resource of its name has another uid."""
        return str(self.resource["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """The version of the spec."""
        return int(self.resource["metadata"]["generation"])

    @property
    def leaving(self) -> bool:
        """Is the resource deleted, so that only finalizers keep it?"""
        return bool(self.resource["metadata"].get("deletionTimestamp"))

    @property
    def held(self) -> bool:
        """Is the operator's finalizer on the resource?"""
        return FINALIZER in (self.resource["metadata"].get("finalizers") or ())

    @property
    def status(self) -> Json:
        """The status that an earlier turn wrote."""
        found: Json = self.resource.get("status") or {}
        return found

    @property
    def sets(self) -> dict[str, Json]:
        """Give the StatefulSets that this resource controls, by name."""
        return {
            name: item
            for (plural, name), item in sorted(self.owned.items())
            if plural == STATEFUL_SETS.plural and controller_of(item) == self.uid
        }

    @property
    def instance(self) -> str | None:
        """The instance that this resource was built as; None: it was not built yet."""
        return self.status.get("instance")


def controller_of(item: Json) -> str | None:
    """Give the uid of the object that controls this one; None: no object does."""
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def bookies(items: Iterable[Json], resource: Json, owned: Iterable[Json]) -> tuple[Pod, ...]:
    """Read the pods that are bookies of this resource.

    A pod is one if a StatefulSet of this resource controls it. A copy of a pod that a person made
    has the same labels and is none. When the resource is deleted, its StatefulSets go before their
    pods do; then a pod is a bookie by its name.
    """
    meta = resource["metadata"]
    ours = {item["metadata"]["uid"] for item in owned if controller_of(item) == meta["uid"]}
    found = tuple(map(pod, items))
    if meta.get("deletionTimestamp"):
        return tuple(one for one in found if _is_named_as_ours(one, meta["name"]))
    return tuple(one for one in found if one.controller in ours)


def _is_named_as_ours(found: Pod, cluster: str) -> bool:
    return re.fullmatch(rf"{re.escape(f'{cluster}-{found.zone}')}-[0-9]+", found.name) is not None


def claim(item: Json) -> VolumeClaim:
    """Read the claim of a volume."""
    meta = item["metadata"]
    return VolumeClaim(uid=meta["uid"], instance=meta.get("labels", {}).get(INSTANCE_LABEL))


def pod(item: Json) -> Pod:
    """Read a pod."""
    meta, status = item["metadata"], item.get("status", {})
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    return Pod(
        name=BookieId(meta["name"]),
        zone=ZoneName(meta.get("labels", {}).get(ZONE_LABEL, "")),
        ready=ready and not meta.get("deletionTimestamp"),
        node=item.get("spec", {}).get("nodeName"),
        revision=meta.get("labels", {}).get(REVISION_LABEL, ""),
        controller=controller_of(item),
    )
