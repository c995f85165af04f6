"""Reads what stands behind claims: storage classes, and the nodes of local volumes.

Nothing of it is read at rest. Where the operator has no right to read it, it is unknown, and
nothing is done because of it.
"""

from collections.abc import Mapping
from dataclasses import replace

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import (
    NODES,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Kubernetes,
    NotPermittedError,
)
from zonekeeper.operator.plan.volumes import filling
from zonekeeper.operator.shapes import quantities
from zonekeeper.operator.sight import lost_nodes
from zonekeeper.operator.sight.observed import LostNode, Observed, VolumeClaim


async def growable(
    kubernetes: Kubernetes,
    wanted: Desired | RefusedResource,
    kept: Desired | None,
    claims: Mapping[str, VolumeClaim],
) -> dict[str, bool | None]:
    """Read the storage classes of volumes that an edit would let grow: may they?"""
    if not isinstance(wanted, Desired) or kept is None:
        return {}
    before, found = owned_objects.volumes(kept), dict[str, bool | None]()
    grown = {
        name: one.size
        for name, one in owned_objects.volumes(wanted).items()
        if name in before and quantities.is_larger(one.size, before[name].size)
    }
    for name, claim in claims.items():
        known, size = claim.storage_class, grown.get(name.partition("-")[0])
        if known and known not in found and quantities.is_larger(size, claim.size):
            found[known] = await _may_grow(kubernetes, known)
    return found


async def lost_nodes_of(kubernetes: Kubernetes, seen: Observed) -> tuple[LostNode, ...]:
    """Find bookies whose local volumes have lost their nodes; without the rights, none is found."""
    found = []
    try:
        for one in lost_nodes.unplaced(seen):
            volume = await kubernetes.get(PERSISTENT_VOLUMES, "", one.claim.volume)
            on = lost_nodes.hosts(volume)
            there = [
                node
                for host in on
                for node in await kubernetes.list(
                    NODES, "", labels=f"{lost_nodes.HOST_LABEL}={host}"
                )
            ]
            if on and not there:
                found.append(lost_nodes.lost(one, on))
    except NotPermittedError:
        return ()
    return tuple(found)


async def with_classes(
    kubernetes: Kubernetes, wanted: Desired | RefusedResource, seen: Observed
) -> Observed:
    """Give what was seen with the storage classes of volumes that are to grow by themselves."""
    if not isinstance(wanted, Desired):
        return seen
    due = sorted(filling.classes(wanted, seen))
    found = {one: await _may_grow(kubernetes, one) for one in due}
    return replace(seen, growable={**seen.growable, **found})


async def _may_grow(kubernetes: Kubernetes, storage_class: str) -> bool | None:
    try:
        item = await kubernetes.get(STORAGE_CLASSES, "", storage_class)
    except NotPermittedError:
        return None
    return item is not None and item.get("allowVolumeExpansion") is True
