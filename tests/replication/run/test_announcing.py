"""An autorecovery process says where its pages are, in each of its sessions."""

import asyncio

from tests.metadata.cluster.test_announced import ONE, joined, session
from tests.support import virtual_time
from zonekeeper.metadata.cluster import announced
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.replication.run import announcing


@virtual_time.played
async def test_a_process_announces_itself_in_each_of_its_sessions() -> None:
    server = MemoryServer()
    cluster, reader = await joined(server), await joined(server)
    assert isinstance(cluster.store, MemoryStore)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(announcing.keep(cluster, ONE))
        await asyncio.sleep(1)
        assert await announced.read_all(reader) == (ONE,)
        before = session(cluster)
        cluster.store.cut()
        await asyncio.sleep(20)
        assert await announced.read_all(reader) == ()
        cluster.store.mend()
        await asyncio.sleep(20)
        assert session(cluster) != before
        assert await announced.read_all(reader) == (ONE,)
        keeping.cancel()
