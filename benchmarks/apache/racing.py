"""The rounds of a race: each runs every case on every side, in a new order.

The sides of a case run one behind the other, so that what slows a round slows all of them. A lap
that fails is noted, and its side gets a new driver, which is warmed up again.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.apache import laps
from benchmarks.apache.bench import Bench
from benchmarks.apache.cases import RaceCase
from benchmarks.apache.laps import Lap
from benchmarks.apache.protocol import DriverFailedError
from benchmarks.apache.sides import RaceSide


def order(
    cases: Sequence[RaceCase], sides: Sequence[RaceSide], chance: random.Random
) -> list[tuple[RaceCase, RaceSide]]:
    """Give the laps of one round: cases by chance, and in each the sides by chance."""
    shuffled = chance.sample(list(cases), len(cases))
    return [(case, side) for case in shuffled for side in chance.sample(list(sides), len(sides))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Whom a race tells: a person a line, and the disk all laps so far."""

    say: Callable[[str], None]
    keep: Callable[[Sequence[Lap]], None]


def run(
    bench: Bench,
    cases: Sequence[RaceCase],
    sides: Sequence[RaceSide],
    rounds: int,
    chance: random.Random,
    told: Told,
) -> list[Lap]:
    """Run all rounds; what there is so far is kept after each lap."""
    found: list[Lap] = []
    for side in sides:
        bench.warm_up(side, told.say)
    for number in range(1, rounds + 1):
        for case, side in order(cases, sides, chance):
            found.append(_lap(bench, case, side, number, told.say))
            told.keep(found)
    return found


def _lap(
    bench: Bench, case: RaceCase, side: RaceSide, number: int, say: Callable[[str], None]
) -> Lap:
    try:
        if not side.warm:
            bench.warm_up(side, say)
        lap = case.run(bench, side, number)
    except (DriverFailedError, OSError) as error:
        side.renew()
        lap = laps.failed(case.name, side.name, number, str(error))
    say(f"{number}: {case.name}, {side.name}: {spelled(lap)}")
    return lap


def spelled(lap: Lap) -> str:
    """Spell a lap for a person who watches."""
    wrong = laps.faults(lap)
    parts = [] if lap.failure else [f"{lap.cpu_us:.1f} CPU-us", f"{lap.wall_us:.1f} us"]
    parts += [f"{name} {value:.2f}" for name, value in lap.latencies_ms.items()]
    return ", ".join(parts) + (f" -- does not count: {'; '.join(wrong)}" if wrong else "")
