"""``python -m tests.simulation``: run seeds, replay one, or see which planted bugs are found."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator

import pytest

from tests.crash import exploring, test_mutants
from tests.simulation import campaign, test_directed_mutants, test_standing_mutants
from tests.simulation.planting import Mutant
from tests.simulation.profiles import PROFILES
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError

PROCESSES = 2


def main() -> int:
    """Do what the arguments say; 1: a promise was broken, or a planted bug was not found."""
    asked = _arguments()
    if asked.mutants:
        return _hunt(asked.first)
    began = time.perf_counter()
    work = campaign.tasks(asked.profile, asked.first, asked.seeds, asked.mutant)
    if asked.only is not None:
        moments = tuple(int(moment) for moment in asked.only.split(",") if moment)
        work = [
            campaign.Task(
                profile=asked.profile,
                first=asked.first,
                seeds=1,
                mutant=asked.mutant,
                only_ms=moments,
            )
        ]
    processes = 1 if asked.seeds == 1 else asked.processes
    report = campaign.run(work, processes, asked.minutes and 60 * asked.minutes)
    for failure in report.failures[:10]:
        _say(str(failure))
    for line in report.lines(time.perf_counter() - began):
        _say(line)
    return 1 if report.failures else 0


def _hunt(first: int) -> int:
    """Plant each bug in turn, in each lane that must find it, and print the table."""
    survived = 0
    _say("| mutant | what | lane | found after | bound | seen as |")
    _say("|---|---|---|---|---|---|")
    for mutant in campaign.BUGS.values():
        for lane, found, bound, seen in _looks(mutant, first):
            survived += found is None
            _say(
                f"| {mutant.number} | {mutant.what} | {lane} | {found or 'survived'} | {bound} | "
                f"{seen} |"
            )
    return 1 if survived else 0


def _looks(mutant: Mutant, first: int) -> Iterator[tuple[str, str | None, str, str]]:
    """Look for a planted bug in every lane that is to find it."""
    if mutant.profile is not None:
        bound = f"{mutant.within_seeds} seeds"
        lane = f"simulator, `{mutant.profile}`"
        found = campaign.seeds_to_detection(mutant.number, first)
        if found is None:
            yield lane, None, bound, "-"
        else:
            seeds, failure = found
            yield lane, _many(seeds, "seed"), bound, " ".join(failure.violations[0].kind)
    if mutant.number in test_directed_mutants.SCENARIOS:
        name = test_directed_mutants.SCENARIOS[mutant.number].__name__.replace("_", " ")
        shown = test_directed_mutants.is_shown(mutant.number)
        yield "directed", "1 scenario" if shown else None, "1 scenario", name
    for played in test_standing_mutants.SHOWN_BY.get(mutant.number, ()):
        name = test_standing_mutants.name_of(played).removeprefix("test_").replace("_", " ")
        shown = test_directed_mutants.fails_with(mutant.patches(), played)
        yield "directed", "1 scenario" if shown else None, "1 scenario", name
    if mutant.in_crash_states is not None:
        bound = f"{test_mutants.BUDGET} states"
        with campaign.quiet():
            states = _crash_states(mutant.in_crash_states)
        found_after = None if states is None else _many(states, "state")
        yield "crash states", found_after, bound, mutant.in_crash_states


def _crash_states(name: str) -> int | None:
    """Plant a bug of the crash lane, and count the states until it is found."""
    explored = exploring.Explored()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploring, "Explored", lambda: explored)
        test_mutants.MUTANTS[name](patch)
        try:
            asyncio.run(exploring.explore(500, test_mutants.BUDGET))
        except (AssertionError, OSError, DamagedLogError, BaseExceptionGroup):
            return explored.states + 1
    return None


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=400, help="how many (default: 400)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: 0)")
    parser.add_argument(
        "--profile", choices=list(PROFILES), help="what kinds of trouble (default: all in turn)"
    )
    parser.add_argument("--minutes", type=float, help="begin no seed after this time")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--mutant", type=int, choices=list(campaign.BUGS), help="plant this bug")
    parser.add_argument("--only", help="the moments of the only faults, in ms; needs --profile")
    parser.add_argument("--mutants", action="store_true", help="plant each bug in turn: a table")
    asked = parser.parse_args()
    if asked.only is not None and asked.profile is None:
        parser.error("--only names faults of one seed: give its --profile, too")
    return asked


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
