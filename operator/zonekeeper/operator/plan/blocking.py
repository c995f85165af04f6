"""The reasons that block a legal resource: it would lose data, or take an object of others. Pure.

Nothing is done by halves: one reason blocks the whole resource until the resource is changed or the
reason is gone.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.cluster.observed import Observed, controller_of
from zonekeeper.operator.kubernetes.api import Json, ObjectKind
from zonekeeper.operator.plan import conditions, ownership
from zonekeeper.placement.base.ids import BookieId


def reasons(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find objects of others, then bookies that run, then bookies that only have cookies."""
    yield from _foreign(wanted, observed)
    zones = _set_names(wanted)
    for name, count in _running(observed).items():
        if name not in zones:
            yield (
                f"spec.zones: StatefulSet {name} has bookies, and its zone is not named any more: "
                "the data of its bookies would be lost; name the zone again"
            )
        elif count > wanted.bookies_per_zone:
            yield (
                f"spec.bookiesPerZone: {wanted.bookies_per_zone}: StatefulSet {name} has {count} "
                "bookies, and the data of removed bookies would be lost; "
                f"set it to {count} or more"
            )
    for name, ordinals in sorted(_left_out(wanted, observed).items()):
        bookies = [BookieId(f"{name}-{ordinal}") for ordinal in sorted(ordinals)]
        forget = (
            "empty and forget each of them, for example with: "
            f"zonekeeper bookies decommission {bookies[-1]}"
        )
        what = f"the root has cookies of {conditions.some(bookies)}"
        if name in zones:
            yield (
                f"spec.bookiesPerZone: {wanted.bookies_per_zone}: {what}, and no pod would run "
                f"them, so that their data would be lost: set it to {max(ordinals) + 1} or more, "
                f"or {forget}"
            )
        else:
            yield (
                f"spec.zones: {what}, and their zone is not named, so that their data would be "
                f"lost: name the zone, or {forget}"
            )


def _foreign(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find objects with a name that the cluster needs and that the resource does not control."""
    for kind, body in owned_objects.all_of(wanted, observed.resource, None):
        name = body["metadata"]["name"]
        found = observed.owned.get((kind.plural, name))
        if found is not None and controller_of(found) != observed.uid:
            yield _controlled_by_another(kind, name, found)


def _controlled_by_another(kind: ObjectKind, name: str, found: Json) -> str:
    owners = found["metadata"].get("ownerReferences") or []
    whose = next((f"{o['kind']} {o['name']}" for o in owners if o.get("controller")), "none")
    return (
        f"metadata.name: {kind.name} {name} is there already, and is not controlled by "
        f"this resource (its controller: {whose}): wait until it is gone, remove it, or choose "
        "another name"
    )


def _set_names(wanted: Desired) -> set[str]:
    return {owned_objects.set_name(wanted.name, zone.name) for zone in wanted.zones}


def _running(observed: Observed) -> dict[str, int]:
    """Count bookies by StatefulSet."""
    return {name: int(item["spec"]["replicas"]) for name, item in observed.sets.items()}


def _left_out(wanted: Desired, observed: Observed) -> dict[str, set[int]]:
    """Find bookies that have cookies in the resource's root and no place in it, by StatefulSet.

    Each is given by its ordinal. A zone has a place for as many bookies as the resource asks for,
    or as its StatefulSet has replicas, if these are more. A resource that is made again over a
    retained root has no StatefulSets yet.
    """
    known = dict.fromkeys(_set_names(wanted), wanted.bookies_per_zone)
    for name, count in _running(observed).items():
        known[name] = max(count, known.get(name, 0))
    found: dict[str, set[int]] = {}
    ours = ownership.own_root(observed)
    for bookie in () if ours is None else ours.locations:
        name, _, ordinal = bookie.rpartition("-")
        if (
            name.startswith(f"{wanted.name}-")
            and ordinal.isdecimal()
            and int(ordinal) >= known.get(name, 0)
        ):
            found.setdefault(name, set()).add(int(ordinal))
    return found
