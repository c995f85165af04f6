"""Which bookies go, of zones that stay and of zones that leave, and which may be stopped. Pure.

The highest ordinal goes first, as a number: a StatefulSet stops no other pod. The zones take turns,
in the order of the resource, so at any time two zones that stay differ by one bookie at most.

A zone leaves if an edit does not name it any more, and the policy or a ledger named it until then.
All its bookies go, before those of the zones that stay. A zone that the policy never named, and
that no ledger names, is a slip: it is taken back, and its cookies and volumes stay.

A bookie with a cookie may be stopped in two cases:

- It is a slip: the resource was never accepted with a smaller number, and no ledger names it.
- An order to remove it stands, the order says that it is emptied, and a listing of the operator's
  own has found no ledger that names it.

A bookie without a cookie never served. While the root is not read, no bookie may be stopped.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from zonekeeper.operator.cluster import desired as desired_
from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.scaling import scale_memory
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import holdings
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind

#: An order that stands about a bookie; a text: why its record cannot be read; None: there is none.
Standing: TypeAlias = BookieOrder | str | None

#: How the resource spells the number.
_COUNT: Final = "bookiesPerZone"


def own_root(observed: Observed) -> RootFound | None:
    """Give the root of this very cluster; None: it was not read, or is another's."""
    ours = ownership.own_root(observed)
    if ours is None or ours.instance != (observed.instance or ours.instance):
        return None
    return ours


def ordinal_of(bookie: BookieId) -> int:
    """Give the ordinal of a bookie of a StatefulSet."""
    return int(bookie.rpartition("-")[2])


def set_of(bookie: BookieId) -> str:
    """Give the name of a bookie's StatefulSet."""
    return bookie.rpartition("-")[0]


def is_asked_for(desired: Desired, bookie: BookieId) -> bool:
    """Has the bookie a place in the resource?"""
    name, _, ordinal = bookie.rpartition("-")
    count = holdings.places(desired).get(name)
    return count is not None and ordinal.isdecimal() and int(ordinal) < count


def zones_going(desired: Desired, observed: Observed) -> tuple[ZoneName, ...]:
    """Give the zones that leave: those that were noted, and those that this edit gives up."""
    asked = {zone.name for zone in desired.zones}
    found = {*scale_memory.read(observed.status).zones, *zones_begun(desired, observed)}
    return tuple(sorted(found - asked))


def zones_begun(desired: Desired, observed: Observed) -> tuple[ZoneName, ...]:
    """Give the zones that this edit gives up, and that were not noted yet."""
    root = own_root(observed)
    if root is None or root.policy is None or not observed.kept:
        return ()
    asked = {zone.name for zone in desired.zones}
    noted = scale_memory.read(observed.status).zones
    held = {set_of(one) for one in observed.holdings.named}
    given = observed.kept[0].spec.get("zones") or ()
    before = (ZoneName(str(one["name"])) for one in given if isinstance(one, dict))
    return tuple(
        zone
        for zone in before
        if zone not in asked
        and zone not in noted
        and (zone in root.policy.placement.zones or _set(desired, zone) in held)
    )


def _set(desired: Desired, zone: ZoneName) -> str:
    return owned_objects.set_name(desired.name, zone)


def zone_of(desired: Desired, bookie: BookieId) -> ZoneName:
    """Give the zone of a bookie of this cluster, by its name."""
    return ZoneName(set_of(bookie).removeprefix(owned_objects.set_name(desired.name, "")))


def places(desired: Desired, observed: Observed) -> dict[str, int]:
    """Give the number of bookies that shall be there, by StatefulSet: none of a zone that leaves.

    The zones that leave come first.
    """
    going = {_set(desired, zone): 0 for zone in zones_going(desired, observed)}
    return going | holdings.places(desired)


def accepted_sets(desired: Desired, observed: Observed) -> frozenset[str]:
    """Give the StatefulSets whose bookies are given up, also those that hold something."""
    going = frozenset(_set(desired, zone) for zone in zones_going(desired, observed))
    return going | (holdings.places(desired).keys() if is_accepted(desired, observed) else set())


def is_cleared(desired: Desired, observed: Observed, zone: ZoneName) -> bool:
    """Is nothing left of the bookies of a zone that leaves, so that its objects may go?"""
    root, name = own_root(observed), _set(desired, zone)
    if root is None or observed.replicas.get(name, 0) > 0:
        return False
    left = (
        *(pod.name for pod in observed.pods),
        *root.locations,
        *root.registered,
        *root.orders,
        *(one.bookie for one in scale_memory.read(observed.status).leaving),
    )
    return not any(set_of(bookie) == name for bookie in left)


