"""A local cluster of real processes: up, hit, restored, down."""

import asyncio
import os
import select
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.shell.live_cluster import opened
from tests.shell.local_world import LocalWorld, local_world, processes_with
from tests.support import held_ports, zookeeper
from zonekeeper.client.api.client import connect
from zonekeeper.client.base import beside_store
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.cluster import elections, zone_store
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.shell.local import local_room, local_state, local_zookeeper
from zonekeeper.shell.local.local_cluster import LocalCluster

pytestmark = pytest.mark.processes

SMALL = ("--bookies-per-zone", "1")
BOOKIES = ["bk-a-0", "bk-b-0", "bk-c-0"]
ALL = [*BOOKIES, "auto-0", "auto-1"]
C = ZoneName("c")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    with local_world(tmp_path / "a cluster") as made:
        yield made


def test_a_cluster_lives_through_kills_and_keeps_what_it_was_told(world: LocalWorld) -> None:
    assert world.data("up", *SMALL)["started"] == ALL
    assert world.data("up", *SMALL)["started"] == []
    assert world.column("process") == dict.fromkeys(BOOKIES, "running")
    assert world.column("registration") == dict.fromkeys(BOOKIES, "writable")
    assert world.data("status")["tls"] is True
    assert {one["process"] for one in world.autorecovery().values()} == {"running"}
    ledger_id = asyncio.run(write(world))
    assert max(asyncio.run(rooms(world))) <= local_room.CAPACITY_BYTES_MAX, "S177"

    assert world.data("kill-bookie", "bk-a-0")["killed"] == ["bk-a-0"]
    assert world.data("kill-autorecovery", "auto-0")["killed"] == ["auto-0"]
    assert world.data("kill-zone", "b")["killed"] == ["bk-b-0", "auto-1"]
    die(world, "bk-c-0")
    assert world.column("process") == {
        "bk-a-0": "stopped",
        "bk-b-0": "stopped",
        "bk-c-0": "ended by itself",
    }
    assert {one["process"] for one in world.autorecovery().values()} == {"stopped"}

    assert world.data("restore-zone", "b")["started"] == ["bk-b-0", "auto-1"]
    assert world.data("up")["started"] == ["bk-a-0", "bk-c-0", "auto-0"]
    stopped = world.data("down")["stopped"]
    assert isinstance(stopped, list)
    assert sorted(stopped) == sorted(ALL)
    assert world.column("process") == dict.fromkeys(BOOKIES, "stopped")
    assert world.column("registration") == dict.fromkeys(BOOKIES, "absent")
    assert processes_with(str(world.folder)) == []

    assert world.data("up")["started"] == ALL
    assert asyncio.run(read(world, ledger_id)) == [b"first", b"second"]
    assert world.data("down", "--purge")["purged"] is True
    assert not world.folder.exists()


def test_a_zone_that_is_cut_off_is_seen_down_and_comes_back_when_it_goes_on(
    world: LocalWorld,
) -> None:
    started = world.call("up", "--bookies-per-zone", "2", "--plaintext")
    assert "timers are scaled down" in started.stdout
    assert "bookies serve plain text" in started.stdout
    address = str(world.data("status")["metadata"])
    asyncio.run(zone_is(address, C, Observation.UP))

    assert world.data("partition-zone", "c")["cutOff"] == ["bk-c-0", "bk-c-1"]
    asyncio.run(zone_is(address, C, Observation.DOWN))
    assert world.column("process")["bk-c-0"] == "cut off"
    found = world.data("status")
    assert found["underReplicated"] == 0
    zones = found["zones"]
    assert isinstance(zones, dict)
    assert [(zone["observation"], zone["permission"]) for zone in zones.values()] == [
        ("up", "open"),
        ("up", "open"),
        ("down", "held"),
    ]
    shown = world.call("status").stdout
    assert "zone c is down: 0 of 2 bookies available" in shown
    assert "ledgers that wait for repair: 0" in shown
    assert "zone watch" in shown

    assert world.data("heal-zone", "c")["healed"] == ["bk-c-0", "bk-c-1"]
    asyncio.run(zone_is(address, C, Observation.UP))
    assert world.column("process")["bk-c-0"] == "running"
    assert world.column("registration")["bk-c-0"] == "writable"

    world.data("partition-zone", "c")
    assert world.data("down", "--purge")["purged"] is True
    assert processes_with(str(world.folder)) == []


def test_what_a_killed_autorecovery_process_was_elected_for_another_one_takes_over(
    world: LocalWorld,
) -> None:
    world.data("up", *SMALL)
    address = str(world.data("status")["metadata"])
    first = asyncio.run(zone_watch_is_not(address, None))

    world.data("kill-autorecovery", first)
    second = asyncio.run(zone_watch_is_not(address, first))

    assert {first, second} == {"auto-0", "auto-1"}
    assert "zone watch" in str(world.autorecovery()[second]["leads"])
    assert world.autorecovery()[first]["leads"] == []


