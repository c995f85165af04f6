"""A metadata store, and the cluster in it, opened for as long as a command runs."""

import contextlib
from collections.abc import AsyncIterator

from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.opening import open_store


@contextlib.asynccontextmanager
async def opened_store(address: str, *, must_exist: bool = True) -> AsyncIterator[MetadataStore]:
    """Open the store at an address; only a command that makes a cluster may find nothing there."""
    store = await open_store(address, must_exist=must_exist)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def opened_cluster(address: str) -> AsyncIterator[Cluster]:
    """Open the cluster at an address."""
    async with opened_store(address) as store:
        yield await clusters.open_cluster(store)
