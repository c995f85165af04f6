"""Reading and writing single nodes, in every store."""

import asyncio

import pytest

from tests.support.stores import Place
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import VALUE_SIZE_BYTES_MAX, MetadataStore


async def test_a_node_that_was_created_can_be_read(store: MetadataStore, root: str) -> None:
    assert await store.create(f"{root}/a", b"one") == f"{root}/a"

    node = await store.get(f"{root}/a")

    assert node is not None
    assert (node.value, node.version, node.owner) == (b"one", 0, None)
    assert node.created_id == node.modified_id


async def test_an_absent_node_is_none_and_not_an_error(store: MetadataStore, root: str) -> None:
    assert await store.get(f"{root}/a") is None
    assert await store.children(f"{root}/a") is None
    assert not await store.exists(f"{root}/a")


async def test_an_empty_value_is_a_value(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a")
    node = await store.get(f"{root}/a")
    assert node is not None
    assert node.value == b""


async def test_any_bytes_come_back_as_they_were(store: MetadataStore, root: str) -> None:
    value = bytes(range(256)) * 100
    await store.create(f"{root}/a", value)
    node = await store.get(f"{root}/a")
    assert node is not None
    assert node.value == value


async def test_names_may_hold_any_printable_character(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/bookie-0:3181 äß漢%_'\"", b"v")
    assert await store.children(root) == ("bookie-0:3181 äß漢%_'\"",)


async def test_each_put_makes_the_next_version(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a", b"one")
    assert await store.put(f"{root}/a", b"two", version=0) == 1
    assert await store.put(f"{root}/a", b"three", version=1) == 2
    node = await store.get(f"{root}/a")
    assert node is not None
    assert (node.value, node.version) == (b"three", 2)
    assert node.modified_id > node.created_id


async def test_a_put_at_another_version_changes_nothing(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a", b"one")
    await store.put(f"{root}/a", b"two", version=0)
    for version in (0, 2):
        with pytest.raises(errors.VersionConflictError) as refused:
            await store.put(f"{root}/a", b"three", version=version)
        assert not refused.value.maybe_applied
    node = await store.get(f"{root}/a")
    assert node is not None
    assert node.value == b"two"


async def test_a_put_to_an_absent_node_is_refused(store: MetadataStore, root: str) -> None:
    with pytest.raises(errors.NoNodeError):
        await store.put(f"{root}/a", b"one", version=0)


async def test_a_node_is_created_once(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a", b"one")
    with pytest.raises(errors.NodeExistsError):
        await store.create(f"{root}/a", b"two")
    node = await store.get(f"{root}/a")
    assert node is not None
    assert node.value == b"one"


async def test_a_parent_must_be_there_unless_it_is_to_be_made(
    store: MetadataStore, root: str
) -> None:
    with pytest.raises(errors.NoNodeError):
        await store.create(f"{root}/a/b/c", b"v")
    assert not await store.exists(f"{root}/a")

    await store.create(f"{root}/a/b/c", b"v", make_parents=True)

    parent = await store.get(f"{root}/a/b")
    assert parent is not None
    assert parent.value == b""


async def test_many_make_the_same_parents_at_once(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    await asyncio.gather(
        *(
            each.create(f"{root}/a/b/{name}", make_parents=True)
            for each, name in ((store, "c"), (other, "d"), (store, "e"), (other, "f"))
        )
    )
    assert await store.children(f"{root}/a/b", sync=True) == ("c", "d", "e", "f")


async def test_a_node_that_was_deleted_is_absent(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a")
    await store.delete(f"{root}/a", version=0)
    assert await store.get(f"{root}/a") is None
    with pytest.raises(errors.NoNodeError):
        await store.delete(f"{root}/a", version=None)


async def test_a_delete_at_another_version_is_refused(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a")
    await store.put(f"{root}/a", b"", version=0)
    with pytest.raises(errors.VersionConflictError):
        await store.delete(f"{root}/a", version=0)
    await store.delete(f"{root}/a", version=None)
    assert not await store.exists(f"{root}/a")


async def test_a_node_with_children_is_not_deleted(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/a/b", make_parents=True)
    with pytest.raises(errors.NotEmptyError):
        await store.delete(f"{root}/a", version=0)
    await store.delete(f"{root}/a/b", version=0)
    await store.delete(f"{root}/a", version=0)


async def test_a_recreated_node_begins_anew_and_its_creation_tells(
    store: MetadataStore, root: str
) -> None:
    await store.create(f"{root}/a", b"one")
    first = await store.get(f"{root}/a")
    await store.delete(f"{root}/a", version=0)
    await store.create(f"{root}/a", b"one")
    second = await store.get(f"{root}/a")
    assert first is not None
    assert second is not None
    assert (first.version, second.version) == (0, 0)
    assert first.created_id < second.created_id


async def test_children_are_named_sorted_and_only_one_level(
    store: MetadataStore, root: str
) -> None:
    for name in ("b", "a", "B", "a/x", "a0", "ab"):
        await store.create(f"{root}/{name}")
    assert await store.children(root) == ("B", "a", "a0", "ab", "b")
    assert await store.children(f"{root}/a") == ("x",)
    assert await store.children(f"{root}/b") == ()


async def test_the_top_is_there_and_stays(store: MetadataStore, root: str) -> None:
    names = await store.children("/")
    assert names is not None
    assert root[1:] in names
    with pytest.raises(errors.StoreError):
        await store.delete("/", version=None)
    with pytest.raises(errors.NodeExistsError):
        await store.create("/")


async def test_sequential_names_are_numbered_upwards(store: MetadataStore, root: str) -> None:
    paths = [await store.create(f"{root}/v-", sequential=True) for _ in range(3)]
    await store.delete(paths[2], version=0)
    paths += [await store.create(f"{root}/v-", sequential=True) for _ in range(3)]

    numbers = [int(path.removeprefix(f"{root}/v-")) for path in paths]

    assert all(len(path) == len(f"{root}/v-") + 10 for path in paths)
    assert numbers == sorted(set(numbers)), "a number never comes again"


async def test_a_node_counts_the_children_that_it_ever_had(store: MetadataStore, root: str) -> None:
    before = await store.get(root, sync=True)
    assert before is not None
    for _ in range(2):
        await store.delete(await store.create(f"{root}/v-", sequential=True), version=None)
    await store.create(f"{root}/a")
    after = await store.get(root, sync=True)
    assert after is not None
    assert after.children_made == before.children_made + 3
    assert after == before, "a count alone is no change of the node"
    path = await store.create(f"{root}/v-", sequential=True)
    assert int(path[-10:]) == after.children_made


async def test_sequential_names_count_together_under_one_parent(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    paths = await asyncio.gather(
        *(
            each.create(f"{root}/{prefix}", sequential=True)
            for each in (store, other)
            for prefix in ("x-", "y-", "x-")
        )
    )
    assert len({path[-10:] for path in paths}) == 6


@pytest.mark.parametrize(
    "path", ["", "a", "//a", "/a//b", "/a/", "/.", "/a/../b", "/a\x00b", "/a\nb", "/" + "x" * 2000]
)
async def test_a_bad_path_is_refused_before_it_is_sent(store: MetadataStore, path: str) -> None:
    with pytest.raises(errors.BadPathError):
        await store.get(path)
    with pytest.raises(errors.BadPathError):
        await store.create(path)
    with pytest.raises(errors.BadPathError):
        store.watch(path)


async def test_the_largest_value_fits_and_a_larger_one_is_refused(
    store: MetadataStore, root: str
) -> None:
    await store.create(f"{root}/a", bytes(VALUE_SIZE_BYTES_MAX))
    with pytest.raises(errors.TooLargeError):
        await store.put(f"{root}/a", bytes(VALUE_SIZE_BYTES_MAX + 1), version=0)
    node = await store.get(f"{root}/a")
    assert node is not None
    assert len(node.value) == VALUE_SIZE_BYTES_MAX


async def test_what_one_wrote_another_sees_with_sync(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    await store.create(f"{root}/a", b"one")
    seen = await other.get(f"{root}/a", sync=True)
    assert seen is not None
    assert seen.value == b"one"
    await store.put(f"{root}/a", b"two", version=0)
    assert await other.children(root, sync=True) == ("a",)
    seen = await other.get(f"{root}/a", sync=True)
    assert seen is not None
    assert seen.value == b"two"


async def test_of_many_writers_at_one_version_one_wins(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    await store.create(f"{root}/a")

    async def put(each: MetadataStore, value: bytes) -> bool:
        try:
            await each.put(f"{root}/a", value, version=0)
        except errors.VersionConflictError:
            return False
        return True

    won = await asyncio.gather(
        *(put(each, b"%d" % n) for n in range(10) for each in (store, other))
    )
    assert sum(won) == 1


async def test_an_error_names_the_path_and_the_store(store: MetadataStore, root: str) -> None:
    with pytest.raises(errors.NoNodeError) as refused:
        await store.put(f"{root}/a", b"", version=0)
    assert f"{root}/a" in str(refused.value)
    assert store.name in str(refused.value)
    assert (refused.value.path, refused.value.store) == (f"{root}/a", store.name)


async def test_a_closed_store_says_so(place: Place, root: str) -> None:
    store = await place.open()
    await store.close()
    await store.close()
    with pytest.raises(errors.StoreClosedError):
        await store.get(root)
    with pytest.raises(errors.StoreClosedError):
        await store.create(f"{root}/a")
    assert store.session.id is None
