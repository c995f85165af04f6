"""The steps of a roll, in order. Pure.

A step is of one unit, an upgrade domain of a zone. Bookies that are not ready come first: their
pods may be what stands in the way, and to make such a pod anew takes no further bookie away. Those
that are not registered either come before those that still serve. Then comes the canary alone, and
then unit by unit, zone by zone.

A zone where the roll is in its midst comes first, then a zone with bookies that are not ready, then
the zones as the resource names them. So a roll that went to a zone finishes it.

The steps follow from what is there. A bookie that runs what is asked for is in no step, unless its
volume has grown and its file system waits for the pod to be made anew. A pod that
is missing or leaves is in none either: Kubernetes makes it anew from the template that stands.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import ZONE_LABEL, Json
from zonekeeper.operator.roll import templates
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.placement.base import units, upgrade_domains
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin

#: For so long the kubelet may let a file system grow by itself.
RESIZE_PATIENCE_MS: Final = 2 * units.MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSet:
    """A zone's StatefulSet: as it is asked for, and as it stands."""

    zone: ZoneName
    made: Json
    #: None: it is missing, or is being made again as it stood.
    found: Json | None
    pods: tuple[Pod, ...]
    #: The template that is asked for stands.
    is_reached: bool
    #: The revision of the template that stands; None: it is not known.
    revision: str | None
    #: The bookies whose file systems grow only when their pods start anew.
    unresized: frozenset[BookieId] = frozenset()

    @property
    def is_known(self) -> bool:
        """Is it known which pods run the template that is asked for?"""
        return self.found is None or not self.is_reached or self.revision is not None

    def is_old(self, pod: Pod) -> bool:
        """Does a pod run another template than the one that is asked for, as far as is known?"""
        if not self.is_reached:
            return True
        return self.revision is not None and pod.revision != self.revision

    @property
    def old(self) -> tuple[Pod, ...]:
        """The pods that a step is to make anew."""
        return tuple(
            pod
            for pod in self.pods
            if (self.is_old(pod) or pod.name in self.unresized) and not pod.leaving
        )

    @property
    def is_begun(self) -> bool:
        """Is the roll in the midst of this zone?"""
        return self.is_reached and bool(self.old)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Bookies of one unit whose pods are made anew together."""

    unit: Location
    bookies: tuple[BookieId, ...]
    #: It is the first bookie of the roll, alone.
    canary: bool = False
    #: None of them is ready, so nothing that works is taken away...
    unready: bool = False
    #: ... and none of them is registered, so nothing is taken away at all.
    away: bool = False

    def __str__(self) -> str:
        words = ["the canary"] if self.canary else ["not ready"] if self.unready else []
        return f"{self.unit}: {', '.join([*self.bookies, *words])}"


def zone_sets(desired: Desired, observed: Observed) -> tuple[ZoneSet, ...]:
    """Give the StatefulSet of each zone, in the order of the resource."""
    made = {
        ZoneName(body["metadata"]["labels"][ZONE_LABEL]): body
        for body in owned_objects.stateful_sets(desired, observed.resource)
    }
    standing = observed.sets
    return tuple(
        _zone_set(zone, body, standing.get(body["metadata"]["name"]), observed)
        for zone, body in made.items()
    )


def _zone_set(zone: ZoneName, body: Json, found: Json | None, observed: Observed) -> ZoneSet:
    again = (one.body for one in observed.kept_sets if one.set_name == body["metadata"]["name"])
    stands = next(again, None) if found is None else found
    made = templates.asked_for(body, stands)
    pods = tuple(pod for pod in observed.pods if pod.zone == zone)
    return ZoneSet(
        zone=zone,
        made=made,
        found=found,
        pods=pods,
        is_reached=stands is not None and templates.stands(made, stands),
        revision=None if found is None else templates.revision(found),
        unresized=frozenset(pod.name for pod in pods if _is_unresized(pod, observed)),
    )


def _is_unresized(pod: Pod, observed: Observed) -> bool:
    """Does a volume wait for this pod to be made anew? A pod that was made after that is not it.

    Most drivers let a file system grow under a running pod, and the kubelet just needs a while.
    """
    if not pod.made_ms:
        return False
    claims = (observed.claims.get(name) for name in owned_objects.claim_names(pod.name))
    return any(
        claim is not None
        and claim.pending_ms is not None
        and pod.made_ms <= claim.pending_ms <= observed.wall_ms - RESIZE_PATIENCE_MS
        for claim in claims
    )


def remaining(
    desired: Desired,
    observed: Observed,
    *,
    has_canary: bool = True,
    sets: tuple[ZoneSet, ...] | None = None,
) -> tuple[Step, ...]:
    """Give the steps that are left, in order; ``has_canary``: the first bookie goes alone.

    ``sets``: what ``zone_sets`` gives, where it is known.
    """
    sets = zone_sets(desired, observed) if sets is None else sets
    inner = {zone.zone: number for number, zone in enumerate(sets)}
    ordered = sorted(sets, key=lambda zone: (not zone.is_begun, _is_well(zone), inner[zone.zone]))
    domains = RoundRobin(upgrade_domains=desired.policy.placement.upgrade_domains)
    old = [pod for zone in ordered for pod in zone.old]
    zones = [zone.zone for zone in ordered]
    serving = registered(observed)
    unready = [pod for pod in old if not pod.ready]
    away = _steps(zones, [pod for pod in unready if pod.name not in serving], domains)
    slow = _steps(zones, [pod for pod in unready if pod.name in serving], domains)
    ready = _roll(zones, [pod for pod in old if pod.ready], domains)
    if not has_canary and ready and ready[0].canary:
        ready = _without_canary(ready)
    return (
        *(Step(unit=unit, bookies=names, unready=True, away=True) for unit, names in away),
        *(Step(unit=unit, bookies=names, unready=True) for unit, names in slow),
        *ready,
    )


def registered(observed: Observed) -> frozenset[BookieId]:
    """Give the bookies that serve; where the root was not read, every bookie may serve."""
    if isinstance(observed.root, roots.RootFound):
        return observed.root.registered
    return frozenset(pod.name for pod in observed.pods)


def unit_of(bookie: BookieId, zone: ZoneName, domains: RoundRobin) -> Location:
    """Give the unit of a bookie, by its pod's name."""
    return Location(zone, upgrade_domains.of_ordinal(upgrade_domains.ordinal_of(bookie), domains))


