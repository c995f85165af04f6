"""Whatever happens, in whatever order: the gate keeps its promises."""

import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement import zone_histories
from tests.placement.zone_histories import HISTORIES, RULES, Act
from tests.support.checkout_root import ROOT
from zonekeeper.placement.policy.rules import RepairRules


@settings(deadline=None, max_examples=200)
@given(repair=RULES, cold=st.booleans(), history=HISTORIES)
def test_nothing_opens_but_in_the_ways_that_there_are(
    repair: RepairRules, cold: bool, history: list[tuple[str, Act]]
) -> None:
    world = zone_histories.begun(repair, cold=cold)
    for _, act in history:
        act(world)


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
