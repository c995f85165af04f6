"""The selector: it chooses the bookies that hold a ledger's entries.

``choose`` builds a new ensemble. ``replace`` gives new members to some positions of an ensemble, to
all of them at once. The policy says what is required, and the checker must accept the result before
it is returned; this module only searches.

Under strict placement the result is never worse than SOFT. A result is found whenever one exists
(the search is exact; ``search`` says how its work is bounded). These are its properties, the most
important first:

1. It has as few newcomers in avoided zones as possible, and then as few quarantined newcomers. An
   avoided zone is a zone that is down: it is used only if no legal ensemble exists without it. So
   SOFT without that zone is preferred to STRICT with it: a copy in a zone that is down does not
   spread an entry, it is lost or slow.
2. It has the best adherence level: STRICT, then SOFT.
3. It has as few clashes as possible, as far as a smaller bound on the search shows. (A clash is a
   member of a write set in an upgrade domain that the write set uses already.)
4. It is spread evenly, by free space: chance decides between equally good choices.

A member that stays is judged by its place, whether it is up or not. So after the loss of a zone the
caller must name *all* positions of that zone in one call. Otherwise the dead bookies at the other
positions would still count for diversity.

Without strict placement the selector tries the same first. If that fails it drops the rules one by
one: upgrade domains, then zones one at a time, then the need for a known location. The judgement
says what is lost. So there is an ensemble as long as there are enough bookies.

Not promised: that newcomers are alive (a topology is a view), and that a SOFT ensemble becomes
STRICT when zones return (``adhere`` plans that).
"""

import dataclasses
import enum
import functools
from collections.abc import Collection, Sequence
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.candidates import Candidates, EnsembleRequest
from zonekeeper.placement.ensembles.failures import IllegalPlacement
from zonekeeper.placement.ensembles.search import Filling, Goal, Search
from zonekeeper.placement.ensembles.shortage import explain
from zonekeeper.placement.policy import legality
from zonekeeper.placement.policy.rules import PlacementRules

#: Steps that may be spent on a cheaper ensemble, and as many again on one with fewer clashes.
REFINE_STEPS_MAX: Final = 1_000


