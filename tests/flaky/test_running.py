"""The campaign on a small checkout of its own, with real processes of pytest."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.flaky import running, tally
from tests.flaky.__main__ import Campaign
from tests.support.checkout_root import ROOT

#: Says by a pipe that it began; then it does what a file says, which is no part of the checkout.
TEST: Final = """
import pathlib, signal, subprocess
def test_it():
    told = pathlib.Path({told!r})
    if told.exists():
        with told.open("w") as pipe:
            subprocess.Popen(["sleep", "infinity"], stdout=pipe, start_new_session=True)
            print("began", file=pipe)
        signal.pause()
    assert pathlib.Path({mood!r}).read_text() == "fine"
"""
INTERRUPTED: Final = """
import pathlib, signal, sys
from tests.flaky.__main__ import Campaign
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored in these tests
folder = pathlib.Path(sys.argv[1])
Campaign(
    checkout=folder / "checkout", folder=folder / "cache", lanes={"quick": ()}, rounds=1, load=1
).go_on()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a checkout is, with one test, and what that test looks at."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    (checkout / ".gitignore").write_text("__pycache__/\n")
    test = TEST.format(told=str(tmp_path / "told"), mood=str(tmp_path / "mood"))
    (checkout / "test_one.py").write_text(test)
    (tmp_path / "mood").write_text("fine")
    subprocess.run(["git", "init", "-q", checkout], check=True)
    return tmp_path


def campaign(folder: Path, rounds: int = 2) -> Campaign:
    return Campaign(
        checkout=folder / "checkout",
        folder=folder / "cache",
        lanes={"quick": ()},
        rounds=rounds,
        load=1,
    )


def kept(folder: Path) -> tally.Tally:
    (file,) = (folder / "cache").glob("*.json")
    return tally.load(file.read_text())


def count(folder: Path) -> tally.Count:
    return kept(folder).counts["quick"]["test_one.py::test_it"]


def test_rounds_that_are_done_are_not_done_again(folder: Path) -> None:
    assert campaign(folder).go_on()
    (folder / "mood").write_text("bad")
    assert campaign(folder).go_on()
    assert count(folder) == tally.Count(runs=2)


def test_a_failure_is_counted_and_what_pytest_said_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mood").write_text("bad")
    assert not campaign(folder, rounds=1).go_on()
    assert (count(folder).runs, count(folder).failures) == (1, 1)
    assert "1 ran, 1 failed" in capsys.readouterr().out
    (words,) = (folder / "cache").glob("*.quick-1.log")
    assert "assert 'bad' == 'fine'" in words.read_text()


def test_another_tree_has_another_tally_and_the_same_tree_the_same(folder: Path) -> None:
    checkout = folder / "checkout"
    new = running.tree_of(checkout)
    subprocess.run(["git", "add", "--all"], cwd=checkout, check=True)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=checkout, check=True)
    assert running.tree_of(checkout) == new
    (checkout / "test_two.py").touch()
    assert running.tree_of(checkout) != new


def test_a_turn_that_is_interrupted_does_not_count_and_is_done_again(folder: Path) -> None:
    os.mkfifo(folder / "told")
    with (
        subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, folder], cwd=ROOT, stderr=subprocess.PIPE
        ) as interrupted,
        (folder / "told").open() as told,
    ):
        assert told.readline() == "began\n"
        interrupted.send_signal(signal.SIGINT)
        _, said = interrupted.communicate()
        assert told.read() == "", "until nobody has it any more"
    assert said.endswith(b"KeyboardInterrupt\n")
    (folder / "told").unlink()
    assert not list((folder / "cache").glob("*"))
    assert campaign(folder, rounds=1).go_on()
    assert count(folder) == tally.Count(runs=1)


def test_who_keeps_busy_ends_with_whoever_started_it() -> None:
    program = """
import os, signal
from tests.flaky import running
with running.beside(1):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE
    ) as starter:
        said, _ = starter.communicate()  # until no process has its output any more
    assert (said, starter.returncode) == (b"", -signal.SIGKILL)
