"""The troubles that the store in memory makes to order, and that it makes them truly."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.support import playing, virtual_time
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import Versioned
from zonekeeper.metadata.stores import tree
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts

_TIMEOUTS = Timeouts(session_ms=10_000, request_ms=3_000)


def _play(scene: Callable[[MemoryServer, MemoryStore, MemoryStore], Awaitable[None]]) -> None:
    async def play() -> None:
        server = MemoryServer()
        one = MemoryStore(server, timeouts=_TIMEOUTS)
        two = MemoryStore(server, timeouts=_TIMEOUTS)
        await scene(server, one, two)
        await one.close()
        await two.close()

    virtual_time.run(play())


_played = playing.by(_play, parts=3)


def _now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


def _value(node: Versioned | None) -> bytes | None:
    return None if node is None else node.value


@_played()
async def test_a_follower_that_is_behind_shows_the_past_and_sync_catches_up(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    two.read_lag_ms = 1_000
    await one.create("/a", b"1")
    await asyncio.sleep(0.6)
    await one.put("/a", b"2", version=0)
    await one.create("/b")
    assert await two.get("/a") is None
    await asyncio.sleep(0.5)
    assert _value(await two.get("/a")) == b"1"
    assert await two.children("/") == ("a",)
    assert _value(await two.get("/a", sync=True)) == b"2"
    assert await two.children("/") == ("a", "b"), "never behind what was shown"


@_played()
async def test_a_follower_is_never_behind_its_clients_own_writes(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    two.read_lag_ms = 60_000
    await one.create("/a")
    await two.create("/b")
    assert await two.children("/") == ("a", "b")


@_played()
async def test_a_deleted_child_shows_in_the_past(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    await one.create("/a/b", b"v", make_parents=True)
    two.read_lag_ms = 1_000
    await asyncio.sleep(2)
    await one.delete("/a/b", version=0)
    await one.delete("/a", version=0)
    assert await two.children("/a") == ("b",)
    assert _value(await two.get("/a/b")) == b"v"
    await asyncio.sleep(1)
    assert await two.children("/a") is None


@_played()
async def test_a_watch_is_as_late_as_its_follower(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    two.read_lag_ms = 1_000
    async with two.watch("/a") as states:
        assert await anext(states) is None
        await one.create("/a", b"1")
        assert _value(await anext(states)) == b"1"
        assert _now_ms() == pytest.approx(1_000, abs=1)


@pytest.mark.parametrize("lag_ms", [1, 7, 13, 100, 333, 1_001])
@_played()
async def test_a_late_watch_misses_nothing_by_rounding(
    server: MemoryServer, one: MemoryStore, two: MemoryStore, lag_ms: int
) -> None:
    two.read_lag_ms = lag_ms
    await one.create("/a")
    async with two.watch("/a") as states:
        for version in range(100):
            await asyncio.sleep(0.1)
            await one.put("/a", b"%d" % version, version=version)
            async for state in states:
                if state is not None and state.version == version + 1:
                    break


@_played()
async def test_travel_takes_its_time_and_keeps_its_order(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    passages = iter([Passage(there_ms=50), Passage(), Passage(back_ms=30)])
    one.weather = lambda _: next(passages, Passage())
    async with asyncio.TaskGroup() as group:
        group.create_task(one.create("/a"))
        group.create_task(one.put("/a", b"1", version=0))
        group.create_task(one.put("/a", b"2", version=1))
    assert _now_ms() == pytest.approx(80, abs=1)
    assert _value(await two.get("/a")) == b"2"


@pytest.mark.parametrize("loss", [ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])
@_played()
async def test_a_lost_write_is_unknown_whether_it_was_applied_or_not(
    server: MemoryServer, one: MemoryStore, two: MemoryStore, loss: ExchangeLoss
) -> None:
    one.weather = lambda kind: Passage(
        loss=loss if kind is RequestKind.WRITE else ExchangeLoss.NOTHING
    )
    with pytest.raises(errors.StoreUnavailableError) as lost:
        await one.create("/a")
    assert lost.value.maybe_applied
    assert await two.exists("/a") is (loss is ExchangeLoss.ANSWER)


@_played()
async def test_what_is_under_way_is_lost_with_the_connection(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    passages = iter([Passage(back_ms=100), Passage(there_ms=10, loss=ExchangeLoss.REQUEST)])
    one.weather = lambda _: next(passages, Passage())
    results = await asyncio.gather(
        one.create("/a"), one.create("/b"), one.create("/c"), return_exceptions=True
    )
    assert [type(result) for result in results] == [errors.StoreUnavailableError] * 3
    assert await two.children("/") == ("a",)
    assert await two.children("/") == ("a",), "nothing arrives later"


@_played()
async def test_a_lost_read_is_repeated(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    losses = iter([ExchangeLoss.REQUEST, ExchangeLoss.ANSWER, ExchangeLoss.ANSWER])
    await two.create("/a", b"1")
    one.weather = lambda _: Passage(loss=next(losses, ExchangeLoss.NOTHING))
    assert _value(await one.get("/a")) == b"1"


@_played()
async def test_a_client_that_is_cut_off_waits_and_then_gives_up(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    one.cut()
    assert not one.session.connected
    with pytest.raises(errors.StoreUnavailableError) as late:
        await one.create("/a")
    assert not late.value.maybe_applied, "nothing is sent while nobody is reached"
    assert _now_ms() == 3_000
    with pytest.raises(errors.StoreUnavailableError):
        await one.get("/a")
    asyncio.get_running_loop().call_later(1, one.mend)
    await one.create("/b")
    assert await two.children("/") == ("b",)


@_played()
async def test_a_session_that_is_mended_in_time_goes_on(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    session = one.session
    await one.create("/a", ephemeral=True)
    one.cut()
    await asyncio.sleep(9.9)
    one.mend()
    await asyncio.sleep(60)
    assert one.session == session
    assert await two.exists("/a")


@_played()
async def test_a_session_that_is_not_mended_in_time_ends(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    old = one.session.id
    await one.create("/a", ephemeral=True)
    async with two.watch("/a") as states:
        assert await anext(states) is not None
        one.cut()
        assert await anext(states) is None
        assert _now_ms() == pytest.approx(10_000, abs=1)
    assert one.session.id == old, "who is cut off cannot know"
    one.mend()
    assert one.session.id != old
    with pytest.raises(errors.SessionLostError):
        await one.create("/b", session=old)


@_played()
async def test_a_watch_survives_a_cut_and_shows_the_last_state(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    await two.create("/a", b"0")
    async with one.watch("/a") as states:
        assert _value(await anext(states)) == b"0"
        one.cut()
        for version in range(3):
            await two.put("/a", b"%d" % (version + 1), version=version)
        asyncio.get_running_loop().call_later(20, one.mend)
        assert _value(await anext(states)) == b"3"


@_played()
async def test_who_closes_while_cut_off_leaves_its_nodes_until_the_timeout(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    await one.create("/a", ephemeral=True)
    one.cut()
    await one.close()
    assert await two.exists("/a")
    await asyncio.sleep(10.1)
    assert not await two.exists("/a")
    assert server.last_change_id == 2


@_played()
async def test_a_cancelled_write_may_be_applied_all_the_same(
    server: MemoryServer, one: MemoryStore, two: MemoryStore
) -> None:
    one.weather = lambda _: Passage(there_ms=100)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await one.create("/a")
    await asyncio.sleep(0.1)
    assert await two.exists("/a")


def test_the_same_scene_is_the_same_every_time() -> None:
    async def once() -> list[object]:
        server = MemoryServer()
        stores = [MemoryStore(server) for _ in range(3)]
        seen: list[object] = []

        async def follow(number: int) -> None:
            async with stores[number % 3].watch_children("/") as states:
                async for names in states:
                    seen.append((number, names))
                    if names is not None and len(names) == 5:
                        return

        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(follow(number))
            for number in range(5):
                group.create_task(stores[number % 3].create(f"/n{number}"))
        return seen

    assert virtual_time.run(once()) == virtual_time.run(once())


def test_sequence_numbers_wrap_as_zookeepers_do() -> None:
    assert tree.sequential_path("/n-", 0) == "/n-0000000000"
    assert tree.sequential_path("/n-", (1 << 31) - 1) == "/n-2147483647"
    assert tree.sequential_path("/n-", 1 << 31) == "/n--2147483648"
    assert tree.sequential_path("/n-", (1 << 32) - 5) == "/n--000000005"
    assert tree.sequential_path("/n-", 1 << 32) == "/n-0000000000"