class Concession(enum.Enum):
    """A rule or wish that was given up, or a level that was not proven."""

    QUARANTINED_MEMBER = "a quarantined bookie is a member"
    AVOIDED_ZONE = "a new member stands in a zone that was to be avoided"
    LEVEL_NOT_PROVEN = "the search ended at its bound: a better level may exist"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An ensemble, how good it is, and what it took."""

    ensemble: tuple[BookieId, ...]
    judgement: adherence.Adherence
    concessions: frozenset[Concession]
    #: The number of units and bookies that were looked at.
    touched: int


def choose(request: EnsembleRequest, chance: Chance) -> Choice:
    """Build a new ensemble; raises ``IllegalPlacement`` and ``NotEnoughBookies``."""
    return _complete(request, [None] * request.quorums.ensemble, frozenset(), chance)


def replace(
    request: EnsembleRequest,
    ensemble: Sequence[BookieId],
    positions: Collection[int],
    chance: Chance,
) -> Choice:
    """Give new members to all of these positions at once; all other members stay.

    A present member never becomes a newcomer, not even one that leaves. Under strict placement the
    quorums must be legal, and the members that stay must be able to belong to a legal ensemble.
    Otherwise, as for a ledger that was created without strict placement, ``IllegalPlacement`` or
    ``NotEnoughBookies`` is raised. A caller that must restore copies all the same asks again with
    ``strict=False``.
    """
    assert len(ensemble) == request.quorums.ensemble, "the ensemble is of other quorums"
    assert len(set(ensemble)) == len(ensemble), "an ensemble names a bookie once"
    assert positions, "nothing to replace"
    assert all(0 <= position < len(ensemble) for position in positions), "no such position"
    kept = [None if at in positions else bookie for at, bookie in enumerate(ensemble)]
    leaving = frozenset(ensemble[position] for position in positions)
    return _complete(request, kept, leaving, chance)


def _complete(
    request: EnsembleRequest,
    kept: Sequence[BookieId | None],
    leaving: frozenset[BookieId],
    chance: Chance,
) -> Choice:
    refusals = _refusals(request.quorums, request.rules)
    if refusals:
        raise IllegalPlacement(refusals)
    candidates = Candidates(request, kept, leaving)
    search = Search(candidates.board, chance)
    filling = _legal(request, candidates, search, chance)
    if filling is None and not request.rules.strict:
        filling = _relaxed(request, candidates, search)
    if filling is None:
        raise explain(request, candidates, search, chance)
    drawn = candidates.draw(filling, kept, chance)
    judgement = adherence.judge(drawn.ensemble, request.quorums, request.rules, request.topology)
    if request.rules.strict:
        assert judgement.level is not adherence.Level.FAIL, f"the checker refuses: {judgement}"
    concessions = {
        Concession.QUARANTINED_MEMBER: drawn.quarantined > 0,
        Concession.AVOIDED_ZONE: drawn.in_avoided_zones > 0,
        Concession.LEVEL_NOT_PROVEN: search.cut and judgement.level != adherence.Level.STRICT,
    }
    return Choice(
        ensemble=drawn.ensemble,
        judgement=judgement,
        concessions=frozenset(made for made, holds in concessions.items() if holds),
        touched=drawn.touched,
    )


@functools.lru_cache(maxsize=256)
def _refusals(quorums: Quorums, rules: PlacementRules) -> tuple[legality.BrokenRule, ...]:
    return legality.judge(quorums, rules).refusals


def _legal(
    request: EnsembleRequest, candidates: Candidates, search: Search, chance: Chance
) -> Filling | None:
    """Find the best filling that keeps the rules; None if there is none."""
    least, desired = request.zones_required, request.zones_desired
    for zones in dict.fromkeys((desired, least)):
        goal = Goal(zones=zones, cost_max=0)
        filling = search.find(goal)
        if filling is not None:
            return _polished(filling, goal, candidates, chance)
    goal = Goal(zones=least, cost_max=candidates.placed_cost_max)
    filling = search.find(goal) if candidates.priced else None
    if filling is None:
        return None
    filling = _cheaper(filling, goal, candidates, chance)
    goal = Goal(zones=desired, cost_max=filling.cost)
    better = search.find(goal)
    if better is not None:
        return _polished(better, goal, candidates, chance)
    return _polished(filling, dataclasses.replace(goal, zones=least), candidates, chance)


def _cheaper(filling: Filling, goal: Goal, candidates: Candidates, chance: Chance) -> Filling:
    """Reduce the cost of the newcomers, within a bound."""
    search = Search(candidates.board, chance, REFINE_STEPS_MAX)
    while filling.cost:
        found = search.find(dataclasses.replace(goal, cost_max=filling.cost - 1))
        if found is None:
            break
        filling = found
    return filling


def _polished(filling: Filling, goal: Goal, candidates: Candidates, chance: Chance) -> Filling:
    """Reduce clashes of upgrade domains, within a bound, at the same cost and level."""
    if not filling.clashes:
        return filling
    board = candidates.board
    in_use = {number for number, unit in enumerate(board.units) if unit.fresh or unit.reserve}
    in_use.update(number for number in board.taken if number is not None)
    unavoidable = max(0, board.write - len(in_use))
    write_sets = 1 if len(board.taken) == board.write else len(board.taken)
    search = Search(board, chance, REFINE_STEPS_MAX)
    while filling.clashes > unavoidable * write_sets:
        better = search.find(dataclasses.replace(goal, clashes_max=filling.clashes - 1))
        if better is None:
            break
        filling = better
    return filling


def _relaxed(request: EnsembleRequest, candidates: Candidates, search: Search) -> Filling | None:
    """Drop one rule after the other until a filling is found; None if there are too few bookies."""
    goals = [
        Goal(zones=zones, legal=False, cost_max=candidates.placed_cost_max)
        for zones in range(request.zones_desired, -1, -1)
    ]
    goals.append(Goal(zones=0, legal=False))
    return next((found for goal in goals if (found := search.find(goal)) is not None), None)
