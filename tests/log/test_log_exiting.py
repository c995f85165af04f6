"""A process that ends inside a log writer's block waits for its messages, but not for ever."""

import subprocess
import sys
from typing import Final

import pytest

from tests.log import exiting
from tests.log.logging_lab import NAME

pytestmark = pytest.mark.processes

LIMIT_S: Final = 300


def ended(program: str) -> tuple[list[str], str]:
    """Run a program to its end; give its lines, and what it said of errors."""
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-m", "tests.log.exiting", program],
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_messages_on_their_way_are_waited_for() -> None:
    lines, told = ended(exiting.messages_on_their_way_are_waited_for.__name__)
    assert lines == ["0", str(exiting.MESSAGES)]
    assert "acknowledged" not in told


def test_messages_that_nobody_takes_are_named_and_the_process_ends() -> None:
    lines, told = ended(exiting.messages_that_nobody_takes_are_named.__name__)
    assert lines == ["0", "0"]
    last = exiting.MESSAGES - 1
    said = (
        f"log {NAME}: the process ends, and messages 0 to {last} were appended and not acknowledged"
    )
    assert told.count(said) == 2, "a line of the log and a ResourceWarning"


def test_a_forked_child_waits_for_nothing() -> None:
    lines, told = ended(exiting.a_forked_child_waits_for_nothing.__name__)
    assert lines == ["0"]
    assert "acknowledged" not in told
