"""Following nodes, in every store: the state now, then newer ones, and never back."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

from tests.support.stores import Place
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import MetadataStore, Versioned

State = TypeVar("State")


def _value(node: Versioned | None) -> bytes | None:
    return None if node is None else node.value


async def _until(states: AsyncIterator[State], wanted: State) -> list[State]:
    """Give the states up to the wanted one."""
    seen = []
    async for state in states:
        seen.append(state)
        if state == wanted:
            break
    return seen


async def _values(states: AsyncIterator[Versioned | None]) -> AsyncIterator[bytes | None]:
    async for state in states:
        yield _value(state)


async def test_a_watch_begins_with_the_present_state(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a", b"one")
    async with store.watch(f"{root}/a") as states:
        assert _value(await anext(states)) == b"one"
    async with store.watch(f"{root}/b") as states:
        assert await anext(states) is None


async def test_a_watch_shows_what_others_write(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    path = f"{root}/a"
    async with store.watch(path) as states:
        assert await anext(states) is None
        await other.create(path, b"one")
        assert _value(await anext(states)) == b"one"
        await other.put(path, b"two", version=0)
        assert _value(await anext(states)) == b"two"
        await other.delete(path, version=1)
        assert await anext(states) is None
        await other.create(path, b"three")
        assert _value(await anext(states)) == b"three"


async def test_a_watch_shows_what_its_own_store_writes(store: MetadataStore, root: str) -> None:
    path = f"{root}/a"
    async with store.watch(path) as states:
        assert await anext(states) is None
        await store.create(path, b"one")
        assert _value(await anext(states)) == b"one"


async def test_a_slow_watcher_skips_states_but_gets_the_last(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    path = f"{root}/a"
    await other.create(path, b"0")
    async with store.watch(path) as states:
        first = await anext(states)
        for version in range(50):
            await other.put(path, b"%d" % (version + 1), version=version)
        seen = await _until(_values(states), b"50")
    assert _value(first) == b"0"
    numbers = [int(value or b"-1") for value in seen]
    assert numbers == sorted(set(numbers)), "never back, and no state twice"


async def test_a_watch_never_misses_the_last_state_of_a_race(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    path = f"{root}/a"
    await other.create(path, b"0")

    async def write() -> None:
        for version in range(100):
            await other.put(path, b"%d" % (version + 1), version=version)

    async with store.watch(path) as states, asyncio.TaskGroup() as group:
        group.create_task(write())
        numbers = [int(value or b"-1") for value in await _until(_values(states), b"100")]
    assert numbers == sorted(set(numbers))


async def test_a_recreated_node_is_a_new_state_even_with_the_same_value(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    path = f"{root}/a"
    await other.create(path, b"one")
    async with store.watch(path) as states:
        first = await anext(states)
        await other.delete(path, version=0)
        await other.create(path, b"one")
        state = await anext(states)
        if state is None:  # it may show, or be skipped
            state = await anext(states)
        assert first is not None
        assert state is not None
        assert state.created_id > first.created_id


async def test_children_are_followed(store: MetadataStore, other: MetadataStore, root: str) -> None:
    path = f"{root}/a"
    async with store.watch_children(path) as states:
        assert await anext(states) is None
        await other.create(path)
        assert await anext(states) == ()
        await other.create(f"{path}/x")
        assert await anext(states) == ("x",)
        await other.create(f"{path}/y")
        assert await anext(states) == ("x", "y")
        await other.delete(f"{path}/x", version=0)
        assert await anext(states) == ("y",)
        await other.delete(f"{path}/y", version=0)
        assert await anext(states) == ()
        await other.delete(path, version=0)
        assert await anext(states) is None


async def test_a_childs_value_is_no_news_of_its_parent(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    await other.create(f"{root}/a")
    async with store.watch_children(root) as names, store.watch(root) as states:
        assert await anext(names) == ("a",)
        before = await anext(states)
        await other.put(f"{root}/a", b"changed", version=0)
        await other.create(f"{root}/b")
        assert await anext(names) == ("a", "b")
        await other.put(root, b"changed", version=0)
        after = await anext(states)
        assert before is not None
        assert after is not None
        assert (before.version, after.version) == (0, 1)


async def test_many_watches_of_one_node_are_independent(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    path = f"{root}/a"
    async with store.watch(path) as one, store.watch(path) as two:
        assert await anext(one) is None
        async with store.watch(path) as three:
            assert await anext(three) is None
        assert await anext(two) is None
        await other.create(path, b"one")
        assert _value(await anext(one)) == b"one"
        await other.put(path, b"two", version=0)
        assert _value(await anext(one)) == b"two"
        assert b"two" in await _until(_values(two), b"two")


async def test_an_ephemeral_node_is_seen_to_go(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    await other.create(f"{root}/a", ephemeral=True)
    async with store.watch_children(root) as states:
        assert await anext(states) == ("a",)
        await other.close()
        assert await anext(states) == ()


async def test_closing_the_store_ends_its_watches(place: Place, root: str) -> None:
    store = await place.open()
    async with store.watch(root) as states, store.watch_session() as sessions:
        await anext(states)
        assert (await anext(sessions)).connected
        async with asyncio.TaskGroup() as group:
            next_state = group.create_task(_error_of(states))
            next_session = group.create_task(_error_of(sessions))
            await store.close()
    assert next_state.result() is errors.StoreClosedError
    assert next_session.result() is errors.StoreClosedError


async def _error_of(states: AsyncIterator[State]) -> type[errors.StoreError]:
    with pytest.raises(errors.StoreClosedError) as ended:
        await anext(states)
    return ended.type
