"""The folder of a log is made where it is gone, also if an older state of the store shows it."""

import asyncio
import uuid

from tests.support import virtual_time
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.store.store import parent_of
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer


@virtual_time.played
async def test_a_folder_that_went_a_moment_ago_is_made_again() -> None:
    server = MemoryServer()
    behind, person = MemoryStore(server), MemoryStore(server)
    cluster = await clusters.initialise(person, str(uuid.UUID(int=1)))
    folder = parent_of(logs.path(cluster, "simulated/log"))
    await logs.make_folder(cluster, folder)
    mine = await clusters.open_cluster(behind)
    await asyncio.sleep(120)
    behind.read_lag_ms = 60_000
    await person.delete(folder, version=None)
    assert await behind.exists(folder)

    await logs.make_folder(mine, folder)

    assert await person.exists(folder, sync=True)
    await behind.close()
    await person.close()
