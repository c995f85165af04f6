"""May a zone be taken away for a drill? Pure.

Two answers beside yes. What a person must change, or must wait out, refuses the drill. What passes
by itself within seconds, such as the listing of the ledgers, is waited for. The gates are those of
the roll, asked for all bookies of the zone together. What is not known does not hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import owned_objects, sizing
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import BUDGETS
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.roll import gating
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.roll.gating import RollGround
from zonekeeper.operator.roll.order import Step, ZoneSet
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import probe_pod
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base import misnamed, units
from zonekeeper.placement.base.ids import BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import OnZoneLoss, Policy

#: Beyond the time that the zone is away, its bookies have this time to start.
RETURN_MS_MAX: Final = 10 * units.MINUTE_MS
#: They pass by themselves: an evaluation comes, the ledgers are read, the store answers.
_PASSING: Final = frozenset({RollGate.NOT_EVALUATED, RollGate.METADATA_UNREACHABLE})

#: An operator that has just started has seen no evaluation; an act that failed is done again.
_PASSING_WAITS: Final = frozenset({Predicate.NOT_WATCHED, Predicate.FAILED, Predicate.UNREACHABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillHindrances:
    """What is in the way of a drill."""

    #: Each with what to do; empty: nothing refuses it.
    refused: tuple[str, ...] = ()
    #: What passes by itself.
    passing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedDrill:
    """What is asked for."""

    zone: ZoneName
    for_ms: int
    #: The Secret that the probe shows; None: that of the client ``drill``.
    secret: str | None


def ask(
    desired: Desired, observed: Observed, sets: tuple[ZoneSet, ...], asked: AskedDrill
) -> DrillHindrances:
    """Give everything that is in the way of taking this zone away for so long."""
    zone, for_ms = asked.zone, asked.for_ms
    found = next((one for one in sets if one.zone == zone), None)
    if found is None:
        known = [one.zone for one in sets]
        return DrillHindrances(refused=(misnamed.there_is_no("zone", zone, known),))
    if found.found is None:
        return DrillHindrances(refused=(f"zone {zone} has no StatefulSet",))
    root = observed.root
    if not isinstance(root, RootFound) or root.work is None or root.policy is None:
        return DrillHindrances(passing=("the metadata store was not read for it yet",))
    refused = [*_of_shape(desired, observed, found, for_ms), *_of_orders(root)]
    if (lack := probe_pod.lacks(desired, asked.secret)) is not None:
        refused.append(lack)
    passing = list[str]()
    ground = RollGround(desired=desired, observed=observed, sets=sets)
    for one in gating.waits(ground, _step(found, root)):
        if one.gate is RollGate.LEDGER_AT_RISK:
            continue
        told = f"{one.gate}: {one.what}; {one.runbook}"
        (passing if one.gate in _PASSING else refused).append(told)
    if observed.ledgers is None:
        passing.append("the ledgers are being read")
    else:
        refused += _at_risk(observed, root, zone)
    return DrillHindrances(refused=tuple(refused), passing=tuple(passing))


def busy(waiting: Waiting) -> DrillHindrances:
    """Say what a wait of the cluster is for a drill."""
    told = (f"{waiting.predicate}: {waiting.why}; {waiting.predicate.runbook}",)
    is_passing = waiting.predicate in _PASSING_WAITS
    return DrillHindrances(passing=told) if is_passing else DrillHindrances(refused=told)


def bookies_of(found: ZoneSet) -> tuple[BookieId, ...]:
    """Name the bookies of a zone's StatefulSet."""
    assert found.found is not None, "it stands"
    name, count = found.found["metadata"]["name"], int(found.found["spec"]["replicas"])
    return tuple(BookieId(f"{name}-{ordinal}") for ordinal in range(count))


def _step(found: ZoneSet, root: RootFound) -> Step:
    """Give a step of the zone. It names no bookie, so each must be there, those of the zone too."""
    places = (root.locations.get(one) for one in bookies_of(found))
    unit = next((one for one in places if one is not None), None)
    return Step(unit=unit or Location(found.zone, UpgradeDomain("")), bookies=())


def _of_shape(desired: Desired, observed: Observed, found: ZoneSet, for_ms: int) -> Iterator[str]:
    policy = desired.policy
    assert found.found is not None, "it stands"
    count = int(found.found["spec"]["replicas"])
    if count != desired.bookies_per_zone:
        asked = desired.bookies_per_zone
        yield f"zone {found.zone} runs {count} bookies, and {asked} are asked for"
    for what in sizing.losses(policy, desired.bookies_per_zone):
        yield f"writers could not go on: {what}"
    if (why := _repairs_too_soon(policy, for_ms)) is not None:
        yield why
    budget = observed.owned.get((BUDGETS.plural, owned_objects.service_name(desired.name)))
    if budget is None or budget["spec"].get("maxUnavailable") != 1:
        yield "the disruption budget of the bookies is not at rest: see Applied"


def _repairs_too_soon(policy: Policy, for_ms: int) -> str | None:
    """A zone that is only away for a drill must not be copied."""
    rules, most_ms = policy.repair, for_ms + RETURN_MS_MAX
    if rules.on_zone_loss is OnZoneLoss.REPAIR_AFTER and rules.after_ms <= most_ms:
        return (
            f"policy.repair.after is {units.duration_text(rules.after_ms)}, and the zone may be "
            f"away for {units.duration_text(most_ms)}: its copies would be made elsewhere; ask "
            "for less time"
        )
    return None


def _of_orders(root: RootFound) -> Iterator[str]:
    if root.orders:
        yield f"orders about bookies stand, for example about {min(root.orders)}: end them first"


def _at_risk(observed: Observed, root: RootFound, zone: ZoneName) -> Iterator[str]:
    """Ask the ledgers: would acknowledged entries of one not be readable for certain?"""
    assert observed.ledgers is not None, "they are read"
    there = {one: at for one, at in root.locations.items() if at is not None and at.zone == zone}
    away = (root.locations.keys() - root.registered) | there.keys()
    worst, first = 0, LedgerId(0)
    for unit in sorted(set(there.values())):
        found = observed.ledgers.kinds.at_risk(unit, root.locations, away)
        if found is not None and found.ledgers > worst:
            worst, first = found.ledgers, found.first
    if worst:
        yield (
            f"at least {worst} ledgers would not be readable or recoverable for certain without "
            f"zone {zone}, the first is {first}: `zonekeeper ledger show {first}`"
        )
