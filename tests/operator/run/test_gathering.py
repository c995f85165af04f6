"""Events that come close together are one turn, and a change in the store is an event."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.operator.resources import KEY
from tests.operator.worlds import World
from tests.support import virtual_time
from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, ObjectKind
from zonekeeper.operator.run.reconciling import GATHERED_MS, Clocks, Reconcilers
from zonekeeper.operator.run.turn_figures import TurnTally
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location


def now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1_000)


class TurnCount:
    """Counts the turns that begin."""

    def __init__(self) -> None:
        self.begun_ms: list[int] = []
        self.begun = asyncio.Event()

    def __call__(self, verb: str, kind: ObjectKind) -> None:
        if (verb, kind) == ("get", BOOKIE_CLUSTERS):
            self.begun_ms.append(now_ms())
            self.begun.set()


@asynccontextmanager
async def resting() -> AsyncIterator[tuple[World, Reconcilers, TurnCount]]:
    """A built cluster that waits, whose last turn is over and whose next one is not due."""
    world, count = World(), TurnCount()
    await world.settle()
    await world.reconciler.close()
    clocks = Clocks(wall=world.clocks.wall, monotonic_ms=now_ms)
    async with asyncio.TaskGroup() as group:
        around = replace(world.surroundings(), clocks=clocks, spawn=group.create_task)
        reconcilers = Reconcilers(around, group, tally=TurnTally(now_ms))
        reconcilers.wake(KEY)
        await asyncio.sleep(60)
        world.kubernetes.disturb = count
        try:
            await count.begun.wait()
            await asyncio.sleep(1.5 * GATHERED_MS / 1_000)
            assert len(count.begun_ms) == 1, "it waits longer than events are gathered"
            count.begun_ms.clear()
            yield world, reconcilers, count
        finally:
            reconcilers.stop()


@virtual_time.played
async def test_a_flood_of_events_is_a_turn_a_second_and_the_first_event_waits_for_none() -> None:
    async with resting() as (_, reconcilers, count):
        began_ms = now_ms()
        for _ in range(450):
            reconcilers.wake(KEY)
            await asyncio.sleep(0.01)

        assert count.begun_ms[0] - began_ms <= 1
        assert len(count.begun_ms) == math.ceil(4_500 / GATHERED_MS)


@virtual_time.played
async def test_a_moved_cookie_begins_a_turn_without_an_event_of_kubernetes() -> None:
    async with resting() as (world, _, count):
        store = await world.open(await world.address())
        cluster = await clusters.open_cluster(store)
        elsewhere = Location(ZoneName("b"), UpgradeDomain("ud-0"))
        await cookie_store.move(cluster, BookieId("log-a-0"), elsewhere)
        await asyncio.sleep(0.1)

        assert count.begun_ms
        await store.close()
