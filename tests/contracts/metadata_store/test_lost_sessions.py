"""A session ends behind its store's back: what is gone, what is refused, and what goes on."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.stores import Place
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import MetadataStore, Session, SessionId
from zonekeeper.metadata.stores.timeouts import Timeouts

#: Short, so that SQLite's renewal soon finds its lease gone; but no busy machine keeps a process
#: from renewing so long.
_BRIEF = Timeouts(session_ms=3_000, request_ms=20_000)


@pytest.fixture
async def loser(place: Place) -> MetadataStore:
    return await place.open(_BRIEF)


def _session(store: MetadataStore) -> SessionId:
    assert store.session.id is not None
    return store.session.id


async def _another(sessions: AsyncIterator[Session], old: SessionId) -> Session:
    async for session in sessions:
        if session.id not in (None, old) and session.connected:
            return session
    raise AssertionError("a watch of sessions ends only with its store")


async def test_a_new_session_begins_by_itself(place: Place, loser: MetadataStore) -> None:
    old = _session(loser)
    async with loser.watch_session() as sessions:
        await place.expire(loser)
        new = await _another(sessions, old)
    assert loser.session == new


async def test_its_ephemeral_nodes_are_gone_and_stay_gone(
    place: Place, loser: MetadataStore, store: MetadataStore, root: str
) -> None:
    old = _session(loser)
    await loser.create(f"{root}/a", ephemeral=True)
    async with loser.watch_session() as sessions:
        await place.expire(loser)
        await _another(sessions, old)
    assert await store.children(root, sync=True) == ()
    assert await loser.children(root) == ()


async def test_what_was_bound_to_it_is_refused_for_ever(
    place: Place, loser: MetadataStore, root: str
) -> None:
    old = _session(loser)
    async with loser.watch_session() as sessions:
        await place.expire(loser)
        # At the very moment it can also meet the connection that breaks.
        with pytest.raises((errors.SessionLostError, errors.StoreUnavailableError)):
            await loser.create(f"{root}/a", session=old)
        await _another(sessions, old)
    with pytest.raises(errors.SessionLostError) as refused:
        await loser.create(f"{root}/a", session=old)
    assert not refused.value.maybe_applied
    assert await loser.children(root, sync=True) == ()


async def test_what_is_bound_to_nothing_goes_on(
    place: Place, loser: MetadataStore, root: str
) -> None:
    old = _session(loser)
    async with loser.watch_session() as sessions:
        await place.expire(loser)
        await _another(sessions, old)
    await loser.create(f"{root}/a", ephemeral=True)
    node = await loser.get(f"{root}/a")
    assert node is not None
    assert node.owner == _session(loser) != old


async def test_watches_go_on_and_do_not_miss_what_happened_meanwhile(
    place: Place, loser: MetadataStore, store: MetadataStore, root: str
) -> None:
    old = _session(loser)
    async with (
        loser.watch(f"{root}/a") as states,
        loser.watch_children(root) as names,
        loser.watch_session() as sessions,
    ):
        assert await anext(states) is None
        assert await anext(names) == ()
        async with asyncio.TaskGroup() as group:
            group.create_task(place.expire(loser))
            group.create_task(store.create(f"{root}/a", b"one"))
        await _another(sessions, old)
        state = await anext(states)
        assert state is not None
        assert state.value == b"one"
        assert await anext(names) == ("a",)
        await store.put(f"{root}/a", b"two", version=0)
        state = await anext(states)
        assert state is not None
        assert state.value == b"two"


async def test_reading_does_not_notice(
    place: Place, loser: MetadataStore, store: MetadataStore, root: str
) -> None:
    await store.create(f"{root}/a", b"one")
    await place.expire(loser)
    for _ in range(20):
        node = await loser.get(f"{root}/a", sync=True)
        assert node is not None