def running(desired: Desired, observed: Observed) -> dict[str, tuple[BookieId, ...]]:
    """Give the bookies that run and are not asked for, by StatefulSet of a zone that stays or goes.

    Those of a zone that is a slip are left out.
    """
    known = places(desired, observed)
    found = holdings.run_beyond(desired, observed.replicas)
    return {name: bookies for name, bookies in found.items() if name in known}


def beyond(desired: Desired, observed: Observed, root: RootFound) -> tuple[BookieId, ...]:
    """Give the bookies that are to be removed, in the order in which they go.

    They have a cookie, and either a StatefulSet runs them or an order about them stands. A bookie
    that only has a cookie is nobody's to remove: its volume may have what ledgers need.
    """
    known, asked = list(places(desired, observed)), holdings.places(desired)
    runs = {one for bookies in running(desired, observed).values() for one in bookies}
    found = [
        bookie
        for bookie in holdings.beyond(desired, root.locations)
        if set_of(bookie) in known and (bookie in runs or bookie in root.orders)
    ]
    return tuple(
        sorted(
            found,
            key=lambda one: (set_of(one) in asked, -ordinal_of(one), known.index(set_of(one))),
        )
    )


def is_to_remove(order: Standing) -> bool:
    """Does an order to remove its bookie stand, and was it not taken back?"""
    return (
        isinstance(order, BookieOrder)
        and order.kind is OrderKind.REMOVE
        and order.taken_back is None
    )


def is_emptied(order: Standing) -> bool:
    """Did a whole listing find no ledger that names the bookie of such an order?"""
    return isinstance(order, BookieOrder) and is_to_remove(order) and order.emptied_ms is not None


def is_ours(order: Standing, observed: Observed) -> bool:
    """Did this resource give the order?"""
    return isinstance(order, BookieOrder) and order.given.by == desired_.owner(observed.resource)


def is_accepted(desired: Desired, observed: Observed) -> bool:
    """Are bookies with data given up for this number? It was noted, or this edit begins it.

    A StatefulSet that a hand made larger is no edit of the resource: no order follows from it.
    """
    return is_noted(desired, observed) or begins(desired, observed)


def is_noted(desired: Desired, observed: Observed) -> bool:
    """Was this number, or a smaller one, accepted before?"""
    target = scale_memory.read(observed.status).target
    return target is not None and target <= desired.bookies_per_zone


def begins(desired: Desired, observed: Observed) -> bool:
    """Does this edit give up bookies that hold something?"""
    if is_noted(desired, observed) or not is_lowered(desired, observed):
        return False
    return bool(named(desired, observed))


def is_lowered(desired: Desired, observed: Observed) -> bool:
    """Does the resource ask for fewer bookies than its last legal spec?"""
    if not observed.kept:
        return False
    before = observed.kept[0].spec.get(_COUNT, desired_.DEFAULTS[_COUNT])
    return isinstance(before, int) and desired.bookies_per_zone < before


def named(desired: Desired, observed: Observed) -> list[BookieId]:
    """Give the bookies beyond the number of a zone that stays, and that hold something."""
    asked = holdings.places(desired)
    found = running(desired, observed)
    runs = {one for name, bookies in found.items() if name in asked for one in bookies}
    return sorted(observed.holdings.named & runs)


def may_stop(desired: Desired, observed: Observed, bookie: BookieId) -> bool:
    """May a bookie that is not asked for be stopped now?"""
    root = own_root(observed)
    if root is None:
        return False
    if bookie not in root.locations:
        return True
    is_listed = bookie in observed.holdings.empty
    if set_of(bookie) not in accepted_sets(desired, observed):
        return is_listed
    return is_listed and is_emptied(root.orders.get(bookie))


def unsettled(observed: Observed) -> Iterator[BookieId]:
    """Give the bookies that were removed, and whose volumes are not settled yet.

    As long as the root is not read, a bookie whose order was seen may be one.
    """
    root = own_root(observed)
    for one in scale_memory.read(observed.status).leaving:
        if root is None or one.bookie not in root.locations:
            yield one.bookie


def to_be_listed(desired: Desired, observed: Observed, root: RootFound) -> frozenset[BookieId]:
    """Give the bookies of which it must be proven that no ledger names them.

    While bookies are being emptied, their orders say how far they are. So the ledgers are not read
    again and again for hours.
    """
    found = holdings.beyond(desired, root.locations)
    noted = {_set(desired, zone) for zone in zones_going(desired, observed)}
    if is_noted(desired, observed):
        noted |= holdings.places(desired).keys()
    if noted:
        waits = {one for one in beyond(desired, observed, root) if set_of(one) in noted}
        runs = {one for bookies in running(desired, observed).values() for one in bookies}
        found -= {one for one in waits if one not in runs or not is_emptied(root.orders.get(one))}
    return found | frozenset(unsettled(observed))


def listed(names: Iterable[str]) -> str:
    """Name bookies or zones in their order."""
    return ", ".join(names)
