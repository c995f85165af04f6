"""A zone whose nodes are cordoned is opened to a drain, and no second one is. Pure.

At rest one budget, the common one, lets one bookie of all be evicted. An open zone has no budget,
so its bookies go in parallel; each other zone has one of its own that allows nothing. The API
server keeps that up while no operator runs. At no moment may bookies of two zones be evicted,
whatever call of the operator was the last one:

1. Opening: each other zone gets its budget, then the common one goes. Until then the pods of those
   zones have two budgets, and the Eviction API refuses such a pod. A new budget refuses until
   Kubernetes has counted its pods.
2. Closing is the reverse: the common budget comes back first, then the others go.
3. Nothing goes on the word of an old look. Just before, each budget that must stand is written
   again at the very version that was seen; if it is another by now, the turn ends there.

The common budget is made in any other case in which it is missing. Closing is safe at any time:
with a bookie away the common budget allows no further one to go. So a zone closes where anything is
in doubt, and an open one stays open only while it has a cordoned node, a bookie that is away, or
while a ledger is marked. A cluster of one zone has only the common budget.

A zone is each that is asked for, that has a pod, or whose StatefulSet stands: it may get pods at
any time. A budget that is deleted, and kept by a finalizer, is in force. Nothing is built on it, it
is not written again, and it is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from zonekeeper.operator.cluster import drift, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import BUDGETS, ZONE_LABEL, Json
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.draining import drain_gates
from zonekeeper.operator.plan.plans import Action, Apply, RemoveObject
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.roll.rolling import RollProgress
from zonekeeper.operator.sight import budget_sight
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import ZoneName


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainProgress:
    """What one turn decides about evictions."""

    #: The zone that is open now; None: none is.
    open: ZoneName | None = None
    #: The zone that shall be open.
    target: ZoneName | None = None
    #: The cordoned zones that are opened to their drains, one after another; also the open one.
    asked: tuple[ZoneName, ...] = ()
    #: The cordoned zones that are not opened, and why.
    waits: dict[ZoneName, str] = field(default_factory=dict)
    #: The budgets that are deleted, and that finalizers keep.
    kept: tuple[str, ...] = ()
    #: The writes of this turn, in order.
    acts: tuple[Action, ...] = ()


def actions(case: Case) -> tuple[Action, ...]:
    """Give the writes that are due, for a cluster that was built."""
    progress = decide(case)
    return () if progress is None else progress.acts


def decide(case: Case) -> DrainProgress | None:
    """Decide which zone is open; None: there is no cluster that can be built."""
    if case.buildable is None or case.roll is None or ownership.instance(case.observed) is None:
        return None
    return _Draining(case.buildable, case.observed, case.roll).decide()


class _Draining:
    """One decision; it is thrown away afterwards."""

    def __init__(self, desired: Desired, observed: Observed, roll: RollProgress) -> None:
        self._desired = desired
        self._observed = observed
        self._roll = roll
        self._common = owned_objects.budget(desired, observed.resource)
        named = [zone.name for zone in desired.zones]
        stand = {pod.zone for pod in observed.pods} | set(_zones_of_sets(observed))
        #: Every zone that has bookies or may get some, also one that is not asked for any more.
        self._zones = (*named, *sorted(stand - {*named}))
        #: Are zones opened at all?
        self._is_opening = not desired.drains_paused and len(self._zones) > 1
        #: The zones that drains ask for.
        self._asked = budget_sight.cordoned(observed) if self._is_opening else frozenset()
        self._closed = [zone for zone in self._zones if self._holds(self._closing(zone))]
        self._is_common = self._holds(self._common)

    def decide(self) -> DrainProgress:
        opened = self._opened()
        target, waits = self._target(opened)
        return DrainProgress(
            open=opened,
            target=target,
            asked=tuple(one for one in self._zones if one in self._asked),
            waits=waits,
            kept=tuple(
                name
                for name, found in sorted(self._observed.budgets.items())
                if found["metadata"].get("deletionTimestamp")
            ),
            acts=tuple(self._acts(opened, target)),
        )

    def _opened(self) -> ZoneName | None:
        """Give the one zone without a budget, where there is no common one."""
        if self._common["metadata"]["name"] in self._observed.budgets:
            return None
        bare = [zone for zone in self._zones if zone not in self._closed]
        return bare[0] if len(bare) == 1 < len(self._zones) else None

    def _target(self, opened: ZoneName | None) -> tuple[ZoneName | None, dict[ZoneName, str]]:
        """Give the zone that shall be open, and why the other cordoned ones are not."""
        asked, waits = self._asked, dict[ZoneName, str]()
        if not self._is_opening:
            return None, waits
        seen = (self._desired, self._observed, self._roll)
        if opened is not None and (opened in asked or drain_gates.is_asked_for(*seen, opened)):
            why = drain_gates.closes(*seen, opened)
            waits |= dict.fromkeys(asked - {opened}, f"zone {opened} is open")
            if why is None:
                return opened, waits
            return None, waits | {opened: why}
        for zone in (one for one in self._zones if one in asked):
            found = "; ".join((*self._of_others(zone), *drain_gates.waits(*seen, zone)))
            if not found:
                later = asked - {zone, *waits}
                return zone, waits | dict.fromkeys(later, f"zone {zone} is opened first")
            waits[zone] = found
        return None, waits

    def _of_others(self, zone: ZoneName) -> Iterator[str]:
        """Find budgets of somebody else that have the names of those that would be made."""
        observed = self._observed
        for other in (one for one in self._zones if one != zone):
            name = self._closing(other)["metadata"]["name"]
            is_there = (BUDGETS.plural, name) in observed.owned or name in observed.foreign_budgets
            if is_there and name not in observed.budgets:
                yield f"PodDisruptionBudget {name} is there already, and is somebody else's"

    def _acts(self, opened: ZoneName | None, target: ZoneName | None) -> Iterator[Action]:
        if not self._is_common:
            if (target is None or opened != target) and not self._is_going(self._common):
                yield Apply(kind=BUDGETS, body=self._common)
            return
        closed = budget_sight.closed(self._observed)
        others = [zone for zone in self._zones if zone != target]
        assert target not in closed, "a gate waits for the end of another drain"
        if target is None:
            yield from self._back(closed)
        elif lacking := [zone for zone in others if zone not in self._closed]:
            for zone in lacking:
                if not self._is_going(self._closing(zone)):
                    yield Apply(kind=BUDGETS, body=self._closing(zone))
        else:
            for zone in others:
                yield self._as_seen(self._closing(zone))
            yield self._removal(self._common)

    def _back(self, closed: frozenset[ZoneName]) -> Iterator[Action]:
        """Take the budgets of zones away; the common one must stand as it was seen."""
        going = [zone for zone in sorted(closed) if not self._is_going(self._closing(zone))]
        if going:
            yield self._as_seen(self._common)
        for zone in going:
            yield self._removal(self._closing(zone))

    def _closing(self, zone: ZoneName) -> Json:
        return owned_objects.closing_budget(self._desired, self._observed.resource, zone)

    def _found(self, body: Json) -> Json | None:
        return self._observed.budgets.get(body["metadata"]["name"])

    def _is_going(self, body: Json) -> bool:
        """Is this budget deleted, and only kept by a finalizer? It is in force for as long."""
        found = self._found(body)
        return found is not None and bool(found["metadata"].get("deletionTimestamp"))

    def _holds(self, body: Json) -> bool:
        """Does this budget stand as it shall, and is it not about to go?"""
        found = self._found(body)
        return found is not None and not self._is_going(body) and drift.holds(body, found)

    def _as_seen(self, body: Json) -> Apply:
        """Write a budget again, if it is at the version that was seen; nothing of it changes."""
        found = self._found(body)
        assert found is not None, "it holds"
        seen = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
        return Apply(kind=BUDGETS, body={**body, "metadata": body["metadata"] | seen})

    def _removal(self, body: Json) -> RemoveObject:
        found = self._found(body)
        assert found is not None, "it stands"
        name = body["metadata"]["name"]
        return RemoveObject(kind=BUDGETS, name=name, uid=found["metadata"]["uid"])


def _zones_of_sets(observed: Observed) -> Iterator[ZoneName]:
    for item in observed.sets.values():
        if (zone := item["metadata"].get("labels", {}).get(ZONE_LABEL)) is not None:
            yield ZoneName(zone)