def are_deployments_free(sets: Iterable[ZoneSet], observed: Observed) -> bool:
    """May the Deployments get the template that is asked for?

    They come last. But where no autorecovery process is ready, there is nothing to keep, and the
    roll may wait for the new ones.
    """
    if not any(pod.ready for pod in observed.repairers):
        return True
    return not is_pending(sets)


def brought(sets: Iterable[ZoneSet]) -> str:
    """Name what the roll brings to all zones: the same templates have the same name again."""
    return owned_objects.template_hash({zone.zone: zone.made["spec"]["template"] for zone in sets})


def is_pending(sets: Iterable[ZoneSet]) -> bool:
    """Is there a pod of a bookie that does not run what is asked for, or may be?"""
    return any(zone.old or not zone.is_known for zone in sets)


def _is_well(zone: ZoneSet) -> bool:
    return all(pod.ready for pod in zone.old)


def _steps(
    zones: list[ZoneName], pods: Iterable[Pod], domains: RoundRobin
) -> Iterator[tuple[Location, tuple[BookieId, ...]]]:
    """Give units and their bookies in order; no bookie goes alone."""
    yield from (
        (step.unit, step.bookies) for step in _without_canary(_roll(zones, list(pods), domains))
    )


def _roll(zones: list[ZoneName], pods: list[Pod], domains: RoundRobin) -> list[Step]:
    placed = [(pod.name, unit_of(pod.name, pod.zone, domains)) for pod in pods]
    return [
        Step(unit=step.unit, bookies=step.bookies, canary=step.canary)
        for step in upgrade_domains.roll(zones, placed).steps
    ]


def _without_canary(steps: list[Step]) -> list[Step]:
    """Put the canary into the step of its unit."""
    if not steps or not steps[0].canary:
        return steps
    first, rest = steps[0], steps[1:]
    same = rest[:1] if rest and rest[0].unit == first.unit else []
    bookies = (*first.bookies, *(name for step in same for name in step.bookies))
    return [Step(unit=first.unit, bookies=bookies), *rest[len(same) :]]
