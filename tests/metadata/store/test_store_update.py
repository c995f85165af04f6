"""Compare-and-set loops: nothing lost, nothing twice, and unknown only where it must be."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable

import pytest

from tests.support import playing, virtual_time
from zonekeeper.metadata.store import errors, update
from zonekeeper.metadata.store.store import Check, Create, Delete, Versioned
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts

PATH = "/list"


def _append(token: bytes) -> update.Decide:
    """Append a token, unless it is there: so a change is known again whose answer was lost."""

    def decide(state: Versioned | None) -> update.Decision:
        value = b"" if state is None else state.value
        return update.Keep() if token and token in value else update.Store(value + token)

    return decide


def _count_on(state: Versioned | None) -> update.Decision:
    return update.Store(b"%d" % (1 if state is None else int(state.value) + 1))


def _losing(losses: Iterable[ExchangeLoss]) -> Callable[[RequestKind], Passage]:
    """Weather that loses what is said of the first writes, and nothing after them."""
    left = iter(losses)

    def weather(kind: RequestKind) -> Passage:
        return Passage(
            loss=next(left, ExchangeLoss.NOTHING)
            if kind is RequestKind.WRITE
            else ExchangeLoss.NOTHING
        )

    return weather


def _in_a_world(scene: Callable[[MemoryStore, MemoryStore], Awaitable[None]]) -> None:
    async def play() -> None:
        server = MemoryServer()
        one, two = MemoryStore(server), MemoryStore(server)
        await scene(one, two)
        await one.close()
        await two.close()

    virtual_time.run(play())


_played = playing.by(_in_a_world, parts=2)


async def _value(store: MemoryStore) -> bytes | None:
    return _value_of(await store.get(PATH, sync=True))


def _value_of(node: Versioned | None) -> bytes | None:
    return None if node is None else node.value


@_played()
async def test_an_absent_node_is_created_and_a_present_one_replaced(
    one: MemoryStore, two: MemoryStore
) -> None:
    first = await update.update(one, PATH, _append(b"a"))
    second = await update.update(one, PATH, _append(b"b"))
    assert first == update.Standing(value=b"a", version=0)
    assert second == update.Standing(value=b"ab", version=1)


@_played()
async def test_a_node_can_be_removed_and_kept(one: MemoryStore, two: MemoryStore) -> None:
    await one.create(PATH, b"a")
    kept = await update.update(one, PATH, lambda _: update.Keep())
    assert kept == update.Standing(value=b"a", version=0)
    assert await update.update(one, PATH, lambda _: update.RemoveNode()) is None
    assert await update.update(one, PATH, lambda _: update.RemoveNode()) is None
    assert await update.update(one, PATH, lambda _: update.Keep()) is None
    assert await _value(one) is None


@_played()
async def test_many_at_once_lose_nothing(one: MemoryStore, two: MemoryStore) -> None:
    tokens = [b"%02d " % n for n in range(50)]
    async with asyncio.TaskGroup() as group:
        for token, store in zip(tokens, itertools.cycle((one, two)), strict=False):
            group.create_task(update.update(store, PATH, _append(token)))
    value = await _value(one)
    assert value is not None
    assert sorted(value.split()) == [token.strip() for token in tokens]


_LOSSES = tuple(itertools.product(ExchangeLoss, repeat=3))


def _whatever_is_lost(
    scene: Callable[[MemoryStore, MemoryStore], Awaitable[None]], there: bytes | None
) -> None:
    """Play with every way to lose the requests or answers of the first writes of two writers."""
    for lost_of_one, lost_of_two in itertools.product(_LOSSES, repeat=2):

        async def losing(
            one: MemoryStore,
            two: MemoryStore,
            lost_of_one: tuple[ExchangeLoss, ...] = lost_of_one,
            lost_of_two: tuple[ExchangeLoss, ...] = lost_of_two,
        ) -> None:
            if there is not None:
                await one.create(PATH, there)
            one.weather = _losing(lost_of_one)
            two.weather = _losing(lost_of_two)
            await scene(one, two)

        _in_a_world(losing)


@pytest.mark.parametrize("there", [True, False], ids=["present", "absent"])
def test_whatever_is_lost_a_change_that_knows_itself_again_is_made_exactly_once(
    there: bool,
) -> None:
    """Every way to lose the requests or answers of the first three writes of two writers."""

    async def scene(one: MemoryStore, two: MemoryStore) -> None:
        async with asyncio.TaskGroup() as group:
            for store, token in ((one, b"a"), (two, b"b")):
                group.create_task(update.update(store, PATH, _append(token)))
        assert await _value(one) in (b"ab", b"ba")

    _whatever_is_lost(scene, b"" if there else None)


@pytest.mark.parametrize("there", [True, False], ids=["present", "absent"])
def test_whatever_is_lost_two_that_count_never_get_the_same_number(there: bool) -> None:
    """Both would write the same bytes: the value does not say which process wrote it."""

    async def scene(one: MemoryStore, two: MemoryStore) -> None:
        async with asyncio.TaskGroup() as group:
            counting = [
                group.create_task(update.update(store, PATH, _count_on)) for store in (one, two)
            ]
        first, second = (task.result() for task in counting)
        assert first is not None
        assert second is not None
        assert first.value != second.value

    _whatever_is_lost(scene, b"0" if there else None)


@_played()
async def test_a_lost_answer_is_made_good_by_looking_again(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH)
    for loss, token in (
        (ExchangeLoss.ANSWER, b"x"),
        (ExchangeLoss.REQUEST, b"y"),
        (ExchangeLoss.ANSWER, b"z"),
    ):
        one.weather = _losing([loss])
        await update.update(one, PATH, _append(token))
    assert await _value(one) == b"xyz"
    one.weather = _losing([ExchangeLoss.ANSWER])
    assert await update.update(one, PATH, lambda _: update.RemoveNode()) is None
    one.weather = _losing([ExchangeLoss.ANSWER])
    await update.update(one, PATH, _append(b"b"))
    assert await _value(one) == b"b"


@virtual_time.played
async def test_a_write_that_arrives_late_is_not_made_twice() -> None:
    """The store gives up waiting, reads the old state, and only then the write arrives."""
    server = MemoryServer()
    slow = MemoryStore(server, timeouts=Timeouts(session_ms=60_000, request_ms=100))
    await slow.create(PATH)
    delays = iter([250])
    slow.weather = lambda kind: Passage(
        there_ms=next(delays, 0) if kind is RequestKind.WRITE else 0
    )
    await update.update(slow, PATH, _append(b"a"))
    assert await _value(slow) == b"a"
    await slow.close()


@_played()
async def test_a_removal_of_unknown_outcome_is_done_when_the_node_is_gone(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH)
    one.weather = _losing([ExchangeLoss.REQUEST])

    def decide(state: Versioned | None) -> update.Decision:
        return update.Keep() if state is None else update.RemoveNode()

    async with asyncio.TaskGroup() as group:
        group.create_task(update.update(one, PATH, decide))
        group.create_task(two.delete(PATH, version=0))
    assert await _value(one) is None


@_played()
async def test_a_change_of_unknown_outcome_is_decided_again_on_another_node_by_the_same_name(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH, b"x")
    one.weather = _losing([ExchangeLoss.ANSWER])
    async with asyncio.TaskGroup() as group, two.watch(PATH) as states:
        assert _value_of(await anext(states)) == b"x"
        group.create_task(update.update(one, PATH, _append(b"a")))
        assert _value_of(await anext(states)) == b"xa"
        await two.delete(PATH, version=1)
        await two.create(PATH, b"y")
    assert await _value(one) == b"ya"


@_played()
async def test_the_deadline_holds_and_says_whether_something_may_have_been_written(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH)
    one.weather = lambda kind: Passage(
        loss=ExchangeLoss.REQUEST if kind is RequestKind.WRITE else ExchangeLoss.NOTHING
    )
    with pytest.raises(errors.StoreUnavailableError) as late:
        await update.update(one, PATH, _append(b"a"), deadline_ms=5_000)
    assert late.value.maybe_applied
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)

    one.cut()
    with pytest.raises(errors.StoreUnavailableError) as unsent:
        await update.update(one, PATH, _append(b"a"), deadline_ms=5_000)
    assert not unsent.value.maybe_applied


@_played()
async def test_a_refusal_behind_a_write_in_doubt_says_that_something_may_have_been_written(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH)

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.WRITE:
            one.weather = refusing
            return Passage(loss=ExchangeLoss.REQUEST)
        return Passage()

    def refusing(kind: RequestKind) -> Passage:
        raise errors.UnauthorizedError(f"no {kind.value}", store=one.name)

    one.weather = refusing
    with pytest.raises(errors.UnauthorizedError) as at_once:
        await update.update(one, PATH, _append(b"a"))
    assert not at_once.value.maybe_applied
    one.weather = weather
    with pytest.raises(errors.UnauthorizedError) as behind:
        await update.update(one, PATH, _append(b"a"))
    assert behind.value.maybe_applied


@_played()
async def test_contention_without_end_is_given_up(one: MemoryStore, two: MemoryStore) -> None:
    await one.create(PATH)

    async def disturb() -> None:
        while True:
            await update.update(two, PATH, _append(b""))

    one.weather = lambda kind: Passage(there_ms=10 if kind is RequestKind.WRITE else 0)
    two.weather = lambda _: Passage(there_ms=1)
    async with asyncio.TaskGroup() as group:
        other = group.create_task(disturb())
        with pytest.raises(errors.StoreUnavailableError) as given_up:
            await update.update(one, PATH, _append(b"a"))
        assert not given_up.value.maybe_applied
        other.cancel()


@_played()
async def test_nothing_is_written_for_a_session_that_is_over(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH)
    old = one.session.id
    assert old is not None
    one._server.expire(old)
    with pytest.raises(errors.SessionLostError) as refused:
        await update.update(one, PATH, _append(b"a"), session=old)
    assert not refused.value.maybe_applied
    assert await _value(one) == b""


@_played()
async def test_a_session_lost_in_the_middle_is_survived_by_what_is_not_bound_to_it(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH)
    session = one.session.id
    assert session is not None
    one.weather = lambda _: Passage(there_ms=10, back_ms=10)
    loop = asyncio.get_running_loop()
    for at_ms in range(5, 60, 5):
        loop.call_later(at_ms / 1000, lambda: one._server.expire(one._session_id))
    await update.update(one, PATH, _append(b"a"))
    assert await _value(one) == b"a"


@_played()
async def test_what_reading_again_cannot_cure_is_raised(one: MemoryStore, two: MemoryStore) -> None:
    with pytest.raises(errors.NoNodeError):
        await update.update(one, "/absent/child", _append(b"a"))
    await one.create("/full/child", make_parents=True)
    with pytest.raises(errors.NotEmptyError):
        await update.update(one, "/full", lambda _: update.RemoveNode())
    with pytest.raises(ZeroDivisionError):
        await update.update(one, "/full", lambda _: update.Store(b"%d" % (1 // 0)))


@_played()
async def test_a_reader_that_is_behind_catches_up_after_a_conflict(
    one: MemoryStore, two: MemoryStore
) -> None:
    one.read_lag_ms = 30_000
    await two.create(PATH, b"x")
    assert await one.get(PATH) is None
    standing = await update.update(one, PATH, _append(b"a"))
    assert standing == update.Standing(value=b"xa", version=1)


# ── changes that hang on other nodes ──

OTHER = "/other"


async def _other(store: MemoryStore) -> list[Check]:
    """Give a check of the other node as it is; raises once it says no."""
    node = await store.get(OTHER, sync=True)
    if node is None or node.value == b"no":
        raise PermissionError("the test's")
    return [Check(path=OTHER, version=node.version)]


@pytest.mark.parametrize("before", [None, b"a"], ids=["that is made", "that is changed"])
@pytest.mark.parametrize("then", [b"yes", b"no", None], ids=["moves on", "says no", "goes"])
@_played()
async def test_a_node_hangs_on_another_that(
    one: MemoryStore, two: MemoryStore, before: bytes | None, then: bytes | None
) -> None:
    await one.create(OTHER, b"yes")
    if before is not None:
        await one.create(PATH, before)
    asked = 0

    async def alongside() -> list[Check]:
        nonlocal asked
        checks = await _other(one)
        asked += 1
        if asked == 1:  # it changes between the read and the write
            await (two.put(OTHER, then, version=0) if then else two.delete(OTHER, version=0))
        return checks

    changing = update.update(one, PATH, _append(b"b"), alongside=alongside)
    if then == b"yes":
        await changing
        assert asked == 2
        assert await _value(one) == (before or b"") + b"b"
    else:
        with pytest.raises(PermissionError):
            await changing
        assert await _value(one) == before


@_played()
async def test_where_nothing_is_to_be_written_nothing_else_is_asked(
    one: MemoryStore, two: MemoryStore
) -> None:
    await one.create(PATH, b"a")

    async def alongside() -> list[Check]:
        raise AssertionError("asked")

    assert await update.update(one, PATH, _append(b"a"), alongside=alongside) is not None


@_played()
async def test_other_nodes_change_with_the_node_or_not_at_all(
    one: MemoryStore, two: MemoryStore
) -> None:
    def with_another(name: str) -> update.Decide:
        def decide(state: Versioned | None) -> update.Decision:
            value = b"" if state is None else state.value
            if name.encode() in value:
                return update.Keep()
            return update.Store(value + name.encode(), [Create(path=f"/beside-{name}")])

        return decide

    one.weather = _losing([ExchangeLoss.ANSWER])
    await update.update(one, PATH, with_another("a"))
    one.weather = _losing([ExchangeLoss.REQUEST])
    await update.update(one, PATH, with_another("b"))
    await asyncio.gather(*[update.update(store, PATH, with_another("c")) for store in (one, two)])

    assert await _value(two) == b"abc"
    assert await two.children("/", sync=True) == ("beside-a", "beside-b", "beside-c", "list")

    def removed(state: Versioned | None) -> update.Decision:
        return update.RemoveNode([Delete(path="/beside-a", version=0)])

    one.weather = _losing([ExchangeLoss.ANSWER])
    assert await update.update(one, PATH, removed) is None
    assert await two.children("/", sync=True) == ("beside-b", "beside-c")
