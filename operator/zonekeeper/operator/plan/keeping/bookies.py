"""Every bookie that is asked for is ready; if not, the cause is told. Pure."""

from collections.abc import Iterator

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan import causes, conditions, standing
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.keeping import applied, legality, policy, root
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.sight import lost_disks, naming
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.operator.sight.pod_trouble import TroubleKind
from zonekeeper.placement.zones.observation import Observation


def stage(case: Case) -> Outcome:
    """Wait until all are ready."""
    return _waits(case, standing.zones(case.buildable, case.observed)) or Settled()


def condition(case: Case, zones: list[Json]) -> Condition:
    """Is every bookie that is asked for there and ready? If not, why?"""
    if (waiting := _waits(case, zones)) is not None:
        return conditions.waiting(Type.READY, waiting)
    count = sum(zone["bookies"] for zone in zones)
    return conditions.good(Type.READY, "AllReady", f"{count} bookies in {len(zones)} zones")


def _waits(case: Case, zones: list[Json]) -> Waiting | None:
    short = [zone for zone in zones if zone["ready"] < zone["bookies"]]
    if zones and not short:
        return None
    found = dict(_surrounding(case))
    if short:
        found |= dict(_of_pods(case.observed))
        if lost := lost_disks.found(case.observed):
            found[Predicate.VOLUME_LOST] = "\n".join(map(str, lost))
        found |= dict(_of_zones(case.observed, short))
        found[Predicate.BOOKIES_NOT_READY] = "; ".join(
            f"zone {zone['name']}: {zone['ready']} of {zone['bookies']}" for zone in short
        )
    waiting = causes.cause(found)
    assert waiting is not None, "a resource without zones is not built"
    return waiting


def _surrounding(case: Case) -> Iterator[tuple[Predicate, str]]:
    """Give what keeps any bookie from being built or from serving."""
    if case.buildable is None:
        legal = legality.waits(case)
        assert legal is not None, "what is neither refused nor blocked can be built"
        yield _predicate(legal), "the resource is not built: see Legal"
    observed = case.observed
    for waiting in (root.waits(observed), policy.waits(observed), applied.waits(observed)):
        if waiting is not None:
            yield _predicate(waiting), waiting.why


def _predicate(waiting: Waiting) -> Predicate:
    assert isinstance(waiting.predicate, Predicate), "only the roll waits for gates"
    return waiting.predicate


def _of_pods(observed: Observed) -> Iterator[tuple[Predicate, str]]:
    """Give for each kind of trouble the pods that have it, and the words about the first."""
    found: dict[TroubleKind, list[Pod]] = {}
    for pod in observed.pods:
        if pod.trouble is not None:
            found.setdefault(pod.trouble.kind, []).append(pod)
    for kind, pods in found.items():
        first = min(pods, key=lambda pod: pod.name)
        assert first.trouble is not None
        named = naming.some([pod.name for pod in pods])
        yield causes.OF_TROUBLE[kind], f"{named}: {first.trouble.told}"


def _of_zones(observed: Observed, short: list[Json]) -> Iterator[tuple[Predicate, str]]:
    """Give the zones without all their bookies that the zone watch calls down."""
    records = {str(zone): one for zone, one in observed.watched.followed.records.zones.items()}
    down = [
        str(zone["name"])
        for zone in short
        if (record := records.get(zone["name"])) is not None
        and record.observed.state is Observation.DOWN
    ]
    if down:
        why = "; ".join(f"zone {zone} is down" for zone in down)
        yield Predicate.ZONE_DOWN, f"the zone watch says: {why}"
