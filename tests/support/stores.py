"""Places where stores can be opened: one of each kind, for suites that run against all of them.

Each place gives stores that see one tree, under a root that no other test uses. Who opens a place
closes it, and the stores it opened with it.
"""

import abc
import uuid
from pathlib import Path

from zonekeeper.metadata.store import MetadataStore
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts

#: Generous, for machines under load: no test waits for a time limit that it does not want to see.
PATIENT = Timeouts(session_ms=20_000, request_ms=20_000)


class Place(abc.ABC):
    """Where any number of clients find the same tree."""

    def __init__(self) -> None:
        self.root = f"/{uuid.uuid4().hex}"
        self._opened: list[MetadataStore] = []

    async def open(self, timeouts: Timeouts = PATIENT) -> MetadataStore:
        """Open a store; its root is there."""
        store = await self._open(timeouts)
        self._opened.append(store)
        if not await store.exists(store.root, sync=True):
            await store.create(store.root)
        return store

    async def close(self) -> None:
        """Close every store that was opened here."""
        for store in self._opened:
            await store.close()

    @abc.abstractmethod
    async def _open(self, timeouts: Timeouts) -> MetadataStore: ...


class MemoryPlace(Place):
    def __init__(self) -> None:
        super().__init__()
        self.server = MemoryServer()

    async def _open(self, timeouts: Timeouts) -> MemoryStore:
        return MemoryStore(self.server, root=self.root, timeouts=timeouts)


class SqlitePlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.uri = f"sqlite://{folder / 'meta.db'}?root={self.root}"

    async def _open(self, timeouts: Timeouts) -> MetadataStore:
        return await open_store(self.uri, timeouts)


class ZooKeeperPlace(Place):
    def __init__(self, servers: str) -> None:
        super().__init__()
        self.uri = f"zk://{servers}{self.root}"

    async def _open(self, timeouts: Timeouts) -> MetadataStore:
        return await open_store(self.uri, timeouts)
