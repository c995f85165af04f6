"""Whole clusters in virtual time, under seeds: no promise is broken, and enough has happened."""

import dataclasses
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.simulation import campaign, drawing, world
from tests.simulation.campaign import Report, Task
from tests.simulation.log_actors import SWEPT
from tests.simulation.log_eyes import MOVED, RECLAIMED, TRIMMED
from tests.simulation.profiles import PROFILES
from tests.simulation.query_actors import ATTEMPTS, KNOWN, PUBLISHED
from tests.simulation.reached import CHANGED, OVERLAPPING
from tests.simulation.scenarios import Kind, Shape
from tests.simulation.surroundings import BEGAN_BEHIND_A_ROUND, EXPIRED, REWRITTEN, ROTTEN
from tests.support import figures
from tests.support.checkout_root import ROOT

SEEDS_FILE = Path(__file__).with_name("seeds.txt")

#: The profiles of which a seed takes no longer than others.
SHORT = [name for name, profile in PROFILES.items() if not profile.is_long]

#: The lane's fresh seeds, in parts that processes share, and what must have happened in a part:
#: five standard deviations less than on the average, for no run shall fail by chance.
#: With outages and logs, below, these are more than 5,000 seeds over all profiles.
PARTS = 20
SEEDS_A_PART = 220
FAULTS_A_PART = 1_000
ACKED_A_PART = 8_000
RECOVERIES_A_PART = 1_000
CHANGES_A_PART = 50
WORK_A_PART = {
    REWRITTEN: 1_000,
    BEGAN_BEHIND_A_ROUND: 80,
    EXPIRED: 20,
    ROTTEN: 1,
    OVERLAPPING: 1,
    CHANGED: 1,
}
#: Zone outages, in parts: as many seeds as there are shapes, and what must have happened in a part.
OUTAGE_PARTS = 23
OUTAGE_PARTS_LONG = 72
OUTAGES_A_PART = 13
ACKED_AMID_OUTAGES = 300
#: Logs, in parts, and what must have happened in a part.
LOG_PARTS = 20
LOG_SEEDS_A_PART = 20
LOG_WORK_A_PART = {TRIMMED: 10, RECLAIMED: 40, SWEPT: 1, MOVED: 40}
#: Queries of a log, likewise.
QUERY_PARTS = 10
QUERY_SEEDS_A_PART = 20
QUERY_WORK_A_PART = {PUBLISHED: 20, KNOWN: 1, ATTEMPTS: 150, SWEPT: 20}
#: Faults of zone outages only: what people do.
ORDERED = {Kind.MAINTENANCE.value, Kind.RELEASE.value}
#: Bugs that few seeds show; the whole table is printed by `python -m tests.simulation --mutants`.
RARE = (1, 2, 4, 12, 20, 24, 25, 26, 29, 35, 36, 38, 46, 54, 60)
#: The others that are the simulator's.
OFTEN = [n for n, bug in campaign.BUGS.items() if bug.profile is not None and n not in RARE]


def failures(report: Report) -> str:
    return "\n".join(str(failure) for failure in report.failures[:3])


@pytest.mark.parametrize("profile", SHORT)
def test_a_few_seeds_of_each_profile_keep_every_promise(profile: str) -> None:
    report = campaign.do(Task(profile=profile, first=10_000, seeds=2))
    assert not report.failures, failures(report)


def test_in_calm_weather_nearly_everything_is_acknowledged() -> None:
    report = campaign.do(Task(profile="calm", first=20_000, seeds=2))
    assert report.acked >= 0.99 * report.appended > 0


def a_seed_that_needs_faults(profile: str, mutant: int) -> int:
    """Give a seed that fails with a planted bug, and not without anything happening in it."""
    for seed in range(campaign.BUGS[mutant].within_seeds):
        drawn = Task(profile=profile, first=seed, seeds=1, mutant=mutant).scenario(seed)
        with campaign.quiet(), campaign.planted(mutant):
            if world.run(drawn).violations and not world.run(drawn.only(())).violations:
                return seed
    raise AssertionError(f"mutant {mutant} survives, or needs no faults")


