"""Several writes as one, in every store."""

import random

import pytest

from tests.support.stores import MemoryPlace, Place
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import (
    COMMIT_SIZE_BYTES_MAX,
    COMMIT_WRITES_MAX,
    Check,
    Create,
    Delete,
    MetadataStore,
    Put,
    Write,
    Written,
)


async def test_all_writes_of_a_transaction_are_made(store: MetadataStore, root: str) -> None:
    await store.create(f"{root}/old", b"one")
    await store.create(f"{root}/gone")

    written = await store.commit(
        [
            Check(path=root, version=0),
            Create(path=f"{root}/new"),
            Create(path=f"{root}/new/child", value=b"c"),
            Create(path=f"{root}/new/v-", sequential=True),
            Put(path=f"{root}/old", value=b"two", version=0),
            Put(path=f"{root}/old", value=b"three", version=1),
            Delete(path=f"{root}/gone", version=0),
            Create(path=f"{root}/gone", value=b"again"),
        ]
    )

    assert written == (
        Written(path=root, version=0),
        Written(path=f"{root}/new", version=0),
        Written(path=f"{root}/new/child", version=0),
        Written(path=f"{root}/new/v-0000000001", version=0),
        Written(path=f"{root}/old", version=1),
        Written(path=f"{root}/old", version=2),
        Written(path=f"{root}/gone", version=None),
        Written(path=f"{root}/gone", version=0),
    )
    assert await store.children(root) == ("gone", "new", "old")
    gone = await store.get(f"{root}/gone")
    assert gone is not None
    assert gone.value == b"again"


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (Check(path="/a", version=1), errors.VersionConflictError),
        (Check(path="/absent", version=None), errors.NoNodeError),
        (Create(path="/a"), errors.NodeExistsError),
        (Create(path="/absent/b"), errors.NoNodeError),
        (Create(path="/mine/b"), errors.BadPathError),
        (Put(path="/a", value=b"", version=1), errors.VersionConflictError),
        (Delete(path="/absent", version=None), errors.NoNodeError),
        (Delete(path="/full", version=None), errors.NotEmptyError),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else type(each).__name__,
)
@pytest.mark.parametrize("position", [0, 1, 2])
async def test_a_refused_write_undoes_those_around_it(
    store: MetadataStore,
    root: str,
    refused: Write,
    error: type[errors.StoreError],
    position: int,
) -> None:
    await store.create(f"{root}/a", b"one")
    await store.create(f"{root}/full/child", make_parents=True)
    await store.create(f"{root}/mine", ephemeral=True)
    writes: list[Write] = [
        Create(path=f"{root}/new"),
        Put(path=f"{root}/full", value=b"changed", version=0),
    ]
    writes.insert(position, _under(root, refused))

    with pytest.raises(error) as raised:
        await store.commit(writes)

    assert raised.value.path == _under(root, refused).path
    assert not raised.value.maybe_applied
    assert await store.children(root) == ("a", "full", "mine")
    full = await store.get(f"{root}/full")
    assert full is not None
    assert full.value == b""


def _under(root: str, write: Write) -> Write:
    path = root + write.path
    match write:
        case Check():
            return Check(path=path, version=write.version)
        case Create():
            return Create(path=path)
        case Put():
            return Put(path=path, value=write.value, version=write.version)
        case Delete():
            return Delete(path=path, version=write.version)


async def test_nothing_to_write_is_done_at_once(store: MetadataStore) -> None:
    assert await store.commit([]) == ()


async def test_a_transaction_has_limits(store: MetadataStore, root: str) -> None:
    with pytest.raises(errors.TooLargeError):
        await store.commit([Check(path=root, version=None)] * (COMMIT_WRITES_MAX + 1))
    half = bytes(COMMIT_SIZE_BYTES_MAX // 2)
    with pytest.raises(errors.TooLargeError):
        await store.commit(
            [Create(path=f"{root}/a", value=half), Create(path=f"{root}/b", value=half)]
        )
    assert await store.children(root) == ()


async def test_what_is_just_within_the_limits_is_taken(store: MetadataStore, root: str) -> None:
    many = [Create(path=f"{root}/{n:04d}") for n in range(COMMIT_WRITES_MAX)]
    assert len(await store.commit(many)) == COMMIT_WRITES_MAX

    long = [Create(path=f"{root}/{n:0900d}") for n in range(COMMIT_SIZE_BYTES_MAX // 1_080)]
    assert len(await store.commit(long)) == len(long)


@pytest.mark.parametrize("seed", range(12))
async def test_every_store_answers_as_the_model_does(place: Place, seed: int) -> None:
    """Random transactions in a small world: the same refusals, results and trees in both."""
    chance = random.Random(seed)
    store = await place.open()
    model_place = MemoryPlace()
    model_place.root = place.root
    model = await model_place.open()
    for _ in range(40):
        writes = [_random_write(chance, place.root) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
        assert await _answer(store, writes) == await _answer(model, writes)
    assert await _tree(store, place.root) == await _tree(model, place.root)
    await model_place.close()


def _random_write(chance: random.Random, root: str) -> Write:
    path = root + chance.choice(["/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a"])
    version = chance.choice([0, 0, 1, 2])
    match chance.randrange(8):
        case 0 | 1 | 2:
            return Create(path=path, value=chance.randbytes(2), ephemeral=chance.random() < 0.2)
        case 3:
            return Create(path=f"{path}-", sequential=True)
        case 4 | 5:
            return Put(path=path, value=chance.randbytes(2), version=version)
        case 6:
            return Delete(path=path, version=chance.choice([version, None]))
        case _:
            return Check(path=path, version=chance.choice([version, None]))


async def _answer(
    store: MetadataStore, writes: list[Write]
) -> tuple[Written, ...] | tuple[type[errors.StoreError], str]:
    try:
        return await store.commit(writes)
    except errors.StoreError as error:
        return type(error), error.path


async def _tree(store: MetadataStore, path: str) -> list[tuple[str, bytes, int, bool]]:
    node = await store.get(path)
    names = await store.children(path)
    assert node is not None
    assert names is not None
    found = [(path, node.value, node.version, node.owner is not None)]
    for name in names:
        found += await _tree(store, f"{path}/{name}")
    return found


async def test_a_node_goes_with_its_children_in_one_transaction(
    store: MetadataStore, root: str
) -> None:
    for name in ("parent", "parent/one", "parent/two"):
        await store.create(f"{root}/{name}")

    await store.commit(
        [
            Delete(path=f"{root}/parent/one", version=0),
            Delete(path=f"{root}/parent/two", version=0),
            Delete(path=f"{root}/parent", version=0),
        ]
    )

    assert await store.children(root, sync=True) == ()
    assert not await store.exists(f"{root}/parent/one", sync=True)
