"""Whatever happens, in whatever order: the gate keeps its promises."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement import zone_histories, zone_history_run
from tests.placement.zone_histories import HISTORIES, RULES, Act
from tests.placement.zone_history_run import Unkept
from tests.simulation.patching import patched
from tests.support.checkout_root import ROOT
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.placement.zones import cluster_gate, gate, observation, watch


@settings(deadline=None, max_examples=200)
@given(repair=RULES, cold=st.booleans(), history=HISTORIES)
def test_nothing_opens_but_in_the_ways_that_there_are(
    repair: RepairRules, cold: bool, history: list[tuple[str, Act]]
) -> None:
    world = zone_histories.begun(repair, cold=cold)
    for _, act in history:
        act(world)


def test_no_history_by_number_breaks_a_promise() -> None:
    seen = zone_history_run.play_all(range(60))

    assert seen.publications > 50
    assert min(seen.suspensions, seen.restorations, seen.downs_by_flapping) > 0, seen


@pytest.mark.simulation
def test_no_history_of_many_breaks_a_promise() -> None:
    """All 10,000: ``python -m tests.placement.zone_history_run --histories 10000``."""
    seen = zone_history_run.play_all(range(10_000, 11_000))

    assert min(seen.suspensions, seen.restorations, seen.downs_by_flapping) > 50, seen


@pytest.mark.parametrize(
    ("where", "name", "bug"),
    [
        (cluster_gate, "_still_suspended", lambda before, incidents: None),
        (observation, "SUSPECTS_ARE_REAL", 1_000),
        (gate.Gate, "lasting", property(lambda gate: True)),
        (watch, "_incidents", lambda zones: {}),
    ],
)
def test_a_history_shows_the_bug(where: object, name: str, bug: object) -> None:
    with patched([(where, name, bug)]), pytest.raises(Unkept):
        zone_history_run.play_all(range(60))


def test_the_same_input_gives_the_same_output_under_any_hash_seed() -> None:
    command = [sys.executable, "-m", "tests.placement.zone_fingerprint"]
    printed = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert "zoneDown" in printed[0]
    assert printed[0] == printed[1]
