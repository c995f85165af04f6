"""Each bookie's cookie says where its pod stands, and its node belongs to its zone. Pure.

The bookie writes its cookie, and the operator only checks it. The location in the cookie must be
the one that follows from the pod's name.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.scaling import zone_naming
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin


def stage(case: Case) -> Outcome:
    """Wait until every zone is named, and every bookie is where it belongs, and known to be."""
    found, observed = case.observed.root, case.observed
    if not isinstance(found, roots.RootFound):
        return Settled()
    return (
        zone_naming.unnamed(case.desired, observed)
        or _wrong(case.desired, observed, found)
        or _unseen(observed, found)
        or Settled()
    )


def condition(case: Case) -> Condition:
    """Does each bookie's cookie say where its pod stands?"""
    kind, found, observed = Type.LOCATIONS_VERIFIED, case.observed.root, case.observed
    judged = case.buildable or case.wanted
    if isinstance(judged, RefusedResource) or not isinstance(found, roots.RootFound):
        return conditions.unknown(kind, "NotSeen", "cookies were not read")
    if (waiting := _wrong(judged, observed, found)) is not None:
        return conditions.waiting(kind, waiting)
    if not observed.pods:
        return conditions.unknown(kind, "NoBookies", "no bookie runs yet")
    if (waiting := _unseen(observed, found)) is not None:
        return conditions.unseen(kind, waiting)
    return conditions.good(kind, "Verified", f"{len(observed.pods)} bookies")


def _wrong(wanted: Desired, observed: Observed, found: roots.RootFound) -> Waiting | None:
    wrong = list(_misplaced(wanted, observed, found))
    return Waiting(Predicate.MISPLACED, "; ".join(wrong)) if wrong else None


def _unseen(observed: Observed, found: roots.RootFound) -> Waiting | None:
    missing = [pod.name for pod in observed.pods if found.locations.get(pod.name) is None]
    if missing:
        return Waiting(
            Predicate.NO_COOKIE, f"no cookie has their location yet: {naming.some(missing)}"
        )
    if not observed.nodes.permitted:
        why = "cookies agree with the StatefulSets of the zones; the operator may not read nodes"
        return Waiting(Predicate.NODES_NOT_PERMITTED, why)
    return None


def _misplaced(wanted: Desired, observed: Observed, found: roots.RootFound) -> Iterator[str]:
    domains = RoundRobin(upgrade_domains=wanted.policy.placement.upgrade_domains)
    zones = {zone.name: zone for zone in wanted.zones}
    for pod in observed.pods:
        zone, said = zones.get(pod.zone), found.locations.get(pod.name)
        if zone is None:
            continue  # a zone that is not named any more blocks the resource, and is said there
        ordinal = upgrade_domains.ordinal_of(pod.name)
        computed = Location(zone.name, upgrade_domains.of_ordinal(ordinal, domains))
        if said not in (None, computed):
            yield f"{pod.name} belongs to {computed}, and its cookie says {said}"
        if lacking := zone_naming.without(zone, observed, pod.node):
            yield f"{pod.name} of zone {zone.name} stands on node {pod.node} without {lacking}"
