"""Every bookie that is asked for is ready; and the counts of bookies by zone. Pure."""

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.cluster.observed import Observed
from zonekeeper.operator.kubernetes.api import ZONE_LABEL, Json
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Wait until all are ready."""
    return _waits(counts(case.buildable, case.observed)) or Settled()


def condition(zones: list[Json]) -> Condition:
    """Is every bookie that is asked for there and ready?"""
    if not zones:
        return conditions.bad(Type.READY, "Refused", "the resource is not built: see Legal")
    if (waiting := _waits(zones)) is not None:
        return conditions.waiting(Type.READY, waiting)
    count = sum(zone["bookies"] for zone in zones)
    return conditions.good(Type.READY, "AllReady", f"{count} bookies in {len(zones)} zones")


def _waits(zones: list[Json]) -> Waiting | None:
    short = [
        f"zone {zone['name']}: {zone['ready']} of {zone['bookies']}"
        for zone in zones
        if zone["ready"] < zone["bookies"]
    ]
    return Waiting(Predicate.BOOKIES_NOT_READY, "; ".join(short)) if short else None


def counts(buildable: Desired | None, observed: Observed) -> list[Json]:
    """Give for each zone how many bookies it shall have, and how many are ready.

    A resource that is refused or blocked changes nothing, so then the replicas that stand count.
    """
    shall: dict[str, int] = {}
    if buildable is not None:
        shall = {str(zone.name): buildable.bookies_per_zone for zone in buildable.zones}
    for item in observed.sets.values():
        zone = item["metadata"].get("labels", {}).get(ZONE_LABEL, "")
        shall.setdefault(str(zone), int(item["spec"]["replicas"]))
    return [
        {
            "name": zone,
            "bookies": count,
            "ready": sum(pod.ready for pod in observed.pods if pod.zone == zone),
        }
        for zone, count in shall.items()
    ]
