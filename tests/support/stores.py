"""Places where stores can be opened: one of each kind, for suites that run against all of them.

Each place gives stores that see one tree, under a root that no other test uses. The test that opens
a place closes it, and the stores that it opened with it.
"""

import abc
import asyncio
import contextlib
import socket
import sqlite3
import struct
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from kazoo.protocol.serialization import Close, Connect, int_int_struct, int_struct

from tests.support.zookeeper import Ensemble
from zonekeeper.metadata.store.store import MetadataStore, SessionId
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.sqlite import monotonic_ms
from zonekeeper.metadata.stores.sqlite_file import StoreFile
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.zookeeper import ZooKeeperStore

#: Generous, for machines under load: no test waits for a time limit that it does not want to see.
PATIENT = Timeouts(session_ms=20_000, request_ms=20_000)

#: For a server on a busy machine.
_ANSWER_SECONDS = 60

_GREETED = struct.Struct("!iii")


class Place(abc.ABC):
    """Where any number of clients find the same tree."""

    #: What other processes open; a place in memory has no such thing.
    uri: str

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
    async def expire(self, store: MetadataStore) -> None:
        """End a store's session behind its back."""

    @abc.abstractmethod
    async def _open(self, timeouts: Timeouts) -> MetadataStore: ...


@contextlib.asynccontextmanager
async def place_of(
    kind: str, folder: Path, zookeeper_server: Callable[[], Ensemble]
) -> AsyncIterator[Place]:
    """Open a place of a kind; ``zookeeper_server`` is only asked for where it is needed."""
    place: Place
    match kind:
        case "memory":
            place = MemoryPlace()
        case "sqlite":
            place = SqlitePlace(folder)
        case "zookeeper":
            place = ZooKeeperPlace(zookeeper_server().addresses)
        case _:
            raise ValueError(f"there is no store of the kind {kind}")
    yield place
    await place.close()


def asked_for(
    request: pytest.FixtureRequest, folder: Path
) -> contextlib.AbstractAsyncContextManager[Place]:
    """Open a place of the kind that a fixture's parameter names."""
    return place_of(request.param, folder, partial(request.getfixturevalue, "zookeeper_server"))


class MemoryPlace(Place):
    def __init__(self) -> None:
        super().__init__()
        self.server = MemoryServer()

    async def _open(self, timeouts: Timeouts) -> MemoryStore:
        return MemoryStore(self.server, root=self.root, timeouts=timeouts)

    async def expire(self, store: MetadataStore) -> None:
        assert store.session.id is not None
        self.server.expire(store.session.id)


class SqlitePlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "meta.db"
        self.uri = f"sqlite://{self.path}?root={self.root}"

    async def _open(self, timeouts: Timeouts) -> MetadataStore:
        return await open_store(self.uri, timeouts)

    async def expire(self, store: MetadataStore) -> None:
        assert store.session.id is not None
        await asyncio.to_thread(self._end, store.session.id)

    def _end(self, session: SessionId) -> None:
        # The boot that the store itself wrote: a process with another one would end every session.
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            (boot,) = connection.execute("SELECT DISTINCT boot FROM session").fetchone()
        file = StoreFile(self.path, name=self.uri, boot=boot, clock_ms=monotonic_ms)
        file.open(monotonic_ms() + PATIENT.request_ms)
        file.end_session(session, monotonic_ms() + PATIENT.request_ms)
        file.close()


class ZooKeeperPlace(Place):
    def __init__(self, servers: str) -> None:
        super().__init__()
        self.servers = servers
        self.uri = f"zk://{servers}{self.root}"

    async def _open(self, timeouts: Timeouts) -> MetadataStore:
        return await open_store(self.uri, timeouts)

    async def expire(self, store: MetadataStore) -> None:
        # A client that shows a session's password may end it.
        assert isinstance(store, ZooKeeperStore)
        session, password = store._client._kazoo.client_id
        there = True
        while there:
            there = await asyncio.to_thread(self._end, session, password)

    def _end(self, session: int, password: bytes) -> bool:
        """Greet as a session's owner and take leave in one breath; False: the session is over.

        Its store is cut off by the greeting, and soon takes the session back. Who took leave only
        after an answer could come too late.
        """
        greeting = Connect(0, 0, PATIENT.session_ms, session, password, False).serialize()
        leave = int_int_struct.pack(1, Close.type)
        host, port = self.servers.split(",")[0].split(":")
        with socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS) as asked:
            asked.sendall(b"".join(int_struct.pack(len(b)) + b for b in (greeting, leave)))
            try:
                answer = b"".join(iter(lambda: asked.recv(4096), b""))
            except ConnectionError:
                return True
        # Its length, the protocol's version, and the session's time: none, if there is none.
        return len(answer) < _GREETED.size or _GREETED.unpack_from(answer)[2] > 0
