"""Outages: what placement can still build while a bookie, an upgrade domain or zones are lost.

``survivability`` says what the copies that are left are good for. This module asks whether the
bookies that are left have room for the lost copies. A writer replaces the lost members of its
ensemble. A new ledger needs a whole new ensemble. Both are asked of the selector itself, for every
loss that can affect the ensemble, and the answer is the worst case. A bookie whose location is
unresolved counts as lost with every zone and every upgrade domain.

Levels do not depend on names or weights. So two losses are alike if they leave as many bookies, in
zones and upgrade domains that hold the same members. Only one of several alike losses is tried.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.ensembles.failures import Constraint, NotEnoughBookies
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.promises.survivability import LossKind


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageOutcome:
    """Can the ensemble be built, and how good is it?"""

    holds: Holds
    #: The level of the ensemble; None if it cannot be built.
    level: Level | None
    #: What prevents the ensemble, or the first reason why its level is not STRICT.
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    """One kind of loss, and what can be built while it lasts."""

    loss: LossKind
    #: The ensemble with new members for those that are lost.
    changed: OutageOutcome
    #: An ensemble for a new ledger.
    new: OutageOutcome


@dataclass(frozen=True, slots=True)
class _Lost:
    """The bookies that one loss takes: whole places, and one bookie."""

    places: frozenset[Location | None]
    bookie: Bookie | None = None

    def takes(self, bookie: Bookie) -> bool:
        return bookie.location in self.places or bookie == self.bookie


def of_ensemble(
    quorums: Quorums,
    rules: PlacementRules,
    topology: Topology,
    ensemble: Sequence[BookieId],
    chance: Chance,
) -> tuple[Rebuilding, ...]:
    """Judge one ensemble and the bookies that it was chosen from; one entry a kind of loss.

    Raises ``IllegalPlacement`` as the selector does.
    """
    request = EnsembleRequest(topology=topology, quorums=quorums, rules=rules)
    members = []
    for bookie_id in ensemble:
        bookie = topology.get(bookie_id)
        assert bookie is not None, f"{bookie_id} is not in the topology"
        members.append(bookie)
    return tuple(_rebuilding(request, members, loss, chance) for loss in LossKind)


def _rebuilding(
    request: EnsembleRequest, members: Sequence[Bookie], loss: LossKind, chance: Chance
) -> Rebuilding:
    at = [bookie.location for bookie in members]
    ensemble = [bookie.id for bookie in members]
    free = Counter(bookie.location for bookie in request.topology if bookie.accepts_ensembles)
    changed: dict[object, OutageOutcome] = {}
    new: dict[object, OutageOutcome] = {}
    for lost in _losses(request.topology, members, loss):
        positions = [place for place, bookie in enumerate(members) if lost.takes(bookie)]
        left = _left(free, lost)
        alike, alike_with_members = _shape(left, []), (tuple(positions), _shape(left, at))
        if alike in new and (not positions or alike_with_members in changed):
            continue
        after = _without(request, lost)
        if positions and alike_with_members not in changed:
            changed[alike_with_members] = _attempt(after, ensemble, positions, chance)
        if alike not in new:
            new[alike] = _attempt(after, ensemble, [], chance)
    return Rebuilding(loss=loss, changed=_worst(changed), new=_worst(new))


def _losses(topology: Topology, members: Sequence[Bookie], loss: LossKind) -> Iterator[_Lost]:
    """Give every loss of a kind; of the bookies in a place, each member and one that could join."""
    places = {bookie.location for bookie in topology}
    singles = {bookie.location: bookie for bookie in topology if bookie.accepts_ensembles}
    ones = sorted({*members, *singles.values()}, key=lambda bookie: bookie.id)
    if loss is LossKind.BOOKIE:
        yield from (_Lost(frozenset(), one) for one in ones)
    elif loss is LossKind.UPGRADE_DOMAIN:
        yield from (_Lost(frozenset({place, None})) for place in sorted(places - {None}, key=str))
    else:
        for zone in topology.zones:
            gone = frozenset(place for place in places if place is None or place.zone == zone)
            more = [one for one in ones if one.location not in gone]
            if loss is LossKind.ZONE or not more:
                yield _Lost(gone)
            else:
                yield from (_Lost(gone, one) for one in more)


def _left(free: Mapping[Location | None, int], lost: _Lost) -> dict[Location | None, int]:
    """Count the bookies that can join an ensemble after a loss, by place."""
    left = {place: count for place, count in free.items() if place not in lost.places}
    one = lost.bookie
    if one is not None and one.accepts_ensembles:
        left[one.location] -= 1
    return left


def _shape(left: Mapping[Location | None, int], members: Sequence[Location | None]) -> object:
    """Give what makes two losses alike: the units of each zone, by their sizes and members."""
    places = {*left, *members}
    zones: dict[ZoneName | None, list[tuple[int, tuple[int, ...]]]] = {}
    for place in places:
        positions = tuple(index for index, other in enumerate(members) if other == place)
        unit = (left.get(place, 0), positions)
        if any(unit):
            zones.setdefault(place.zone if place else None, []).append(unit)
    nowhere = tuple(zones.pop(None, ()))
    return (nowhere, tuple(sorted(tuple(sorted(units)) for units in zones.values())))


def _without(request: EnsembleRequest, lost: _Lost) -> EnsembleRequest:
    absent = [
        replace(bookie, registration=Registration.ABSENT)
        for bookie in request.topology
        if lost.takes(bookie)
    ]
    return replace(request, topology=request.topology.updated(put=absent))


def _attempt(
    request: EnsembleRequest, ensemble: Sequence[BookieId], positions: Sequence[int], chance: Chance
) -> OutageOutcome:
    """Replace these members, or build a new ensemble if there are none to replace."""
    try:
        if positions:
            choice = selector.replace(request, ensemble, positions, chance)
        else:
            choice = selector.choose(request, chance)
    except NotEnoughBookies as failure:
        cut = failure.constraint is Constraint.SEARCH_BOUND
        return OutageOutcome(holds=Holds.PERHAPS if cut else Holds.NO, level=None, why=str(failure))
    judgement = choice.judgement
    why = judgement.reasons[0] if judgement.reasons else "all the zones that are desired"
    return OutageOutcome(holds=Holds.YES, level=judgement.level, why=why)


def _worst(outcomes: Mapping[object, OutageOutcome]) -> OutageOutcome:
    return min(outcomes.values(), key=lambda outcome: (outcome.holds, outcome.level or 0))
