"""``python -m tests.simulation``: run seeds, replay one, or see which planted bugs are found."""

import argparse
import sys
import time

from tests.simulation import campaign
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenarios import PROFILES

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
    """Plant each bug, and print the table of what it took to find it."""
    survived = 0
    _say("| mutant | what | profile | seeds to detection | bound | seen as |")
    _say("|---|---|---|---|---|---|")
    for mutant in MUTANTS.values():
        found = campaign.seeds_to_detection(mutant.number, first)
        seeds, seen = "survived", "-"
        if found is None:
            survived += 1
        else:
            seeds, seen = str(found[0]), found[1].violations[0].rule
        _say(
            f"| {mutant.number} | {mutant.what} | {mutant.profile} | {seeds} | "
            f"{mutant.within_seeds} | {seen} |"
        )
    return 1 if survived else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=400, help="how many (default: 400)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: 0)")
    parser.add_argument(
        "--profile", choices=list(PROFILES), help="what kinds of trouble (default: all in turn)"
    )
    parser.add_argument("--minutes", type=float, help="begin no seed after this time")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--mutant", type=int, choices=list(MUTANTS), help="plant this bug")
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
