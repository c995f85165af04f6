"""Which of the lab's long tests a change is tried with: those marked ``by_turns`` take turns.

All of them together take longer than the lane may. Each stands in one of the turns, and a run of
the lane plays one turn. The turn follows from the commit's tree, so a run of the same commit plays
the same tests. A run that names its tests, and one of the long tests, play all.
"""

import subprocess
from collections.abc import Sequence

import pytest

from tests.support.checkout_root import ROOT

MARKER = "by_turns"
TURNS = 2


def tree() -> str:
    """Give the hash of the commit's tree; without git that of none."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD^{tree}"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "0"
    return done.stdout.strip()


def turn_of(hashed: str) -> int:
    """Give the turn of a tree."""
    return int(hashed, 16) % TURNS


def left_out(names: Sequence[str], turn: int) -> list[str]:
    """Give those of the tests in turns that a turn leaves out."""
    return [name for at, name in enumerate(sorted(names)) if at % TURNS != turn]


def is_short(config: pytest.Config) -> bool:
    """Is this a run of the lane, and not of named tests or of all?"""
    names_tests = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    return "not long" in config.option.markexpr and not names_tests
