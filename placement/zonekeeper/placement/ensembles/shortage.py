"""Why no ensemble was found: the constraint that cannot be met, in words and numbers.

``explain`` drops one constraint after the other until the search finds an ensemble. The constraint
that it dropped last is the one that cannot be met.
"""

from collections import Counter
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.ensembles.candidates import Candidates, EnsembleRequest
from zonekeeper.placement.ensembles.failures import Constraint, NotEnoughBookies
from zonekeeper.placement.ensembles.search import NOWHERE, Board, Goal, Search, Unit
from zonekeeper.placement.policy import unnamed

_STRICT_OFF: Final = "or allow less with placement.strict: false"


def explain(
    request: EnsembleRequest, candidates: Candidates, search: Search, chance: Chance
) -> NotEnoughBookies:
    """Say why the search found no ensemble."""
    board = candidates.board
    wanted = sum(1 for unit in board.taken if unit is None)
    had = sum(unit.fresh + unit.reserve for unit in board.units)
    seen = f"bookies that can be had: {_stock(candidates)}{_unnamed(request)}"
    asked = f"{request.quorums} asks for {request.rules.min_zones} zones in each write set"
    if had < wanted:
        return NotEnoughBookies(
            Constraint.BOOKIES,
            f"{wanted} wanted for {request.quorums}, {had} can be had of {len(request.topology)} "
            f"known; {seen}; bring bookies back, add some, or end quarantines and drains",
        )
    if search.cut:
        return NotEnoughBookies(
            Constraint.SEARCH_BOUND,
            f"no ensemble was found within the bound, though one may exist; {seen}; {asked}; "
            f"add bookies where they are few, {_STRICT_OFF}",
        )
    goal = Goal(zones=request.zones_required)
    if not _possible_with_more(board, goal, chance):
        stay = ", ".join(
            f"{at}: {candidates.locations[unit] or 'unresolved'}"
            for at, unit in enumerate(board.taken)
            if unit is not None
        )
        return NotEnoughBookies(
            Constraint.KEPT_MEMBERS,
            f"with any newcomers the members that stay (positions {stay}) make no legal ensemble; "
            f"{asked}; replace more of them, {_STRICT_OFF}",
        )
    spread = Goal(zones=goal.zones, legal=False, cost_max=candidates.placed_cost_max)
    if Search(board, chance).find(spread) is not None:
        return NotEnoughBookies(
            Constraint.UPGRADE_DOMAINS,
            f"members of a write set that share a zone must use two upgrade domains; {seen}; "
            f"spread the zones' bookies over more upgrade domains, {_STRICT_OFF}",
        )
    return NotEnoughBookies(
        Constraint.ZONES,
        f"{asked}; {seen}; bring back zones or add bookies in zones that have few, {_STRICT_OFF}",
    )


def _possible_with_more(board: Board, goal: Goal, chance: Chance) -> bool:
    """Could an ensemble with the members that stay be legal, if there were enough bookies?"""
    size = len(board.taken)
    zones = {unit.zone for unit in board.units if unit.zone != NOWHERE}
    added = range(len(zones), len(zones) + max(2, goal.zones))
    ideal = (
        *board.units,
        *(Unit(zone=zone, fresh=size) for zone in sorted([*zones, *added]) for _ in range(size)),
    )
    return (
        Search(Board(write=board.write, units=ideal, taken=board.taken), chance).find(goal)
        is not None
    )


def _unnamed(request: EnsembleRequest) -> str:
    """Name the zones that have bookies, and that the policy does not name."""
    accepting = (bookie for bookie in request.topology if bookie.accepts_ensembles)
    found = unnamed.zones(accepting, request.rules)
    listed = ", ".join(f"{zone} x{count}" for zone, count in found.items())
    return f"; in zones that the policy does not name: {listed}" if found else ""


def _stock(candidates: Candidates) -> str:
    """List how many bookies the search can choose from, by zone and upgrade domain."""
    stock: Counter[str] = Counter()
    for location, unit in zip(candidates.locations, candidates.board.units, strict=True):
        stock[str(location or "unresolved")] += unit.fresh + unit.reserve
    return ", ".join(f"{where} x{count}" for where, count in stock.items() if count) or "none"
