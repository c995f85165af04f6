"""The gates of a cluster at an address, by a test's hand, as a zone watch writes them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from tests.replication.repair_lab import Gates
from zonekeeper.client.api import loop_thread
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.metadata.cluster.cluster import open_cluster
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.stores.opening import open_store

#: So often the counters move; a process sees that zones are watched after two of these.
EVERY_S = 0.5


class OpenGates:
    """Gates that are open until a test holds them."""

    def __init__(self, gates: Gates, calls: Calls) -> None:
        self._gates = gates
        self._calls = calls

    def hold(self, zone: str) -> None:
        self._calls.do(lambda: self._gates.hold(zone))

    def open(self, zone: str) -> None:
        self._calls.do(lambda: self._gates.open(zone))


@contextmanager
def opened(address: str) -> Iterator[OpenGates]:
    """Let the gates' counters move beside the block."""
    with loop_thread.opened(_moving(address)) as (gates, calls):
        yield OpenGates(gates, calls)


@asynccontextmanager
async def _moving(address: str) -> AsyncIterator[Gates]:
    store = await open_store(address, must_exist=True)
    try:
        gates = Gates(await open_cluster(store))
        async with alongside(gates.run(EVERY_S)):
            yield gates
    finally:
        await store.close()
