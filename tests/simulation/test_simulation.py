"""Whole clusters in virtual time, under seeds: no promise is broken, and enough has happened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import campaign, scenarios, world
from tests.simulation.campaign import Report, Task
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenarios import PROFILES, Kind

ROOT = Path(__file__).parents[2]

#: The lane's seeds, and what must have happened in each hundred of them.
SEEDS = 1_000
FAULTS_A_HUNDRED = 400
ACKED_A_HUNDRED = 10_000
#: Bugs that few seeds show; the rest of the table takes `python -m tests.simulation --mutants`.
SHORT_LIST = (2, 5, 6, 9, 10, 15, 16, 17, 19)


def failures(report: Report) -> str:
    return "\n".join(str(failure) for failure in report.failures[:3])


@pytest.mark.parametrize("profile", PROFILES)
def test_a_few_seeds_of_each_profile_keep_every_promise(profile: str) -> None:
    report = campaign.do(Task(profile=profile, first=10_000, seeds=3))
    assert not report.failures, failures(report)


def test_in_calm_weather_nearly_everything_is_acknowledged() -> None:
    report = campaign.do(Task(profile="calm", first=20_000, seeds=4))
    assert report.acked >= 0.99 * report.appended > 0


def test_a_planted_bug_is_found_shrunk_and_replayed() -> None:
    failure = campaign.do(Task(profile="crashy-disk", first=0, seeds=1, mutant=9)).failures[0]
    moments = tuple(fault.at_ms for fault in failure.scenario.faults)
    drawn = scenarios.draw(PROFILES["crashy-disk"], failure.scenario.seed)
    assert len(moments) < len(drawn.faults)
    again = Task(
        profile="crashy-disk",
        first=failure.scenario.seed,
        seeds=1,
        mutant=9,
        only_ms=moments,
    )
    replayed = campaign.do(again).failures[0]
    assert (replayed.digest, replayed.violations) == (failure.digest, failure.violations)
    assert f"--first {failure.scenario.seed} --seeds 1 --only '" in str(failure)


def test_one_seed_is_one_trace_whatever_the_order_of_sets() -> None:
    script = (
        "from tests.simulation import campaign, scenarios, world\n"
        "with campaign.quiet():\n"
        "    for name, profile in scenarios.PROFILES.items():\n"
        "        print(name, world.run(scenarios.draw(profile, 30_000)).digest)\n"
    )
    traces = []
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        traces.append(done.stdout)
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) == len(PROFILES)


def test_a_scenario_is_drawn_the_same_every_time_and_differs_by_seed() -> None:
    profile = PROFILES["churn"]
    assert scenarios.draw(profile, 1) == scenarios.draw(profile, 1)
    assert scenarios.draw(profile, 1) != scenarios.draw(profile, 2)


@pytest.mark.simulation
def test_a_thousand_seeds_keep_every_promise() -> None:
    report = campaign.run(campaign.tasks(None, 0, SEEDS), processes=2)
    print(*report.lines(0), sep="\n")  # noqa: T201 the lane's figures
    assert not report.failures, failures(report)
    assert report.seeds == SEEDS
    assert report.faults >= FAULTS_A_HUNDRED * SEEDS // 100
    assert report.acked >= ACKED_A_HUNDRED * SEEDS // 100
    assert report.calm_acked >= 0.99 * report.calm_appended > 0
    assert set(report.fired) == {kind.value for kind in Kind}
    assert report.ensemble_changes >= SEEDS // 10
    assert report.recoveries >= SEEDS


@pytest.mark.simulation
@pytest.mark.parametrize("number", SHORT_LIST)
def test_a_planted_bug_is_found_within_its_bound(number: int) -> None:
    mutant = MUTANTS[number]
    found = campaign.seeds_to_detection(number)
    assert found is not None, (
        f"mutant {number}, {mutant.what}, survived {mutant.within_seeds} seeds of {mutant.profile}"
    )
    _, failure = found
    with campaign.quiet():
        assert not world.run(failure.scenario).violations, "it is not the planted bug that shows"
