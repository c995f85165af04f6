"""A cluster is made once, whole, and never where something else stands."""

import asyncio
import uuid

import pytest

from tests.metadata import weather
from tests.support.stores import MemoryPlace, Place
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import (
    BookieCounts,
    Cluster,
    ForeignRootError,
    NotAClusterError,
)
from zonekeeper.metadata.store import layout
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.memory import ExchangeLoss
from zonekeeper.placement.base.ids import BookieId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"


async def test_a_cluster_is_made_with_apaches_nodes_and_ours_beside(store: MetadataStore) -> None:
    cluster = await clusters.initialise(store, INSTANCE)
    assert cluster.instance == INSTANCE
    root = store.root
    assert await store.children(root) == (
        "INSTANCEID",
        "LAYOUT",
        "available",
        "cookies",
        "idgen",
        "underreplication",
    )
    found = await store.get(f"{root}/LAYOUT")
    assert found is not None
    assert found.value == layout.LAYOUT
    assert await store.children(f"{root}.zonekeeper") is not None


async def test_making_it_again_finds_it_made(store: MetadataStore) -> None:
    first = await clusters.initialise(store, INSTANCE)
    again = await clusters.initialise(store, str(uuid.uuid4()))
    assert again.instance == first.instance


async def test_many_make_it_at_once_and_agree(place: Place) -> None:
    stores = [await place.open() for _ in range(5)]
    made = await asyncio.gather(
        *(clusters.initialise(store, str(uuid.uuid4())) for store in stores)
    )
    assert len({cluster.instance for cluster in made}) == 1


async def test_without_a_cluster_opening_says_how_to_make_one(store: MetadataStore) -> None:
    with pytest.raises(NotAClusterError, match="cluster init"):
        await clusters.open_cluster(store)


async def apaches(store: MetadataStore, *more: str) -> None:
    """What ``initnewcluster`` makes, and more."""
    await store.create(f"{store.root}/LAYOUT", layout.LAYOUT, make_parents=True)
    await store.create(f"{store.root}/INSTANCEID", INSTANCE.encode())
    await store.create(f"{store.root}/available/readonly", make_parents=True)
    for name in more:
        await store.create(f"{store.root}/{name}", make_parents=True)


async def test_an_unused_root_of_apaches_is_taken_over(store: MetadataStore) -> None:
    await apaches(store)
    with pytest.raises(ForeignRootError, match="made by Apache BookKeeper"):
        await clusters.open_cluster(store)
    assert (await clusters.initialise(store, str(uuid.uuid4()))).instance == INSTANCE


@pytest.mark.parametrize(
    "used", ["available/10.0.0.1:3181", "available/readonly/b", "cookies/b", "00/0000/L0000"]
)
async def test_a_root_that_apache_uses_is_refused(store: MetadataStore, used: str) -> None:
    await apaches(store, used)
    with pytest.raises(ForeignRootError, match="used by something else"):
        await clusters.initialise(store, str(uuid.uuid4()))
    assert not await store.exists(f"{store.root}.zonekeeper")


@pytest.mark.parametrize("present", ["LAYOUT", "INSTANCEID"])
async def test_half_a_cluster_is_refused(store: MetadataStore, present: str) -> None:
    value = layout.LAYOUT if present == "LAYOUT" else INSTANCE.encode()
    await store.create(f"{store.root}/{present}", value)
    with pytest.raises(ForeignRootError, match="half-made"):
        await clusters.open_cluster(store)


async def test_a_root_of_something_else_is_refused(store: MetadataStore) -> None:
    await store.create(f"{store.root}/brokers")
    with pytest.raises(ForeignRootError, match="brokers"):
        await clusters.initialise(store, INSTANCE)


async def test_another_layout_is_refused_and_not_touched(store: MetadataStore) -> None:
    other = layout.LAYOUT.replace(b"Hierarchical", b"Flat")
    await store.create(f"{store.root}/LAYOUT", other)
    await store.create(f"{store.root}/INSTANCEID", INSTANCE.encode())
    await store.create(f"{store.root}.zonekeeper", INSTANCE.encode())
    with pytest.raises(ForeignRootError, match="FlatLedgerManagerFactory"):
        await clusters.initialise(store, INSTANCE)


async def test_a_tree_that_an_older_cluster_left_beside_does_no_harm(store: MetadataStore) -> None:
    await store.create(f"{store.root}.zonekeeper/zones/a", make_parents=True)
    cluster = await clusters.initialise(store, INSTANCE)
    assert cluster.instance == INSTANCE
    assert await store.exists(cluster.root.beside("timeline"))


async def test_a_tree_that_is_left_beside_does_not_make_apaches_root_ours(
    cluster: Cluster,
) -> None:
    """Apache's tools removed our root, and a Java cluster was made in its place."""
    store, path = cluster.store, cluster.root.below("INSTANCEID")
    await store.put(path, str(uuid.uuid4()).encode(), version=0)
    await store.create(cluster.root.cookie(BookieId("10.0.0.1:3181")))
    with pytest.raises(ForeignRootError, match="made by Apache BookKeeper"):
        await clusters.open_cluster(store)
    with pytest.raises(ForeignRootError, match="used by something else"):
        await clusters.initialise(store, INSTANCE)


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_cluster_whose_making_was_in_doubt_is_made_once(
    memory: MemoryPlace, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    weather.lose(store, 0, loss)
    assert (await clusters.initialise(store, INSTANCE)).instance == INSTANCE


async def test_bookies_are_counted(cluster: Cluster) -> None:
    store, root = cluster.store, cluster.root
    for name in ("cookies/a", "cookies/b", "available/a", "available/readonly/b"):
        await store.create(root.below(name))
    assert await clusters.count_bookies(cluster) == BookieCounts(cookies=2, writable=1, read_only=1)


async def test_the_root_appears_with_all_that_belongs_to_it(memory: MemoryPlace) -> None:
    """No crash leaves half a cluster: a process that sees the root sees the rest."""
    store = await memory.open()
    await store.delete(store.root, version=None)
    seen: list[bool] = []
    async with store.watch_children(store.root) as names:
        assert await anext(names) is None
        async with asyncio.TaskGroup() as group:
            group.create_task(clusters.initialise(store, INSTANCE))
            first = await anext(names)
            assert first is not None
            seen.append({"LAYOUT", "INSTANCEID", "available", "cookies"} <= set(first))
    assert seen == [True]
