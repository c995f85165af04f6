"""Repair to adhere: the fewest new members that bring an ensemble back to the best level.

An ensemble that was chosen while a zone was down is SOFT. It stays SOFT when the zone is back,
unless copies are moved. Each move copies data, so the plan has as few moves as possible. It tries
sets of positions, the smallest sets first and those of one size in order, until one set can be
filled so that the level is reached. The level to reach is STRICT. It is SOFT if STRICT cannot be
reached and the ensemble is FAIL. The plan is empty if the ensemble has that level already, or if
its level cannot be raised today.

A plan makes no concessions, because it is not urgent: newcomers are neither quarantined nor in an
avoided zone. A member that is down counts as standing where it stands; to replace it is another
job. The work is bounded. A plan whose search was cut short says so (``cut``): a plan with fewer
moves, or a plan at all, may exist. Before the planner gives up on a wide ensemble, it opens at once
all positions in zones that have more than their share of members.
"""

import itertools
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.candidates import Candidates, EnsembleRequest
from zonekeeper.placement.ensembles.search import STEPS_MAX, Board, Goal, Search

#: The number of sets of positions that one plan may try; up to twelve positions that is all sets.
SETS_MAX: Final = 4095


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move: the entries of the ledger that ``leaving`` holds are copied to ``joining``."""

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
    """Plan the fewest replacements that reach the best level."""
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
    """Tries sets of positions; the candidates are the same for all of them."""

    def __init__(
        self, request: EnsembleRequest, ensemble: tuple[BookieId, ...], chance: Chance
    ) -> None:
        self._ensemble, self._chance = ensemble, chance
        self._candidates = Candidates(request, ensemble)
        self._steps_left = STEPS_MAX
        self.cut = False

    def fewest(self, goal: Goal) -> tuple[BookieId, ...] | None:
        """Give an ensemble that meets the goal and keeps as many members as possible."""
        if not self._conceivable(goal):
            return None
        size = len(self._ensemble)
        sets = (
            frozenset(positions)
            for number in range(1, size + 1)
            for positions in itertools.combinations(range(size), number)
        )
        for tried, positions in enumerate(sets):
            if tried == SETS_MAX or not self._steps_left:
                self.cut = True
                break
            if (found := self._filled(goal, positions)) is not None:
                return found
        if self.cut:
            self._steps_left = STEPS_MAX
            for positions in self._crowded():
                if (found := self._filled(goal, positions)) is not None:
                    return found
        return None

    def _filled(self, goal: Goal, opened: Set[int]) -> tuple[BookieId, ...] | None:
        """Give an ensemble that meets the goal and keeps the members at other positions."""
        board = self._candidates.board
        taken = tuple(None if at in opened else unit for at, unit in enumerate(board.taken))
        search = Search(replace(board, taken=taken), self._chance, self._steps_left)
        filling = search.find(goal)
        self._steps_left -= search.steps
        self.cut = self.cut or search.cut
        if filling is None:
            return None
        kept = [None if at in opened else bookie for at, bookie in enumerate(self._ensemble)]
        return self._candidates.draw(filling, kept, self._chance).ensemble

    def _crowded(self) -> Iterator[frozenset[int]]:
        """Give positions in zones that have more members than their share: some, then all.

        Write sets that span all zones repeat one pattern of zones. So when a zone was away, its
        positions are a write quorum apart, and members in other zones took them.
        """
        board = self._candidates.board
        size, write = len(board.taken), board.write
        zones = [None if unit is None else board.units[unit].zone for unit in board.taken]
        share = size / len({unit.zone for unit in board.units})
        crowded = [at for at in range(size) if zones.count(zones[at]) > share]
        for first in range(write):
            yield frozenset(at for at in crowded if at % write == first)
        yield frozenset(crowded)

    def _conceivable(self, goal: Goal) -> bool:
        """Could any set of positions meet the goal, if all members and candidates could move?"""
        board = self._candidates.board
        units = []
        for number, unit in enumerate(board.units):
            fresh = board.taken.count(number) + (0 if unit.price else unit.fresh)
            units.append(replace(unit, fresh=fresh, reserve=0, price=0))
        anew = Board(write=board.write, units=tuple(units), taken=(None,) * len(board.taken))
        search = Search(anew, self._chance)
        return search.find(goal) is not None or search.cut
