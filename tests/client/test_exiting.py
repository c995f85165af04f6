"""A process that ends inside a blocking client's block waits for its entries, but not for ever."""

import subprocess
import sys
from typing import Final

import pytest

from tests.client import exiting

pytestmark = pytest.mark.processes

LIMIT_S: Final = 300


def ended(program: str) -> tuple[list[str], str]:
    """Run a program to its end; give its lines, and what it said of errors."""
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-m", "tests.client.exiting", program],
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_entries_on_their_way_are_waited_for() -> None:
    lines, told = ended(exiting.entries_on_their_way_are_waited_for.__name__)
    assert lines == ["-1", str(exiting.ENTRIES - 1)]
    assert "acknowledged" not in told


def test_entries_that_nobody_takes_are_named_and_the_process_ends() -> None:
    lines, told = ended(exiting.entries_that_nobody_takes_are_named.__name__)
    assert lines == ["-1", "-1"]
    last = exiting.ENTRIES - 1
    said = f"ledger 0: the process ends, and entries 0 to {last} were appended and not acknowledged"
    assert told.count(said) == 2, "a line of the log and a ResourceWarning"
    assert f"ResourceWarning: {said}" in told


def test_a_forked_child_waits_for_nothing() -> None:
    lines, told = ended(exiting.a_forked_child_waits_for_nothing.__name__)
    assert lines == ["0"]
    assert "the process ends" not in told
