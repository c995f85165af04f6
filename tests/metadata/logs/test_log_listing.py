"""Namespaces and names are listed, each once, with few children in memory."""

from tests.metadata.logs.counting import Counted, counted_cluster
from tests.metadata.logs.records_of_logs import NAME, NEW
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_record_format
from zonekeeper.metadata.logs import log_listing, logs
from zonekeeper.metadata.store.store import Create, Write, parent_of

CHILDREN_MAX = 1_000


async def names(cluster: Cluster, namespace: str) -> list[str]:
    return [name async for name in log_listing.names(cluster, namespace)]


async def namespaces(cluster: Cluster) -> list[str]:
    return [namespace async for namespace in log_listing.namespaces(cluster)]


async def test_each_namespace_has_its_own_logs(cluster: Cluster) -> None:
    assert await namespaces(cluster) == []
    for name in (NAME, "orders/us-1", "orders", "orders/eu/1", "plain"):
        await logs.create(cluster, name, NEW)

    assert sorted(await namespaces(cluster)) == ["", "orders", "orders/eu"]
    assert sorted(await names(cluster, "")) == ["orders", "plain"]
    assert sorted(await names(cluster, "orders")) == [NAME, "orders/us-1"]
    assert await names(cluster, "orders/eu") == ["orders/eu/1"]
    assert await names(cluster, "nothing") == []


async def test_pages_are_no_names(cluster: Cluster) -> None:
    await logs.create(cluster, NAME, NEW)
    await cluster.store.create(f"{logs.path(cluster, NAME)}/000000/000", make_parents=True)

    assert await names(cluster, "orders") == [NAME]


async def test_a_namespace_of_100_000_logs_is_listed_in_small_parts() -> None:
    store, cluster = await counted_cluster()
    await put_many(cluster, 100_000)
    store.counted = Counted()

    listed = [name async for name in log_listing.names(cluster, "many")]

    assert sorted(listed) == sorted(f"many/{at}" for at in range(100_000))
    assert store.counted.children_most <= CHILDREN_MAX
    assert store.counted.listings < 5_000
    assert store.counted.reads == 0


async def put_many(cluster: Cluster, count: int) -> None:
    """Create so many logs in one namespace, many in each transaction."""
    value = log_record_format.render(NEW, cluster.instance)
    there, writes = set[str](), list[Write]()
    for at in range(count):
        path = logs.path(cluster, f"many/{at}")
        missing = list[str]()
        above = parent_of(path)
        while above not in there and above != cluster.root.own:
            missing.append(above)
            there.add(above)
            above = parent_of(above)
        writes += [*(Create(path=one) for one in reversed(missing)), Create(path=path, value=value)]
        if len(writes) > 900:
            await cluster.store.commit(writes)
            writes.clear()
    await cluster.store.commit(writes)
