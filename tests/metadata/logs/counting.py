"""A store in memory that counts its work: reads, listings, writes, and the bytes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.metadata.conftest import INSTANCE
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.store import Create, Put, SessionId, Versioned, Write, Written
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer


@dataclass
class Counted:
    """What was asked of a store."""

    reads: int = 0
    listings: int = 0
    writes: int = 0
    size_bytes: int = 0
    #: The most children that one answer had.
    children_most: int = 0


class CountingStore(MemoryStore):
    """Counts, and does what the store in memory does."""

    counted = Counted()

    async def _get(self, path: str, *, sync: bool) -> Versioned | None:
        node = await super()._get(path, sync=sync)
        self.counted.reads += 1
        self.counted.size_bytes += 0 if node is None else len(node.value)
        return node

    async def _children(self, path: str, *, sync: bool) -> tuple[str, ...] | None:
        names = await super()._children(path, sync=sync)
        self.counted.listings += 1
        self.counted.children_most = max(self.counted.children_most, len(names or ()))
        return names

    async def _commit(
        self, writes: Sequence[Write], *, session: SessionId | None
    ) -> tuple[Written, ...]:
        self.counted.writes += len(writes)
        self.counted.size_bytes += sum(
            len(write.value) for write in writes if isinstance(write, Create | Put)
        )
        return await super()._commit(writes, session=session)


async def counted_cluster() -> tuple[CountingStore, Cluster]:
    store = CountingStore(MemoryServer(), root="/ledgers")
    return store, await clusters.initialise(store, INSTANCE)
