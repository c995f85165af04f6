"""A stand-in for the zone watch keeps to the policy of now."""

import asyncio

from tests.support import virtual_time
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId

TIMEOUTS = Timeouts(session_ms=10_000, request_ms=5_000)
HOUR_MS = 3_600_000


@virtual_time.played
async def test_who_waits_to_stand_in_feels_a_shorter_delay_within_seconds() -> None:
    store = MemoryStore(MemoryServer(), root="/ledgers", timeouts=TIMEOUTS)
    cluster = await clusters.initialise(store, "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11")
    after_ms = HOUR_MS
    votes = elections.zone_watch_votes(cluster)
    async with elections.stand(
        store, votes, BookieId("stand-in"), stand_in_after_ms=lambda: after_ms
    ) as states:
        assert await anext(states) is None
        await asyncio.sleep(100)
        assert await elections.leader(store, votes) is None
        after_ms = 60_000
        async with asyncio.timeout(6):
            assert await anext(states) is not None
    await store.close()
