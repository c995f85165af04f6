"""What is there, as one value: the resource, the objects that belong to it, the root. Pure.

Everything is read at the start of a turn, from the API server and the store and never from a
cache, because things are created and deleted by what stands here.
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
    #: None: not bound yet.
    node: str | None
    #: Of which version of its StatefulSet's template it is.
    revision: str
    #: The uid of the StatefulSet that made it.
    controller: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """The claim of a bookie's volume."""

    uid: str
    #: Whose data it holds; None: it was made without the label.
    instance: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look."""

    resource: Json
    #: The objects that carry the cluster's label or one of its names, by plural and name.
    owned: Mapping[tuple[str, str], Json]
    pods: tuple[Pod, ...]
    #: The claims of bookies' volumes by name, whosever they are.
    claims: Mapping[str, VolumeClaim]
    #: The labels of nodes by name; None: we are not permitted to read them.
    nodes: Mapping[str, Mapping[str, str]] | None
    root: roots.Facts
    #: What the last turn wanted to do and could not, in words.
    failures: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        """The identity of this very resource, not of others of its name."""
        return str(self.resource["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """Which version of the spec this is."""
        return int(self.resource["metadata"]["generation"])

    @property
    def leaving(self) -> bool:
        """Is the resource deleted, and only kept by finalizers?"""
        return bool(self.resource["metadata"].get("deletionTimestamp"))

    @property
    def held(self) -> bool:
        """Does our finalizer keep it?"""
        return FINALIZER in (self.resource["metadata"].get("finalizers") or ())

    @property
    def status(self) -> Json:
        """What the last turn said."""
        found: Json = self.resource.get("status") or {}
        return found

    @property
    def sets(self) -> dict[str, Json]:
        """Give the StatefulSets that are this resource's own, by name."""
        return {
            name: item
            for (plural, name), item in sorted(self.owned.items())
            if plural == STATEFUL_SETS.plural and controller_of(item) == self.uid
        }

    @property
    def instance(self) -> str | None:
        """The instance that this resource was built as, once it was."""
        return self.status.get("instance")


def controller_of(item: Json) -> str | None:
    """Give the uid of who controls an object."""
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def bookies(items: Iterable[Json], resource: Json, owned: Iterable[Json]) -> tuple[Pod, ...]:
    """Read those pods that are bookies of ours: a copy that somebody made of one is none.

    Our StatefulSets control them. These go first when the resource goes: then a name must do.
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
    """Read a claim."""
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
