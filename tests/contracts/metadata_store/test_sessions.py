"""Sessions and what lives with them, in every store."""

import pytest

from tests.support.stores import Place
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import Create, MetadataStore, SessionId


def _session(store: MetadataStore) -> SessionId:
    assert store.session.connected
    assert store.session.id is not None
    return store.session.id


async def test_each_store_has_a_session_of_its_own(
    store: MetadataStore, other: MetadataStore
) -> None:
    assert _session(store) != _session(other)


async def test_an_ephemeral_node_names_its_session(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    await store.create(f"{root}/a", b"one", ephemeral=True)
    node = await other.get(f"{root}/a", sync=True)
    assert node is not None
    assert node.owner == _session(store)


async def test_ephemeral_nodes_go_with_their_store_at_once(
    place: Place, other: MetadataStore, root: str
) -> None:
    store = await place.open()
    await store.create(f"{root}/lasting")
    await store.create(f"{root}/a", ephemeral=True)
    await store.create(f"{root}/v-", ephemeral=True, sequential=True)
    await other.create(f"{root}/others", ephemeral=True)

    await store.close()

    assert await other.children(root, sync=True) == ("lasting", "others")


async def test_an_ephemeral_node_can_be_written_and_deleted_by_others(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    await store.create(f"{root}/a", ephemeral=True)
    await other.put(f"{root}/a", b"new", version=0)
    await other.delete(f"{root}/a", version=1)
    assert await store.get(f"{root}/a", sync=True) is None


async def test_an_ephemeral_node_has_no_children(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a", ephemeral=True)
    with pytest.raises(errors.BadPathError):
        await store.create(f"{root}/a/b")


async def test_a_write_bound_to_the_living_session_is_made(store: MetadataStore, root: str) -> None:
    session = _session(store)
    await store.create(f"{root}/a", session=session)
    await store.put(f"{root}/a", b"one", version=0, session=session)
    await store.commit([Create(path=f"{root}/b")], session=session)
    await store.delete(f"{root}/a", version=1, session=session)
    assert await store.children(root) == ("b",)


async def test_a_write_bound_to_another_session_is_not(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    with pytest.raises(errors.SessionLostError) as refused:
        await store.create(f"{root}/a", session=_session(other))
    assert not refused.value.maybe_applied
    assert await store.children(root) == ()


async def test_the_session_is_followed_from_the_present_on(store: MetadataStore) -> None:
    async with store.watch_session() as sessions:
        assert await anext(sessions) == store.session
