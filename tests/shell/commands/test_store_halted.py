"""A real ZooKeeper that is frozen, and killed: what commands say then, and that they end soon.

No time is asserted. A command that hung would meet the limit of the lane.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.local_world import LocalWorld, local_world
from tests.support import zookeeper
from tests.support.ready_processes import SHELL
from zonekeeper.metadata.commands import exits
from zonekeeper.shell.local import local_state

pytestmark = pytest.mark.processes

SMALL = ("--zones", "2", "--bookies-per-zone", "2", "--autorecovery", "1")
ALL = ["auto-0", "bk-a-0", "bk-a-1", "bk-b-0", "bk-b-1"]
#: Commands that look, and those that cannot, or that would change something.
LOOKING = ("zones status", "bookies list", "bookies show bk-a-0", "plan", "autorecovery status",
           "top --once --every 0.2", "endpoints")  # fmt: skip
ENDING = (
    "timeline",
    "audit replicas",
    "ledger show 0",
    "log list",
    "log show orders/eu-1",
    "log append orders/eu-1 --payload x",
    "log delete orders/eu-1 --yes",
    "cluster info",
    "bookies readonly bk-a-0 --yes --reason x",
    "autorecovery hold --zone a --reason x",
)
PATIENCE_S = 300


class Halted:
    """A local cluster whose ZooKeeper a test halts, and the commands on it."""

    def __init__(self, local: LocalWorld, cache: Path) -> None:
        self.local = local
        self.address = str(local.data("status")["metadata"])
        self._cache = cache

    def signal(self, number: signal.Signals) -> None:
        state = local_state.read(self.local.folder)
        assert state is not None
        os.kill(state.marks[local_state.ZOOKEEPER].pid, number)

    def start(self, command: str, timeout_s: float) -> "subprocess.Popen[str]":
        environment = {
            **os.environ,
            "ZONEKEEPER_METADATA": self.address,
            "ZONEKEEPER_STORE_TIMEOUT": str(timeout_s),
            "XDG_CACHE_HOME": str(self._cache),
        }
        return subprocess.Popen(
            [*SHELL, *command.split()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, command: str, timeout_s: float = 1.2) -> tuple[int, str, str]:
        process = self.start(command, timeout_s)
        out, told = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, told


@pytest.fixture(scope="module")
def halted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halted]:
    zookeeper.require()
    with local_world(tmp_path_factory.mktemp("halted") / "local") as local:
        assert local.data("up", "--zookeeper", *SMALL)["started"]
        found = Halted(local, tmp_path_factory.mktemp("seen"))
        code, out, told = found.call("endpoints --output json", 60)
        assert code == exits.DONE, told
        listed = json.loads(out)
        assert [one["name"] for one in listed["endpoints"]] == ALL
        assert listed["storeAway"] is None
        yield found


@pytest.fixture(params=[signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def away(halted: Halted, request: pytest.FixtureRequest) -> Iterator[Halted]:
    halted.signal(request.param)
    yield halted
    if request.param is signal.SIGSTOP:
        halted.signal(signal.SIGCONT)
    assert halted.local.call("up").exit_code == exits.DONE
    code, _, told = halted.call("endpoints", 60)
    assert code == exits.DONE, told


def test_s154_s155_commands_end_with_what_is_known(away: Halted) -> None:
    for command in LOOKING:
        code, out, told = away.call(command)
        assert code == exits.SECOND_HAND, (command, out, told)
        assert out.startswith(f"the metadata store is away: {away.address}: "), command

    _, out, _ = away.call("bookies list --output json")
    rows = json.loads(out)
    assert [one["bookie"] for one in rows if one["answers"]] == ALL[1:]
    assert [one["zone"] for one in rows] == ["a", "a", "b", "b"]
    _, out, _ = away.call("zones status --output json")
    assert json.loads(out)["saidBy"] == "auto-0"

    for command in ENDING:
        code, out, told = away.call(command)
        assert (code, out) == (exits.NOT, ""), (command, out, told)
        last = told.splitlines()[-1]
        assert last.startswith(f"Error: the metadata store is away: {away.address}: "), command
        assert "Nothing was changed" in last
        assert "Traceback" not in told
    said = away.local.call("status")
    assert said.exit_code == exits.DONE


def test_s156_a_command_that_waits_ends_when_the_store_is_frozen(halted: Halted) -> None:
    process = halted.start("top --every 0.2", 1.2)
    assert process.stdout is not None
    assert process.stdout.readline(), "it shows the first interval"
    process.terminate()
    process.communicate(timeout=PATIENCE_S)

    # No zone watch evaluates, so `plan` waits for one.
    assert halted.local.call("kill-autorecovery", "auto-0").exit_code == exits.DONE
    waiting = halted.start("plan", 3)
    try:
        assert waiting.stderr is not None
        halted.signal(signal.SIGSTOP)
        out, told = waiting.communicate(timeout=PATIENCE_S)
    finally:
        halted.signal(signal.SIGCONT)
    assert waiting.returncode == exits.SECOND_HAND, told
    assert out.startswith("the metadata store is away: ")
