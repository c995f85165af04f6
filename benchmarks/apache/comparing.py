"""The comparison of two sides: ratios within rounds, of laps that count. Pure.

A ratio is Apache's cost over ours, so above 1 is better for us. Only laps of the same round are
compared. If no round has two laps that count, the ratios are those of laps that do not, and the
comparison says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.apache import laps
from benchmarks.apache.cases import Cost, cost_of
from benchmarks.apache.laps import Lap


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A median, with the least and the most."""

    middle: float
    least: float
    most: float

    def spelled(self, digits: int = 2) -> str:
        """Spell it as the benchmarks do."""
        middle, least, most = (
            f"{value:.{digits if value < 100 else 0}f}"
            for value in (self.middle, self.least, self.most)
        )
        return middle if least == most else f"{middle} ({least}-{most})"


def spread(values: Sequence[float]) -> Spread | None:
    """Give the spread of values; None: there are none."""
    if not values:
        return None
    return Spread(middle=median(values), least=min(values), most=max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One cost of one case, of our side and one of Apache's."""

    case: str
    cost: Cost
    ours: str
    apache: str
    ratio: Spread
    our_cost: Spread
    apache_cost: Spread
    #: How many rounds the ratio is of, and how many were run.
    rounds: int
    of_rounds: int
    #: Do the rounds count? False: there was none that does.
    counts: bool


def compare(found: Sequence[Lap], case: str, cost: Cost, ours: str, apache: str) -> Compared | None:
    """Compare two sides; None: no round has both."""
    of_case = [lap for lap in found if lap.case == case]
    by_side = {
        side: {lap.round: lap for lap in of_case if lap.side == side} for side in (ours, apache)
    }
    both = sorted(by_side[ours].keys() & by_side[apache].keys())
    pairs = [(by_side[ours][number], by_side[apache][number]) for number in both]
    whole = [pair for pair in pairs if not any(lap.failure for lap in pair)]
    valid = [pair for pair in whole if not any(laps.faults(lap) for lap in pair)]
    chosen = valid or whole
    costs = [
        (our, theirs)
        for our_lap, apache_lap in chosen
        if (our := cost_of(our_lap, cost)) and (theirs := cost_of(apache_lap, cost))
    ]
    ratio = spread([theirs / our for our, theirs in costs])
    our_cost, apache_cost = spread([one for one, _ in costs]), spread([one for _, one in costs])
    if ratio is None or our_cost is None or apache_cost is None:
        return None
    return Compared(
        case=case,
        cost=cost,
        ours=ours,
        apache=apache,
        ratio=ratio,
        our_cost=our_cost,
        apache_cost=apache_cost,
        rounds=len(costs),
        of_rounds=len(pairs),
        counts=bool(valid),
    )


def every(
    found: Sequence[Lap], costs: Mapping[str, Sequence[Cost]], ours: Sequence[str]
) -> list[Compared]:
    """Compare each of our sides with each of Apache's, in each case, in the order of the cases."""
    ran = list(dict.fromkeys(lap.case for lap in found))
    sides = list(dict.fromkeys(lap.side for lap in found))
    apaches = sorted(side for side in sides if side not in ours)
    return [
        compared
        for case in (name for name in costs if name in ran)
        for cost in costs[case]
        for our in ours
        for apache in apaches
        if (compared := compare(found, case, cost, our, apache)) is not None
    ]