def test_a_planted_bug_is_found_shrunk_and_replayed() -> None:
    profile, mutant = "crashy-disk", 2
    seed = a_seed_that_needs_faults(profile, mutant)
    one = Task(profile=profile, first=seed, seeds=1, mutant=mutant)
    failure = campaign.do(one).failures[0]
    moments = tuple(fault.at_ms for fault in failure.scenario.faults)
    assert 0 < len(moments) < len(one.scenario(seed).faults)
    assert not campaign.do(dataclasses.replace(one, only_ms=())).failures
    replayed = campaign.do(dataclasses.replace(one, only_ms=moments)).failures[0]
    assert (replayed.digest, replayed.violations) == (failure.digest, failure.violations)
    spelled = ",".join(map(str, moments))
    assert f"--first {seed} --seeds 1 --only '{spelled}' --mutant {mutant}" in str(failure)


def traces(seed: int, names: Sequence[str]) -> list[str]:
    """Run one seed of each profile; the traces."""
    with campaign.quiet():
        return [world.run(drawing.draw(PROFILES[name], seed)).digest for name in names]


def assert_one_trace(names: Sequence[str]) -> None:
    """Run a fresh seed of each profile in two new processes, in which sets have other orders."""
    chance = random.SystemRandom()
    seed, hash_seeds = chance.randrange(1 << 40), chance.sample(range(1, 1 << 32), 2)
    script = "import sys\nfrom tests.simulation import test_simulation as these\n"
    script += "print(*these.traces(int(sys.argv[1]), sys.argv[2:]))\n"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(seed), *names],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        )
        for hash_seed in hash_seeds
    ]
    one, other = (process.communicate()[0].split() for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert len(set(one)) == len(names)
    assert one == other, f"seed {seed} under hash seeds {hash_seeds}"


def test_one_seed_is_one_trace_whatever_the_order_of_sets() -> None:
    assert_one_trace(SHORT)


@pytest.mark.simulation
def test_so_it_is_with_zones_that_go_away() -> None:
    assert_one_trace(["zone-gate"])


def test_a_scenario_is_drawn_the_same_every_time_and_differs_by_seed() -> None:
    profile = PROFILES["churn"]
    assert drawing.draw(profile, 1) == drawing.draw(profile, 1)
    assert drawing.draw(profile, 1) != drawing.draw(profile, 2)


def regression_seeds() -> list[tuple[str, int, str]]:
    """The profiles and seeds that once found something, and what."""
    lines = SEEDS_FILE.read_text(encoding="utf-8").splitlines()
    told = [line.split(maxsplit=2) for line in lines if line and not line.startswith("#")]
    return [(profile, int(seed), what) for profile, seed, what in told]


@pytest.mark.simulation
@pytest.mark.parametrize("profile", sorted({profile for profile, _, _ in regression_seeds()}))
def test_seeds_that_once_found_something_find_it_no_more(profile: str) -> None:
    for name, seed, what in regression_seeds():
        if name == profile:
            report = campaign.do(Task(profile=profile, first=seed, seeds=1))
            assert not report.failures, f"{what} is back: {failures(report)}"


@pytest.mark.simulation
@pytest.mark.parametrize("part", range(PARTS))
def test_fresh_seeds_keep_every_promise(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    """Each run has seeds of its own; a failure names its seed, and is replayed by it."""
    del part
    first, began_s = random.SystemRandom().randrange(1 << 40), time.process_time()
    report = campaign.run(campaign.tasks(None, first, SEEDS_A_PART), processes=1)
    figures.record(record_property, "simulator", report.counts(), time.process_time() - began_s)
    assert not report.failures, failures(report)
    assert report.seeds == SEEDS_A_PART
    assert report.faults >= FAULTS_A_PART
    assert report.acked >= ACKED_A_PART
    assert report.recoveries >= RECOVERIES_A_PART
    assert report.ensemble_changes >= CHANGES_A_PART
    for what, least in WORK_A_PART.items():
        assert report.work[what] >= least, what
    assert report.calm_acked >= 0.99 * report.calm_appended > 0
    missing = {kind.value for kind in Kind} - ORDERED - set(report.fired)
    assert len(missing) <= 1, "the rarest faults are in one seed of twenty"


def outages(seeds_of_each: int, record_property: Callable[[str, object], None]) -> Report:
    """Run fresh seeds of zones that go away in every shape; what they showed."""
    seeds = seeds_of_each * len(Shape)
    first, began_s = random.SystemRandom().randrange(1 << 40) * len(Shape), time.process_time()
    report = campaign.do(Task(profile="zone-gate", first=first, seeds=seeds))
    counts = {"zone outages": report.outages.total(), **report.counts_of_repair()}
    figures.record(record_property, "zone outages", counts, time.process_time() - began_s)
    assert not report.failures, failures(report)
    assert set(report.outages) == {shape.value for shape in Shape}
    assert report.outages.total() >= OUTAGES_A_PART * seeds_of_each
    assert report.acked >= ACKED_AMID_OUTAGES * seeds_of_each
    return report


@pytest.mark.simulation
@pytest.mark.parametrize("part", range(OUTAGE_PARTS))
def test_zones_that_go_away_move_nothing_that_is_held_and_all_else_is_repaired(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    del part
    outages(1, record_property)


@pytest.mark.simulation
@pytest.mark.long
@pytest.mark.parametrize("part", range(OUTAGE_PARTS_LONG))
def test_thousands_of_outages_move_nothing_that_is_held(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    del part
    report = outages(2, record_property)
    assert report.copied_bytes["lost elsewhere"] + report.copied_bytes["released"] > 0


@pytest.mark.simulation
@pytest.mark.parametrize("part", range(LOG_PARTS))
def test_all_who_have_to_do_with_a_log_keep_every_promise(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    del part
    first, began_s = random.SystemRandom().randrange(1 << 40), time.process_time()
    report = campaign.do(Task(profile="logs", first=first, seeds=LOG_SEEDS_A_PART))
    figures.record(record_property, "logs", report.counts(), time.process_time() - began_s)
    assert not report.failures, failures(report)
    assert report.seeds == LOG_SEEDS_A_PART
    for what, least in LOG_WORK_A_PART.items():
        assert report.work[what] >= least, what


@pytest.mark.simulation
@pytest.mark.parametrize("part", range(QUERY_PARTS))
def test_queries_bring_each_batch_into_a_log_once(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    del part
    first, began_s = random.SystemRandom().randrange(1 << 40), time.process_time()
    report = campaign.do(Task(profile="queries", first=first, seeds=QUERY_SEEDS_A_PART))
    figures.record(record_property, "queries", report.counts(), time.process_time() - began_s)
    assert not report.failures, failures(report)
    assert report.seeds == QUERY_SEEDS_A_PART
    for what, least in QUERY_WORK_A_PART.items():
        assert report.work[what] >= least, what


@pytest.mark.simulation
@pytest.mark.parametrize(
    "number", [*OFTEN, *(pytest.param(each, marks=pytest.mark.long) for each in RARE)]
)
def test_a_planted_bug_is_found_within_its_bound(number: int) -> None:
    mutant = campaign.BUGS[number]
    found = campaign.seeds_to_detection(number)
    assert found is not None, (
        f"mutant {number}, {mutant.what}, survived {mutant.within_seeds} seeds of {mutant.profile}"
    )
    _, failure = found
    assert "TypeError" not in failure.violations[0].kind, "it is planted where it does not fit"
    with campaign.quiet():
        assert not world.run(failure.scenario).violations, "it is not the planted bug that shows"
