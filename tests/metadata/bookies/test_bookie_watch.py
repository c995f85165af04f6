"""The bookies of a cluster as snapshots of cookies, registrations, rooms and records."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.metadata.bookies.test_bookies import (
    IN_A,
    IN_A_UD1,
    IN_B,
    INSTANCE,
    WHY,
    A,
    B,
    cookie,
    registrar,
    sides,
)
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import bookie_records, bookie_watch, cookie_store
from zonekeeper.metadata.bookies.bookie_watch import ROOMS_EVERY_MS
from zonekeeper.metadata.bookies.registration import Mode
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Registration, Topology


async def until(states: AsyncIterator[Topology], wanted: Callable[[Topology], bool]) -> Topology:
    async with asyncio.timeout(30):
        async for state in states:
            if wanted(state):
                return state
    raise AssertionError("the stream ended")


def rooms(topology: Topology) -> dict[BookieId, tuple[int | None, int | None]]:
    return {bookie.id: (bookie.free_bytes, bookie.total_bytes) for bookie in topology}


def room(free: int) -> PublishedRoom:
    return PublishedRoom(free_bytes=free, total_bytes=1_000)


def accepts(topology: Topology) -> bool:
    bookie = topology.get(A)
    return bookie is not None and bookie.accepts_ensembles


async def test_snapshots_join_cookies_registrations_and_marks(
    cluster: Cluster, other: Cluster
) -> None:
    async with bookie_watch.watch(other) as states:
        assert len(await anext(states)) == 0
        await cookie_store.create(cluster, cookie(A))
        topology = await until(states, lambda t: A in t)
        bookie = topology.get(A)
        assert bookie is not None
        assert (bookie.location, bookie.registration) == (IN_A, Registration.ABSENT)

        await registrar(cluster, A).register(Mode.WRITABLE)
        await until(states, lambda t: bool((b := t.get(A)) and b.accepts_ensembles))

        await bookie_records.drain(cluster, A, WHY)
        await until(
            states, lambda t: bool((b := t.get(A)) and b.draining and not b.accepts_ensembles)
        )

        await cookie_store.settle_location(cluster, A, IN_A_UD1)
        await until(states, lambda t: t.location(A) == IN_A_UD1)

        await cluster.store.close()
        gone = await until(states, lambda t: bool((b := t.get(A)) and not b.readable))
        assert gone.location(A) == IN_A_UD1, "a bookie that is down keeps its zone"


async def test_a_bookie_that_changes_sides_is_never_shown_as_absent(
    cluster: Cluster, other: Cluster
) -> None:
    await cookie_store.create(cluster, cookie(A))
    bookie = registrar(cluster, A)
    await bookie.register(Mode.WRITABLE)
    seen: list[Registration] = []

    async def look(states: AsyncIterator[Topology]) -> None:
        async for topology in states:
            found = topology.get(A)
            assert found is not None
            seen.append(found.registration)
            if topology.get(B) is not None:
                return

    async with bookie_watch.watch(other) as states, asyncio.TaskGroup() as group:
        group.create_task(look(states))
        for _ in range(20):
            await bookie.register(Mode.READ_ONLY)
            await bookie.register(Mode.WRITABLE)
        await cookie_store.create(cluster, cookie(B))
    assert Registration.ABSENT not in seen


async def test_s178_a_disk_that_bookies_share_counts_once(cluster: Cluster, other: Cluster) -> None:
    disk = "00c0ffee00c0ffee"
    for name in (A, B):
        await cookie_store.create(cluster, cookie(name))
    one, two = registrar(cluster, A), registrar(cluster, B)
    await one.tell_room(PublishedRoom(free_bytes=60, total_bytes=100, disk=disk))
    await two.tell_room(PublishedRoom(free_bytes=61, total_bytes=100, disk=disk))
    await one.register(Mode.WRITABLE)

    async with bookie_watch.watch(other) as states:
        await until(states, lambda t: rooms(t) == {A: (60, 100), B: (None, None)})

        await two.register(Mode.READ_ONLY)
        seen = await until(states, lambda t: rooms(t) == {A: (30, 50), B: (30, 50)})
        assert [bookie.sharers for bookie in seen] == [2, 2]

        await two.tell_room(PublishedRoom(free_bytes=61, total_bytes=100))
        await until(states, lambda t: rooms(t) == {A: (60, 100), B: (61, 100)})


async def test_a_snapshot_has_the_room_that_each_registered_bookie_says(
    cluster: Cluster, other: Cluster
) -> None:
    for name in (A, B):
        await cookie_store.create(cluster, cookie(name))
    speaks, older = registrar(cluster, A), registrar(cluster, B)
    await speaks.tell_room(PublishedRoom(free_bytes=7, total_bytes=10))
    assert await sides(cluster, A) == (False, False), "a room alone registers nobody"
    await speaks.register(Mode.WRITABLE)
    await older.register(Mode.WRITABLE)

    async with bookie_watch.watch(other) as states:
        await until(states, lambda t: rooms(t) == {A: (7, 10), B: (None, None)})

        await speaks.tell_room(PublishedRoom(free_bytes=0, total_bytes=10))
        await until(states, lambda t: rooms(t)[A] == (0, 10))

        await speaks.register(Mode.READ_ONLY)
        await until(states, lambda t: not accepts(t) and rooms(t)[A] == (0, 10))

        await speaks.leave()
        gone = await until(states, lambda t: bool((b := t.get(A)) and not b.readable))
        assert rooms(gone)[A] == (None, None), "a bookie that is gone has no room to offer"
    await older.leave()


@virtual_time.played
async def test_rooms_that_move_all_the_time_make_few_snapshots_and_hold_up_no_other_news() -> None:
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    names = [BookieId(f"c-a-{number}") for number in range(50)]
    many = {name: registrar(cluster, name) for name in names}
    for name in names:
        await cookie_store.create(cluster, cookie(name))
        await many[name].tell_room(room(1_000))
        await many[name].register(Mode.WRITABLE)
    now_s = asyncio.get_running_loop().time
    seen: list[tuple[float, Topology]] = []

    async def look(states: AsyncIterator[Topology]) -> None:
        async for topology in states:
            seen.append((now_s(), topology))

    async def shown(holds: Callable[[Topology], bool]) -> float:
        """Give the time since which something was shown, of the news that were told now."""
        told = len(seen)
        await asyncio.sleep(0.1)
        return next(at_s for at_s, topology in seen[told:] if holds(topology))

    onlooker = await clusters.open_cluster(await place.open())
    async with bookie_watch.watch(onlooker) as states, asyncio.TaskGroup() as group:
        looking = group.create_task(look(states))
        began_s = now_s()
        for free in range(999, 899, -1):
            await asyncio.gather(*(one.tell_room(room(free)) for one in many.values()))
            await asyncio.sleep(0.1)
        lasted_s = now_s() - began_s
        assert 5 <= len(seen) <= 2 + lasted_s * 1_000 / ROOMS_EVERY_MS

        # Just after a look at the rooms.
        await asyncio.sleep(2)
        await many[A].tell_room(room(500))
        await asyncio.sleep(0.1)
        await many[A].tell_room(room(400))
        told_s = now_s()
        await many[A].register(Mode.READ_ONLY)
        assert await shown(lambda t: not accepts(t)) == told_s
        told_s = now_s()
        await many[A].leave()
        assert await shown(lambda t: bool((b := t.get(A)) and not b.readable)) == told_s
        told_s = now_s()
        await many[A].register(Mode.WRITABLE)
        assert await shown(accepts) == told_s

        # The last room is known in time, whatever came before it.
        await many[A].tell_room(room(300))
        await asyncio.sleep(ROOMS_EVERY_MS / 1_000)
        await asyncio.sleep(0)
        assert rooms(seen[-1][1])[A] == (300, 1_000)
        looking.cancel()
    await place.close()


async def test_a_registration_that_cannot_be_read_is_of_unknown_room_and_reported(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cookie_store.create(cluster, cookie(A))
    await cluster.store.create(cluster.root.writable(A), b"garbage", ephemeral=True)
    async with bookie_watch.watch(cluster) as states:
        topology = await anext(states)
    assert rooms(topology) == {A: (None, None)}
    assert "registration of c-a-0" in caplog.text


async def test_the_first_snapshot_has_all_rooms(cluster: Cluster, other: Cluster) -> None:
    """Short commands take only one look."""
    for name in (A, B):
        await cookie_store.create(cluster, cookie(name))
        one = registrar(cluster, name)
        await one.tell_room(PublishedRoom(free_bytes=1, total_bytes=2))
        await one.register(Mode.WRITABLE if name == A else Mode.READ_ONLY)
    async with bookie_watch.watch(other) as states:
        assert rooms(await anext(states)) == {A: (1, 2), B: (1, 2)}


async def test_a_bookie_whose_cookie_cannot_be_read_is_in_no_zone_and_reported(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.store.create(cluster.root.cookie(A), b"garbage")
    await registrar(cluster, B).register(Mode.WRITABLE)  # and this one has no cookie at all
    async with bookie_watch.watch(cluster) as states:
        topology = await anext(states)
    assert topology.location(A) is None
    assert topology.location(B) is None
    assert topology.zones == ()
    assert "cookie of c-a-0" in caplog.text


async def test_a_bookie_whose_record_cannot_be_read_gets_no_new_data(cluster: Cluster) -> None:
    await cookie_store.create(cluster, cookie(A))
    await registrar(cluster, A).register(Mode.WRITABLE)
    await cluster.store.create(cluster.root.beside(f"bookies/{A}"), b"garbage")
    async with bookie_watch.watch(cluster) as states:
        bookie = (await anext(states)).get(A)
    assert bookie is not None
    assert not bookie.accepts_ensembles


async def test_snapshots_go_on_after_the_store_was_out_of_reach(memory: MemoryPlace) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    onlooker = await memory.open()
    assert isinstance(onlooker, MemoryStore)
    async with bookie_watch.watch(await clusters.open_cluster(onlooker)) as states:
        assert len(await anext(states)) == 0
        onlooker.cut()
        await cookie_store.create(cluster, cookie(A))
        await cookie_store.create(cluster, cookie(B, IN_B))
        onlooker.mend()
        topology = await until(states, lambda t: len(t) == 2)
    assert topology.zones == ("a", "b")
