"""A local cluster of real processes: up, hit, restored, down."""

import asyncio
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.local_world import LocalWorld, local_world, processes_with
from zonekeeper.client.client import connect
from zonekeeper.shell import local_state
from zonekeeper.shell.local_cluster import LocalCluster

pytestmark = pytest.mark.processes

SMALL = ("--bookies-per-zone", "1")
ALL = ["bk-a-0", "bk-b-0", "bk-c-0"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    with local_world(tmp_path / "a cluster") as made:
        yield made


def test_a_cluster_lives_through_kills_and_keeps_what_it_was_told(world: LocalWorld) -> None:
    assert world.data("up", *SMALL)["started"] == ALL
    assert world.data("up", *SMALL)["started"] == []
    assert world.column("process") == dict.fromkeys(ALL, "running")
    assert world.column("registration") == dict.fromkeys(ALL, "writable")
    ledger_id = asyncio.run(write(world))

    assert world.data("kill-bookie", "bk-a-0")["killed"] == ["bk-a-0"]
    assert world.data("kill-zone", "b")["killed"] == ["bk-b-0"]
    die(world, "bk-c-0")
    assert world.column("process") == {
        "bk-a-0": "stopped",
        "bk-b-0": "stopped",
        "bk-c-0": "ended by itself",
    }

    assert world.data("restore-zone", "b")["started"] == ["bk-b-0"]
    assert world.data("up")["started"] == ["bk-a-0", "bk-c-0"]
    assert world.data("down")["stopped"] == ALL
    assert world.column("process") == dict.fromkeys(ALL, "stopped")
    assert world.column("registration") == dict.fromkeys(ALL, "absent")
    assert processes_with(str(world.folder)) == []

    assert world.data("up")["started"] == ALL
    assert asyncio.run(read(world, ledger_id)) == [b"first", b"second"]
    assert world.data("down", "--purge")["purged"] is True
    assert not world.folder.exists()


def die(world: LocalWorld, bookie: str) -> None:
    """Kill a bookie behind the command's back, and wait for its end."""
    pid = world.column("pid")[bookie]
    assert isinstance(pid, int)
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([process], [], [])
    os.close(process)


async def write(world: LocalWorld) -> int:
    async with connect(LocalCluster(world.folder).folder.address) as client:
        async with await client.create() as writer:
            await writer.append_many([b"first", b"second"])
        return writer.ledger_id


async def read(world: LocalWorld, ledger_id: int) -> list[bytes]:
    async with connect(LocalCluster(world.folder).folder.address) as client:
        number = next(iter([found async for found in client.ledgers() if found == ledger_id]))
        reader = await client.open(number)
        return [bytes(entry.payload) async for entry in reader.read_entries()]


def test_up_is_all_or_nothing_and_shows_the_last_words_of_who_failed(world: LocalWorld) -> None:
    world.data("up", *SMALL)
    world.data("kill-bookie", "bk-a-0")
    world.data("kill-bookie", "bk-b-0")
    (world.folder / "bookies" / "bk-b-0").rename(world.folder / "moved")
    (world.folder / "bookies" / "bk-b-0").write_text("no folder")

    result = world.call("up")

    assert result.exit_code == 1
    assert "bookie bk-b-0 ended, so what was started with it is stopped again" in result.stderr
    assert f"Its last words, from {world.folder / 'logs' / 'bk-b-0.log'}:" in result.stderr
    assert "Error: --data:" in result.stderr
    assert world.column("process") == {
        "bk-a-0": "stopped",
        "bk-b-0": "stopped",
        "bk-c-0": "running",  # it was not started with them
    }


async def test_an_up_that_is_given_up_takes_back_what_it_started(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    starting = asyncio.ensure_future(cluster.up({"bookies_per_zone": 1}))
    all_begun = asyncio.Event()

    def look() -> None:
        state = local_state.read(tmp_path)
        if state is not None and len(state.marks) == 3:
            all_begun.set()
        else:
            asyncio.get_running_loop().call_soon(look)

    look()
    await all_begun.wait()
    assert len(processes_with(str(tmp_path))) == 3

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert processes_with(str(tmp_path)) == []
    assert all(seen.pid is None for seen in (await cluster.status()).bookies)
    await cluster.down(purge=True)


def test_a_bookie_that_cannot_stop_in_order_is_killed(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonekeeper.shell.local_bookies.STOP_TIMEOUT_MS", 200)
    world.data("up", *SMALL)
    pid = world.column("pid")["bk-a-0"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSTOP)

    assert world.data("down")["stopped"] == ALL
    assert processes_with(str(world.folder)) == []
