"""Endpoints as the store has them, and what is noted of them in the user's cache."""

import os
from pathlib import Path

import pytest

from tests.metadata.cluster import test_announced as announcing
from tests.support import virtual_time
from zonekeeper.metadata.cluster import announced
from zonekeeper.metadata.cluster.announced import Announcement
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.shell.reaching import endpoints, last_seen
from zonekeeper.shell.reaching.last_seen import KnownProcess, LastSeen, NothingSeen
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running.page_identity import ProcessKind

ADDRESS = "zk://zk-0:2181/ledgers?auth-file=/s"
NOW = 1_700_000_000_000
LOCATION = Location(ZoneName("b"), UpgradeDomain("ud-1"))


async def register(cluster: Cluster, name: str, *, http_port: int | None = 8080) -> None:
    bookie = BookieId(name)
    info = service_info.of_bookie(f"{name}.x", 3181, LOCATION, tls=False, http_port=http_port)
    await cluster.store.create(
        cluster.root.writable(bookie), service_info.render(info), ephemeral=True, make_parents=True
    )
    cookie = f"{cluster.root.below('cookies')}/{name}"
    if not await cluster.store.exists(cookie):
        await cluster.store.create(cookie, b"", make_parents=True)


def known(name: str, *, http: Address | None) -> KnownProcess:
    return KnownProcess(
        kind=ProcessKind.BOOKIE,
        name=BookieId(name),
        zone=LOCATION.zone,
        upgrade_domain=LOCATION.upgrade_domain,
        http=http,
        address=f"{name}.x:3181",
        seen_ms=NOW,
    )


@virtual_time.played
async def test_all_processes_of_a_cluster_are_read_with_their_endpoints() -> None:
    cluster = await announcing.joined(MemoryServer())
    await register(cluster, "bk-0")
    await register(cluster, "bk-1", http_port=None)
    foreign = cluster.root.writable(BookieId("bk-2"))
    await cluster.store.create(foreign, b"\xff", ephemeral=True)
    session = announcing.session(cluster)
    await announced.announce(cluster, announcing.ONE, session)

    found = await endpoints.read(cluster, ADDRESS, NOW)
    auto = KnownProcess(
        kind=ProcessKind.AUTORECOVERY,
        name=BookieId("auto-0"),
        zone=ZoneName("a"),
        upgrade_domain=None,
        http=Address("h", 8080),
        address=None,
        seen_ms=NOW,
    )
    assert found == LastSeen(
        store="zk://zk-0:2181/ledgers",
        instance=announcing.INSTANCE,
        seen_ms=NOW,
        processes=(
            auto,
            known("bk-0", http=Address("bk-0.x", 8080)),
            known("bk-1", http=None),
        ),
    )


@virtual_time.played
async def test_a_process_of_an_unknown_kind_is_left_out() -> None:
    cluster = await announcing.joined(MemoryServer())
    one = Announcement(kind="ghost", name="g", zone="", http="h:1")
    await announced.announce(cluster, one, announcing.session(cluster))
    assert (await endpoints.read(cluster, ADDRESS, NOW)).processes == ()


@virtual_time.played
async def test_an_announcement_says_whether_the_pages_are_by_certificate() -> None:
    for one, wanted in ((announcing.ONE, False), (announcing.TWO, True)):
        cluster = await announcing.joined(MemoryServer())
        await announced.announce(cluster, one, announcing.session(cluster))
        (found,) = (await endpoints.read(cluster, ADDRESS, NOW)).processes
        assert found.http_tls is wanted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return last_seen.cache_folder(os.environ)


def names(folder: Path) -> list[str]:
    found = last_seen.recall(folder, last_seen.store_name(ADDRESS))
    return [one.name for one in found.processes] if isinstance(found, LastSeen) else []


@pytest.mark.usefixtures("folder")
@virtual_time.played
async def test_what_is_noted_stays_until_a_bookie_is_removed() -> None:
    folder = last_seen.cache_folder(os.environ)
    cluster = await announcing.joined(MemoryServer())
    for name in ("bk-0", "bk-1"):
        await register(cluster, name)
    await endpoints.note(cluster, ADDRESS, NOW)
    assert names(folder) == ["bk-0", "bk-1"]
    for name in ("bk-0", "bk-1"):
        await cluster.store.delete(cluster.root.writable(BookieId(name)), version=None)
    await endpoints.note(cluster, ADDRESS, NOW + 1)
    assert names(folder) == ["bk-0", "bk-1"], "they are away, and not removed"
    await cluster.store.delete(f"{cluster.root.below('cookies')}/bk-1", version=None)
    before = last_seen.recall(folder, last_seen.store_name(ADDRESS))
    found = await endpoints.read_and_note(cluster, ADDRESS, NOW + 2, before)
    assert [one.name for one in found.processes] == names(folder) == ["bk-0"]


@virtual_time.played
async def test_a_process_that_runs_on_remembers_without_a_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    cluster = await announcing.joined(MemoryServer())
    for name in ("bk-0", "bk-1"):
        await register(cluster, name)
    found = await endpoints.read_and_note(cluster, ADDRESS, NOW, NothingSeen("the first look"))
    for name in ("bk-0", "bk-1"):
        await cluster.store.delete(cluster.root.writable(BookieId(name)), version=None)
    await cluster.store.delete(f"{cluster.root.below('cookies')}/bk-1", version=None)
    found = await endpoints.read_and_note(cluster, ADDRESS, NOW + 1, found)
    assert [one.name for one in found.processes] == ["bk-0"], "away; the other is removed"


@pytest.mark.usefixtures("folder")
@virtual_time.played
async def test_a_store_that_does_not_answer_while_endpoints_are_noted_is_no_error() -> None:
    folder = last_seen.cache_folder(os.environ)
    cluster = await announcing.joined(MemoryServer())
    await endpoints.note(cluster, "memory:", NOW)
    assert isinstance(cluster.store, MemoryStore)
    cluster.store.cut()
    await endpoints.note(cluster, ADDRESS, NOW)
    assert names(folder) == []
