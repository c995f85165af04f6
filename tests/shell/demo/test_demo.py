"""The demonstration, run whole: what it shows is true, and nothing is left running."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell.local_world import processes_with

pytestmark = pytest.mark.demo

COMMAND = (
    sys.executable,
    *("-c", "from zonekeeper.shell.commands.local import local; local()", "demo"),
)


def surroundings(tmp_path: Path) -> dict[str, str]:
    """Its temporary folder is where the test can see it."""
    return {**os.environ, "TMPDIR": str(tmp_path)}


def test_it_shows_what_it_says_and_everything_holds(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--output", "json"],
        capture_output=True,
        text=True,
        env=surroundings(tmp_path),
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kept"] is True
    assert found["acknowledged"] == found["readBackTheSame"] > 20_000
    assert found["copies"] == {"entries": found["acknowledged"], "problems": []}
    assert found["ensembleChanges"] >= 3
    assert found["problems"] == []
    assert [one["holds"] for one in found["promises"]] == [True] * 7
    assert found["plainText"] == {"ways": 18, "tried": 18, "accepted": 0}
    assert [part["acknowledged"] > 0 for part in found["parts"]] == [True] * 5
    assert sum(part["acknowledged"] for part in found["parts"]) == found["acknowledged"]

    assert found["bookieLost"]["movedBytes"] > 100_000
    away, lost = found["zoneAway"], found["zoneLost"]
    # A session that ends on a busy machine may show one of them once more.
    failing = dict.fromkeys(state for state in away["states"] if state not in ("degraded", "up"))
    assert list(failing) == ["suspect", "down", "returning"]
    assert away["states"][-1] == "up"
    assert away["heldSeconds"] > 5
    assert (away["movedBytes"], lost["movedBytesWhileHeld"]) == (0, 0)
    # What was priced is what was moved, but for headers, and for entries of a ledger still open.
    priced = lost["preflight"]["bytes"]
    assert lost["preflight"]["ledgers"] > 1
    assert priced > 1_000_000
    assert priced * 0.9 < lost["movedBytes"] < priced * 2

    assert "zone c is suspect" in done.stderr
    assert "repair of zone c is held" in done.stderr
    assert "repair of zone c is released" in done.stderr
    assert "\x1b" not in done.stderr  # plain where there is no terminal
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("number", "at"),
    [
        (signal.SIGHUP, "1. A cluster on this machine"),
        (signal.SIGTERM, "processes are ready"),
    ],
)
def test_interrupted_it_leaves_nothing_running(
    tmp_path: Path, number: signal.Signals, at: str
) -> None:
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, text=True, env=surroundings(tmp_path)
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if at in line:
                running.send_signal(number)
                break
        running.stdout.read()

    assert running.returncode == 130
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


def test_it_leaves_nothing_running_when_nobody_reads_it_any_more(tmp_path: Path) -> None:
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, text=True, env=surroundings(tmp_path)
    ) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "processes are ready" in line)

    assert running.returncode != 0
    assert processes_with(str(tmp_path)) == []


def test_interrupted_with_a_folder_it_leaves_the_cluster_there_to_look_at(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--folder", str(tmp_path / "kept")], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "3. A bookie dies" in line)
        running.send_signal(signal.SIGINT)
        running.stdout.read()

    assert running.returncode == 130
    assert (tmp_path / "kept" / "local.json").exists()
    assert processes_with(str(tmp_path)) == []
