"""What a drain waits for before its zone is opened, and what closes it again. Pure.

The gates are those of the roll, asked as if all bookies of the zone were one unit that goes away.
Nothing is asked of the zone itself: the drain may have taken some of its bookies already, so it may
have losses, and may be held because of them. What is not known does not hold.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.roll import gating
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.roll.gating import RollGround
from zonekeeper.operator.roll.order import Step
from zonekeeper.operator.roll.rolling import RollProgress
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import Policy

#: They are about the roll itself.
_OF_ROLL: Final = (RollGate.PAUSED, RollGate.BAKING, RollGate.IMAGE_NOT_VETTED)


def waits(
    desired: Desired, observed: Observed, roll: RollProgress, zone: ZoneName
) -> Iterator[str]:
    """Give everything that the opening of this zone waits for; nothing: it may be opened."""
    if roll.moves or roll.notes.step is not None:
        yield "a step of the roll is under way"
    least = desired.policy.placement.min_zones
    left = len(_serving(desired, observed) - {zone})
    if left < least:
        yield f"spec.policy.placement.minZones is {least}, and {left} others would be left"
    unit = Location(zone, UpgradeDomain("all"))
    ground = RollGround(desired=desired, observed=_as_one_unit(observed, unit), sets=roll.sets)
    bookies = tuple(bookie for bookie, one, _ in ground.bookies if one.zone == zone)
    for one in gating.waits(ground, Step(unit=unit, bookies=bookies)):
        if one.gate not in _OF_ROLL:
            yield f"{one.gate}: {one.what}; {one.runbook}"


def _serving(desired: Desired, observed: Observed) -> frozenset[ZoneName]:
    """Give the zones for which ledgers are placed, and will be: asked for, and named already."""
    asked = frozenset(one.name for one in desired.zones)
    root = observed.root
    if not isinstance(root, RootFound) or root.policy is None:
        return asked  # a gate waits for it
    return asked & frozenset(root.policy.placement.zones)


def _as_one_unit(observed: Observed, unit: Location) -> Observed:
    """Give what was seen, as if the zone were one unit, and none that the policy names."""
    root = observed.root
    if not isinstance(root, RootFound) or root.policy is None:
        return observed
    locations = {
        bookie: unit if at is not None and at.zone == unit.zone else at
        for bookie, at in root.locations.items()
    }
    found = replace(root, locations=locations, policy=_without(root.policy, unit.zone))
    return replace(observed, root=found)


def _without(policy: Policy, zone: ZoneName) -> Policy:
    zones = tuple(one for one in policy.placement.zones if one != zone)
    return replace(policy, placement=replace(policy.placement, zones=zones))


def closes(desired: Desired, observed: Observed, roll: RollProgress, zone: ZoneName) -> str | None:
    """Say why a zone that is open is closed although it is asked for; None: it may stay open.

    While the zone is drained, most gates cannot hold. It stays open as long as all other bookies
    are known to serve.
    """
    root = observed.root
    if not isinstance(root, RootFound):
        return "the metadata store was not read"
    missing = _missing(desired, observed, roll)
    if other := [bookie for bookie, its_zone in missing.items() if its_zone != zone]:
        return f"bookies of other zones do not serve: {naming.some(other)}"
    return None


def _missing(desired: Desired, observed: Observed, roll: RollProgress) -> dict[BookieId, ZoneName]:
    """Give the zone of each bookie that is asked for and does not serve, or is not known to."""
    root, found = observed.root, dict[BookieId, ZoneName]()
    ground = RollGround(desired=desired, observed=observed, sets=roll.sets)
    for bookie, its_set, pod in ground.bookies:
        is_seen = isinstance(root, RootFound) and bookie in root.registered
        if pod is None or not pod.ready or pod.leaving or not is_seen:
            found[bookie] = its_set.zone
    return found


def is_asked_for(desired: Desired, observed: Observed, roll: RollProgress, zone: ZoneName) -> bool:
    """Does something of an open zone still miss, or are copies of it still made?"""
    if zone in _missing(desired, observed, roll).values():
        return True
    root = observed.root
    return isinstance(root, RootFound) and (root.work is None or bool(root.work.marked))