def die(world: LocalWorld, bookie: str) -> None:
    """Kill a bookie behind the command's back, and wait for its end."""
    pid = world.column("pid")[bookie]
    assert isinstance(pid, int)
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([process], [], [])
    os.close(process)


def config(world: LocalWorld) -> ClientConfig:
    """Name the certificate of programs, which is found by no address of ZooKeeper."""
    cluster = LocalCluster(world.folder)
    if cluster.address.startswith("sqlite:"):
        return ClientConfig()
    files = beside_store.files_in(cluster.folder.certificates / beside_store.CLIENT)
    return ClientConfig(tls=files)


async def write(world: LocalWorld) -> int:
    async with connect(LocalCluster(world.folder).address, config(world)) as client:
        async with await client.create() as writer:
            await writer.append_many([b"first", b"second"])
        return writer.ledger_id


async def rooms(world: LocalWorld) -> list[int]:
    """Give what each bookie counts as the size of its disk."""
    async with connect(LocalCluster(world.folder).address) as client:
        return [bookie.total_bytes or 0 for bookie in client.bookies.topology]


async def read(world: LocalWorld, ledger_id: int) -> list[bytes]:
    async with connect(LocalCluster(world.folder).address, config(world)) as client:
        number = next(iter([found async for found in client.ledgers() if found == ledger_id]))
        reader = await client.open(number)
        return [bytes(entry.payload) async for entry in reader.read_entries()]


async def zone_is(address: str, zone: ZoneName, state: Observation) -> None:
    """Wait until a zone is seen so."""
    async with opened(address) as cluster, zone_store.watch_zones(cluster) as states:
        async for seen in states:
            record = seen.get(zone)
            if isinstance(record, ZoneRecord) and record.observed.state is state:
                return


async def zone_watch_is_not(address: str, former: str | None) -> str:
    """Wait until another zone watch has evaluated; give its name."""
    async with opened(address) as cluster, zone_store.watch_zones(cluster) as states:
        async for _ in states:
            leader = await elections.leader(cluster.store, elections.zone_watch_votes(cluster))
            if leader not in (None, former):
                return str(leader)
    raise AssertionError("a watch does not end by itself")


def test_up_is_all_or_nothing_and_shows_the_last_words_of_who_failed(world: LocalWorld) -> None:
    world.data("up", *SMALL)
    world.data("kill-bookie", "bk-a-0")
    world.data("kill-bookie", "bk-b-0")
    (world.folder / "bookies" / "bk-b-0").rename(world.folder / "moved")
    (world.folder / "bookies" / "bk-b-0").write_text("no folder")

    result = world.call("up")

    assert result.exit_code == 1
    assert "bk-b-0 ended, so what was started with it is stopped again" in result.stderr
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
    monkeypatch.setattr("zonekeeper.shell.local.local_starting.STOP_TIMEOUT_MS", 0)
    world.data("up", *SMALL)

    assert len(str(world.data("down")["stopped"]).split()) == len(ALL)
    assert processes_with(str(world.folder)) == []


@pytest.fixture
def kept_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The ZooKeeper server's port is no other process's before its start and while it is down."""
    with ExitStack() as held:
        (port,) = held_ports.choose(1, "127.0.0.1", held)
        monkeypatch.setattr(local_zookeeper, "free_port", lambda: port)
        yield


@pytest.mark.usefixtures("kept_port")
def test_with_a_zookeeper_server_it_keeps_what_it_was_told(world: LocalWorld) -> None:
    zookeeper.require()
    assert world.data("up", "--zookeeper", *SMALL)["started"] == ["zookeeper", *ALL]
    found = world.data("status")
    assert str(found["metadata"]).startswith("zk://127.0.0.1:")
    assert "ZooKeeper: pid" in world.call("status").stdout
    ledger_id = asyncio.run(write(world))

    stopped = world.data("down")["stopped"]
    assert isinstance(stopped, list)
    assert sorted(stopped) == sorted(["zookeeper", *ALL])
    assert processes_with(str(world.folder)) == []
    found = world.data("status")
    assert found["unknown"] == "its ZooKeeper server does not run"
    assert found["underReplicated"] is None

    (world.folder / "bookies" / "bk-b-0").rename(world.folder / "moved")
    (world.folder / "bookies" / "bk-b-0").write_text("no folder")
    assert world.call("up").exit_code == 1
    assert processes_with(str(world.folder)) == []
    (world.folder / "bookies" / "bk-b-0").unlink()
    (world.folder / "moved").rename(world.folder / "bookies" / "bk-b-0")

    assert world.data("up")["started"] == ["zookeeper", *ALL]
    assert world.data("status")["metadata"] == found["metadata"]
    assert asyncio.run(read(world, ledger_id)) == [b"first", b"second"]
    assert world.data("down", "--purge")["purged"] is True
    assert not world.folder.exists()
