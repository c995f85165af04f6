"""A process that follows the children of a node: in which order their watches end."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.support import virtual_time
from zonekeeper.metadata.store import following
from zonekeeper.metadata.store.store import Versioned
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts

_TIMEOUTS = Timeouts(session_ms=10_000, request_ms=3_000)
_NAMES = tuple(f"bookie-{number:02d}" for number in range(20))


class Noting(MemoryStore):
    """Notes which watches end, in order."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server, timeouts=_TIMEOUTS)
        self.ended: list[str] = []

    def watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[Versioned | None]]:
        return self._noted(path)

    @asynccontextmanager
    async def _noted(self, path: str) -> AsyncIterator[AsyncIterator[Versioned | None]]:
        async with super().watch(path) as states:
            try:
                yield states
            finally:
                self.ended.append(path)


@virtual_time.played
async def test_watches_that_end_together_end_in_the_order_of_their_names() -> None:
    """A set's order is another one in each run, and decides what else happens first."""
    store = Noting(MemoryServer())
    await store.create("/a")
    for name in _NAMES:
        await store.create(f"/a/{name}")
    async with following.follow_children(store, "/a") as states:
        assert tuple(await anext(states)) == _NAMES
    assert store.ended == [f"/a/{name}" for name in _NAMES]
    await store.close()
