"""What placement can still build while a bookie, an upgrade domain or zones are lost.

``survivability`` says what holds with the copies that are left. This asks the next question: have
the bookies that are left room for what is lost? A writer replaces the lost members of its ensemble;
a new ledger needs an ensemble from nothing. Both are asked of the selector itself, for every loss
that can hit, and the answer is the worst. Losses that leave equal bookies behind are tried once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zonekeeper.placement import ensembles
from zonekeeper.placement.adherence import Level
from zonekeeper.placement.candidates import Request
from zonekeeper.placement.chance import Chance
from zonekeeper.placement.failures import Constraint, NotEnoughBookies
from zonekeeper.placement.ids import BookieId
from zonekeeper.placement.survivability import Holds, Loss
from zonekeeper.placement.topology import Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Can it be built, and how well?"""

    holds: Holds
    #: None unless it can.
    level: Level | None
    #: What is in the way, or the first thing that keeps the level from being STRICT.
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    """One kind of loss, and what can be built while it lasts."""

    loss: Loss
    #: The ensemble with new members for those that are lost.
    changed: Outcome
    #: An ensemble for a new ledger.
    new: Outcome


def of_ensemble(
    request: Request, ensemble: Sequence[BookieId], chance: Chance
) -> tuple[Rebuilding, ...]:
    """Judge one ensemble and the bookies it was chosen from; one entry a kind of loss.

    Raises ``IllegalPlacement`` as the selector does.
    """
    return tuple(_rebuilding(request, ensemble, loss, chance) for loss in Loss)


def _rebuilding(
    request: Request, ensemble: Sequence[BookieId], loss: Loss, chance: Chance
) -> Rebuilding:
    changed, new = [], {}
    for lost in _losses(request, ensemble, loss):
        after = _without(request, lost)
        positions = [place for place, bookie in enumerate(ensemble) if bookie in lost]
        if positions:
            changed.append(_attempt(after, ensemble, positions, chance))
        shape = _shape(after)
        if shape not in new:
            new[shape] = _attempt(after, ensemble, [], chance)
    return Rebuilding(loss=loss, changed=_worst(changed), new=_worst(list(new.values())))


def _losses(
    request: Request, ensemble: Sequence[BookieId], loss: Loss
) -> Iterator[frozenset[BookieId]]:
    """Give every loss of a kind. Of bookies in one place, members count one by one, others once."""
    bookies = list(request.topology)
    members = set(ensemble)
    singles = {
        (bookie.location, bookie.id if bookie.id in members else None): bookie.id
        for bookie in bookies
    }
    if loss is Loss.BOOKIE:
        yield from (frozenset({one}) for one in singles.values())
    elif loss is Loss.UPGRADE_DOMAIN:
        for unit in sorted({bookie.location for bookie in bookies if bookie.location}):
            yield frozenset(bookie.id for bookie in bookies if bookie.location == unit)
    else:
        for zone in request.topology.zones:
            lost = frozenset(b.id for b in bookies if b.location and b.location.zone == zone)
            more = [lost | {one} for one in singles.values() if one not in lost]
            yield from more if loss is Loss.ZONE_AND_BOOKIE and more else [lost]


def _without(request: Request, lost: frozenset[BookieId]) -> Request:
    absent = [
        replace(bookie, registration=Registration.ABSENT)
        for bookie in request.topology
        if bookie.id in lost
    ]
    return replace(request, topology=request.topology.updated(put=absent))


def _shape(request: Request) -> tuple[tuple[int, ...], ...]:
    """Give what makes two sets of bookies equal to the selector: the sizes of units, by zone."""
    free = [bookie for bookie in request.topology if bookie.accepts_ensembles]
    units = Counter(bookie.location for bookie in free)
    zones: dict[str, list[int]] = {}
    for unit, count in units.items():
        zones.setdefault(unit.zone if unit else "", []).append(count)
    unresolved = tuple(zones.pop("", ()))
    return (unresolved, *sorted(tuple(sorted(counts)) for counts in zones.values()))


def _attempt(
    request: Request, ensemble: Sequence[BookieId], positions: Sequence[int], chance: Chance
) -> Outcome:
    """Replace these members, or build anew if there are none to replace."""
    try:
        if positions:
            choice = ensembles.replace(request, ensemble, positions, chance)
        else:
            choice = ensembles.choose(request, chance)
    except NotEnoughBookies as failure:
        cut = failure.constraint is Constraint.SEARCH_BOUND
        return Outcome(holds=Holds.PERHAPS if cut else Holds.NO, level=None, why=str(failure))
    judgement = choice.judgement
    why = judgement.reasons[0] if judgement.reasons else "all the zones that are desired"
    return Outcome(holds=Holds.YES, level=judgement.level, why=why)


def _worst(outcomes: Sequence[Outcome]) -> Outcome:
    return min(outcomes, key=lambda outcome: (outcome.holds, outcome.level or 0))
