"""Repair to adhere: the fewest moves that bring an ensemble back to the best level.

An ensemble that was chosen while a zone was down is SOFT. It stays SOFT when the zone is back,
unless copies are moved. Each move copies data, so the plan has as few moves as possible
(``fewest``). The level to reach is STRICT. It is SOFT if STRICT cannot be reached and the ensemble
is FAIL. The plan is empty if the ensemble has that level already, or if no bookies that there are
today can raise it.

In a striped ensemble (E > Qw) members also change places. So a ring that names every bookie of the
cluster is brought back to STRICT if one of its permutations is STRICT. The plan is carried out as
one swap of the whole ensemble: a member that gets another position first takes the entries of that
position, and keeps those of its old one. So the ensemble names no bookie twice at any time, every
entry has its write quorum before and after the swap, and no free bookie is needed in between. With
E = Qw each entry is on all members, and a permutation changes nothing.

A plan makes no concessions, because it is not urgent: newcomers are neither quarantined nor in an
avoided zone, and a member takes another position only if a new ensemble could name it. A member
that is down counts as standing where it stands; to replace it is another job. The work is bounded.
A plan whose search was cut short says so (``cut``): a plan with fewer moves, or a plan at all, may
exist. A wide ring that needs many moves is then planned less well, or chosen anew as a whole.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.ensembles import adherence, fewest
from zonekeeper.placement.ensembles.candidates import Candidates, EnsembleRequest
from zonekeeper.placement.ensembles.fewest import Ring
from zonekeeper.placement.ensembles.search import Board, Filling, Goal, Search

#: The number of placements that may be tried to see whether a level can be reached at all.
ANEW_STEPS_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move: the entries of the position are copied to ``joining``, unless it has them.

    ``joining`` may be a member that leaves another position.
    """

    position: int
    leaving: BookieId
    joining: BookieId


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """The moves, and the ensemble that results from them."""

    replacements: tuple[Move, ...]
    ensemble: tuple[BookieId, ...]
    judgement: adherence.Adherence
    #: The search ended at its bound, so a better plan may exist.
    cut: bool


def plan(request: EnsembleRequest, ensemble: Sequence[BookieId], chance: Chance) -> MovePlan:
    """Plan the fewest moves that reach the best level."""
    planner = _Planner(request, tuple(ensemble), chance)
    before = adherence.judge(ensemble, request.quorums, request.rules, request.topology)
    for level, zones in _levels_above(before.level, request):
        after = planner.fewest(Goal(zones=zones, cost_max=0))
        if after is None:
            continue
        judgement = adherence.judge(after, request.quorums, request.rules, request.topology)
        assert judgement.level >= level, f"the checker refuses: {judgement}"
        return MovePlan(
            replacements=tuple(
                Move(position=at, leaving=old, joining=new)
                for at, (old, new) in enumerate(zip(ensemble, after, strict=True))
                if old != new
            ),
            ensemble=after,
            judgement=judgement,
            cut=planner.cut,
        )
    return MovePlan(replacements=(), ensemble=tuple(ensemble), judgement=before, cut=planner.cut)


def _levels_above(
    level: adherence.Level, request: EnsembleRequest
) -> Iterator[tuple[adherence.Level, int]]:
    """Give the levels worth trying, best first, each with the zones a write set then needs."""
    quorums, rules = request.quorums, request.rules
    if quorums.ensemble % quorums.write or quorums.write <= rules.min_zones:
        return  # No choice of bookies can change this.
    if level < adherence.Level.STRICT:
        yield adherence.Level.STRICT, request.zones_desired
    if level < adherence.Level.SOFT and request.zones_required < request.zones_desired:
        yield adherence.Level.SOFT, request.zones_required


class _Planner:
    """Asks for one goal after the other; the candidates are the same for all of them."""

    def __init__(
        self, request: EnsembleRequest, ensemble: tuple[BookieId, ...], chance: Chance
    ) -> None:
        self._ensemble, self._chance = ensemble, chance
        self._candidates = Candidates(request, ensemble)
        board = self._candidates.board
        self._standing = tuple(unit for unit in board.taken if unit is not None)
        #: By position: may the member take another position?
        self._returns = tuple(
            len(ensemble) > board.write
            and not board.units[unit].price
            and _may_join(request, bookie)
            for bookie, unit in zip(ensemble, self._standing, strict=True)
        )
        self.cut = False

    def fewest(self, goal: Goal) -> tuple[BookieId, ...] | None:
        """Give an ensemble that meets the goal and keeps as many members as possible."""
        search = Search(self._anew(), self._chance, ANEW_STEPS_MAX)
        anew = search.find(goal)
        if anew is None and not search.cut:
            return None
        ring = Ring(board=self._candidates.board, zones=goal.zones, returns=self._returns)
        found = fewest.fewest_changes(ring, self._chance)
        self.cut = self.cut or found.cut
        units = found.units
        if units is None and found.cut and anew is not None and self._can_have(anew.units):
            units = anew.units
        return None if units is None else self._drawn(units)

    def _anew(self) -> Board:
        """Give the board with all positions open, as if every member could take any of them."""
        board = self._candidates.board
        units = []
        for number, unit in enumerate(board.units):
            fresh = self._standing.count(number) + _fresh(board, number)
            units.append(replace(unit, fresh=fresh, reserve=0, price=0))
        return Board(write=board.write, units=tuple(units), taken=(None,) * len(board.taken))

    def _can_have(self, units: Sequence[int]) -> bool:
        """Are there enough bookies for all positions that get another unit?"""
        board, left = self._candidates.board, self._leaving(units)
        joining = [new for old, new in zip(self._standing, units, strict=True) if old != new]
        return all(
            joining.count(number) <= _fresh(board, number) + len(left[number])
            for number in set(joining)
        )

    def _leaving(self, units: Sequence[int]) -> defaultdict[int, list[BookieId]]:
        """Give, by unit, the members that leave their positions and may take others."""
        leaving: defaultdict[int, list[BookieId]] = defaultdict(list)
        for at, (old, new) in enumerate(zip(self._standing, units, strict=True)):
            if old != new and self._returns[at]:
                leaving[old].append(self._ensemble[at])
        return leaving

    def _drawn(self, units: tuple[int, ...]) -> tuple[BookieId, ...]:
        """Give a bookie for each position; members change places where no other bookie is left."""
        board, leaving = self._candidates.board, self._leaving(units)
        fresh = [_fresh(board, number) for number in range(len(board.units))]
        kept: list[BookieId | None] = []
        for at, (old, new) in enumerate(zip(self._standing, units, strict=True)):
            if old == new:
                kept.append(self._ensemble[at])
            elif fresh[new]:
                fresh[new] -= 1
                kept.append(None)
            else:
                kept.append(leaving[new].pop())
        filling = Filling(units=units, cost=0, clashes=0)
        return self._candidates.draw(filling, kept, self._chance).ensemble


def _fresh(board: Board, number: int) -> int:
    """Count the bookies of a unit that may join without a concession and are no members."""
    return 0 if board.units[number].price else board.units[number].fresh


def _may_join(request: EnsembleRequest, bookie_id: BookieId) -> bool:
    bookie = request.topology.get(bookie_id)
    avoid = request.avoid
    return (
        bookie is not None
        and bookie.accepts_ensembles
        and bookie_id not in avoid.bookies
        and bookie_id not in avoid.quarantined
    )
