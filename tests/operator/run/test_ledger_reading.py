"""Ledgers are read beside the turns: anew for another basis, when old, and after a failure."""

import asyncio

from tests.operator.roll import rolling_world
from tests.operator.worlds import World
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.operator.run.ledger_reading import ANEW_AFTER_MS, LedgerReading


async def read(reading: LedgerReading, cluster: Cluster, basis: str, now_ms: int) -> int | None:
    """Give how many ledgers the last complete listing of this basis has seen."""
    sight = reading.want(cluster, basis, now_ms=now_ms)
    return None if sight is None else sight.kinds.ledgers


async def test_a_listing_counts_when_it_is_complete_and_until_one_that_is_newer_is() -> None:
    world = World()
    await world.settle()
    await rolling_world.write_ledger(world, 5, "log-a-0", "log-b-0", ack=2)
    async with rolling_world.cluster_of(world) as cluster:
        reading = LedgerReading(asyncio.ensure_future)
        assert await read(reading, cluster, "one", 0) is None
        await reading.wait()
        assert await read(reading, cluster, "one", 1) == 1

        await rolling_world.write_ledger(world, 6, "log-a-0", "log-b-0", ack=2)
        assert await read(reading, cluster, "one", ANEW_AFTER_MS) == 1
        await reading.wait()
        assert await read(reading, cluster, "one", ANEW_AFTER_MS) == 1, "it is not old yet"
        assert await read(reading, cluster, "one", 1 + ANEW_AFTER_MS) == 1
        await reading.wait()
        assert await read(reading, cluster, "one", 2 + ANEW_AFTER_MS) == 2
        reading.give_up()


async def test_for_another_basis_nothing_is_known_until_it_is_read_anew() -> None:
    world = World()
    await world.settle()
    async with rolling_world.cluster_of(world) as cluster:
        reading = LedgerReading(asyncio.ensure_future)
        await read(reading, cluster, "one", 0)
        await reading.wait()
        assert await read(reading, cluster, "one", 1) == 0

        assert await read(reading, cluster, "two", 2) is None
        await reading.wait()
        assert await read(reading, cluster, "two", 3) == 0
        reading.give_up()
