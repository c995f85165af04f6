"""Fewer bookies on a real control plane: they go under writes, and no entry is lost."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.cluster.installation import ZONES, Clusters
from tests.cluster.test_roll import SOON, Writing, uids
from zonekeeper.metadata.cluster import cluster as metadata_clusters
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.stores.opening import open_store

pytestmark = pytest.mark.cluster

POLICY: Final = SOON | {"zoneWatch": SOON["zoneWatch"] | {"sessionTimeout": "4s"}}
DELETE: Final = {"size": "1Gi", "onScaleDown": "Delete"}
SAMPLE_SECONDS: Final = 0.2


class Scaled:
    """One cluster, its cookies, its volumes and its orders."""

    def __init__(self, clusters: Clusters, store: KazooClient, *, ordinal: int) -> None:
        self.clusters = clusters
        #: The bookies that are to go.
        self.going: Final = {f"log-{zone}-{ordinal}" for zone in ZONES}
        self._store = store
        self._root = f"/{clusters.space}/ledgers"
        #: What went, in the order in which it was seen.
        self.gone: list[str] = []

    def to(self, count: int) -> None:
        """Ask for so many bookies in each zone, as a person does."""
        scale = ("scale", "bookiecluster", "log", f"--replicas={count}")
        self.clusters.lab.kubectl(*scale, "-n", self.clusters.space)

    def orders(self) -> set[str]:
        try:
            return {*self._store.get_children(f"{self._root}.zonekeeper/orders")}
        except NoNodeError:
            return set()

    def cookies(self) -> set[str]:
        return {*self._store.get_children(f"{self._root}/cookies")}

    def claims(self) -> set[str]:
        left = self.clusters.left("persistentvolumeclaims")
        return {one.removeprefix("persistentvolumeclaims/data-") for one in left}

    def is_over(self) -> bool:
        """Look once, and note what is gone; claims are read first, because they go last."""
        claims, cookies = self.claims(), self.cookies()
        for name in sorted(self.going):
            for what, left in (("claim", claims), ("cookie", cookies)):
                if name not in left and f"{what} {name}" not in self.gone:
                    self.gone.append(f"{what} {name}")
        assert len(self.orders()) <= 1, "one bookie at a time"
        return not self.going & claims and not self.orders()

    def is_whole(self, before: Mapping[str, str]) -> None:
        """Check that those are gone that were to go, in order, and no other was disturbed."""
        clusters, left = self.clusters, before.keys() - self.going
        clusters.wait("log", "Scaled", "True")
        clusters.wait_for_ready("log")
        assert self.cookies() == left
        assert asyncio.run(named(clusters.uri)) <= left
        for name in self.going:
            assert self.gone.index(f"cookie {name}") < self.gone.index(f"claim {name}")
        assert uids(clusters) == {name: before[name] for name in left}


async def until(writing: Writing, is_over: Callable[[], bool]) -> None:
    """Write until it is over."""

    async def look() -> None:
        try:
            while True:
                if await asyncio.to_thread(is_over):
                    return
                await asyncio.sleep(SAMPLE_SECONDS)
        finally:
            writing.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(writing.run())
        group.create_task(look())


async def named(uri: str) -> set[str]:
    """Name the bookies that ledgers name."""
    store = await open_store(uri)
    cluster = await metadata_clusters.open_cluster(store)
    listed = [one async for one in ledger_listing.all_of(cluster)]
    await store.close()
    assert listed
    assert all(isinstance(one, StoredLedger) for one in listed)
    return {
        bookie for one in listed if isinstance(one, StoredLedger) for bookie in one.metadata.bookies
    }


def test_nine_bookies_become_six_under_writes_and_a_number_that_is_raised_again_deletes_nothing(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    clusters.apply("log", policy=POLICY, update={"bake": "0s"}, storage=DELETE)
    clusters.wait_for_ready("log")
    clusters.wait("log", "RepairReady", "True")
    scaled = Scaled(clusters, store, ordinal=2)
    before, first = uids(clusters), Writing(clusters)
    everything = {*before}

    def is_ordered() -> bool:
        if len(first.written) >= 3:  # the bookies hold something by now
            scaled.to(2)
        return bool(scaled.orders())

    asyncio.run(until(first, is_ordered))
    assert scaled.orders() == {"log-a-2"}
    scaled.to(3)
    clusters.until("log", lambda: scaled.orders() == set(), what="the order taken back")
    clusters.wait("log", "Scaled", "True")
    assert (scaled.cookies(), scaled.claims()) == (everything, everything)
    assert uids(clusters) == before, "nothing was restarted"

    second = Writing(clusters)
    scaled.to(2)
    asyncio.run(until(second, scaled.is_over))

    scaled.is_whole(before)
    assert second.written
    asyncio.run(first.read_all())
    asyncio.run(second.read_all())
    clusters.delete("log")


@pytest.mark.long
def test_twelve_bookies_become_nine_though_one_is_killed_while_it_is_emptied(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    clusters.apply("log", policy=POLICY, update={"bake": "0s"}, storage=DELETE, bookiesPerZone=4)
    clusters.wait_for_ready("log")
    clusters.wait("log", "RepairReady", "True")
    scaled, first = Scaled(clusters, store, ordinal=3), Writing(clusters)
    before = uids(clusters)

    def is_ordered() -> bool:
        if len(first.written) >= 3:
            scaled.to(3)
        return bool(scaled.orders())

    asyncio.run(until(first, is_ordered))
    (victim,) = scaled.orders()
    kill = ("delete", "pod", victim, "-n", clusters.space, "--grace-period=0", "--force")
    clusters.lab.kubectl(*kill)
    second = Writing(clusters)
    asyncio.run(until(second, scaled.is_over))

    scaled.is_whole(before)
    assert second.written
    asyncio.run(first.read_all())
    asyncio.run(second.read_all())
    clusters.delete("log")
