"""How a cluster stands, in numbers and names: the parts of its status beside conditions. Pure.

Each count is made anew from one look. A pod counts as updated only if it is known to be: while
Kubernetes has not looked at a template yet, no pod of it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import ZONE_LABEL, Json
from zonekeeper.operator.roll import templates
from zonekeeper.operator.roll.order import ZoneSet
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.operator.sight.pod_trouble import PodTrouble
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.upgrade_domains import RoundRobin

#: So many pods that are not well are named; the counts tell of the others.
UNWELL_MAX: Final = 20

#: Why a pod is not well, where Kubernetes names no trouble.
MISSING: Final = "Missing"
NOT_READY: Final = "NotReady"


def zones(buildable: Desired | None, observed: Observed) -> list[Json]:
    """Give for each zone how many bookies it shall have, and how many are ready.

    While a resource is refused or blocked, its last legal spec counts; without one, the replicas
    that stand.
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
            "ready": sum(
                pod.ready for pod in observed.pods if pod.zone == zone and _has_place(pod, count)
            ),
        }
        for zone, count in shall.items()
    ]


def _has_place(pod: Pod, count: int) -> bool:
    """Is a bookie one of the first so many? Those that are to go make up for none."""
    ordinal = pod.name.rpartition("-")[2]
    return ordinal.isdecimal() and int(ordinal) < count


def status(
    buildable: Desired | None, observed: Observed, counts: list[Json], sets: Iterable[ZoneSet]
) -> Json:
    """Give the parts of the status that count and name bookies.

    ``counts`` are those by zone, and ``sets`` the StatefulSets of what can be built.
    """
    domains = _domains(buildable, observed)
    newest = _newest(buildable, observed, sets)
    of_units = [] if domains is None else _units(observed, counts, domains, newest)
    found: Json = {
        "zones": counts,
        "units": of_units,
        "bookies": sum(zone["bookies"] for zone in counts),
        "bookiesPerZone": max(observed.replicas.values(), default=0),
        "readyBookies": sum(zone["ready"] for zone in counts),
        "updatedBookies": sum(unit["updated"] for unit in of_units),
        "unwell": _unwell(observed, counts),
    }
    if buildable is not None:
        found["image"] = buildable.image
    return found | ({"version": observed.version} if observed.version else {})


def _domains(buildable: Desired | None, observed: Observed) -> RoundRobin | None:
    """Give the rule by which bookies are in upgrade domains; None: it is not known."""
    policy = None if buildable is None else buildable.policy
    if policy is None and isinstance(observed.root, roots.RootFound):
        policy = observed.root.policy
    if policy is None:
        return None
    return RoundRobin(upgrade_domains=policy.placement.upgrade_domains)


def _units(
    observed: Observed, counts: list[Json], domains: RoundRobin, newest: Mapping[str, str | None]
) -> list[Json]:
    """Count the bookies that each unit shall have, those that are ready, and those up to date."""
    pods = {str(pod.name): pod for pod in observed.pods}
    found: dict[tuple[str, str], Json] = {}
    for zone, ordinal, name in _asked_for(observed, counts):
        domain = upgrade_domains.of_ordinal(ordinal, domains)
        fresh: Json = {"zone": zone, "domain": domain, "bookies": 0, "ready": 0, "updated": 0}
        unit = found.setdefault((zone, domain), fresh)
        pod = pods.get(name)
        unit["bookies"] += 1
        unit["ready"] += pod is not None and pod.ready
        unit["updated"] += pod is not None and _is_updated(pod, newest)
    return list(found.values())


def _newest(
    buildable: Desired | None, observed: Observed, sets: Iterable[ZoneSet]
) -> dict[str, str | None]:
    """Give the revision of the template that is asked for, by StatefulSet; None: it has none yet.

    While nothing can be built, the template that stands is the one.
    """
    if buildable is None:
        return {name: templates.revision(item) for name, item in observed.sets.items()}
    return {
        zone.made["metadata"]["name"]: zone.revision if zone.is_reached else None for zone in sets
    }


def _is_updated(pod: Pod, newest: Mapping[str, str | None]) -> bool:
    revision = newest.get(pod.name.rpartition("-")[0])
    return revision is not None and pod.revision == revision


def _asked_for(observed: Observed, counts: list[Json]) -> Iterator[tuple[str, int, str]]:
    """Give zone, ordinal and name of each bookie that shall run."""
    cluster = observed.resource["metadata"]["name"]
    for zone in counts:
        of_zone = owned_objects.set_name(cluster, zone["name"])
        for ordinal in range(zone["bookies"]):
            yield zone["name"], ordinal, f"{of_zone}-{ordinal}"


def _unwell(observed: Observed, counts: list[Json]) -> list[Json]:
    """Name the pods that are not well: first those with a trouble, each by zone and ordinal."""
    pods = {str(pod.name): pod for pod in observed.pods}
    found = [
        _told(name, zone, None if pod is None else pod.trouble, is_there=pod is not None)
        for zone, _, name in _asked_for(observed, counts)
        if (pod := pods.get(name)) is None or not pod.ready
    ]
    found += [
        _told(one.name, one.zone, one.trouble, is_there=True)
        for one in observed.repairers
        if not one.ready
    ]
    found.sort(key=lambda one: one["reason"] in (MISSING, NOT_READY))
    return found[:UNWELL_MAX]


def _told(name: str, zone: str, trouble: PodTrouble | None, *, is_there: bool) -> Json:
    said: Json = {"pod": name, "zone": zone}
    if trouble is not None:
        since = {} if trouble.since is None else {"since": trouble.since}
        return said | {"reason": str(trouble.kind), "message": trouble.told} | since
    if is_there:
        return said | {"reason": NOT_READY, "message": "it runs, and is not ready yet"}
    return said | {"reason": MISSING, "message": "no pod of this name is there"}
