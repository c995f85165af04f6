"""The timeline hears of a bookie's own conditions, however fast they come and go: a few events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.bookie.life.test_life import INSTANCE
from tests.bookie.running import BOOKIE, running
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life.mode_telling import QUIET_MS, QUIET_MS_MAX, ModeTelling, Teller
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

FULL = ["the device of --data is full: 96.0% used"]
WALL_MS = 1_700_000_000_000
MOMENT_S = 1


@dataclass
class Ground:
    cluster: Cluster
    bookie: BookieServer

    async def told(self) -> list[tuple[str, str]]:
        """Give the events of the bookie, the oldest first."""
        events = [one for one in await timeline.newest(self.cluster) if one.by == BOOKIE]
        assert all(one.subject == f"bookie {BOOKIE}" for one in events)
        return [(one.kind, one.reason) for one in reversed(events)]


def now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


@asynccontextmanager
async def begun(cluster: Cluster, *, boot_epoch: int, full: bool = False) -> AsyncIterator[Ground]:
    """Let a start of the bookie tell until the block ends."""
    async with running(MemoryFileSystem()) as bookie, asyncio.TaskGroup() as tasks:
        looked = asyncio.Event()
        telling = ModeTelling(
            cluster,
            BOOKIE,
            bookie.modes,
            boot_epoch=boot_epoch,
            now_ms=now_ms,
            wall_ms=lambda: WALL_MS + now_ms(),
        )
        work = tasks.create_task(telling.run(looked))
        await asyncio.sleep(MOMENT_S)
        if full:
            bookie.set_conditions(FULL)
        looked.set()
        await asyncio.sleep(MOMENT_S)
        yield Ground(cluster, bookie)
        work.cancel()


async def made() -> Cluster:
    store = await MemoryPlace().open(Timeouts(session_ms=10 * DAY_MS))
    return await clusters.initialise(store, INSTANCE)


async def passed(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


@virtual_time.played
async def test_s147_a_condition_is_told_at_once_and_its_end_after_the_quiet_time() -> None:
    async with begun(await made(), boot_epoch=1) as ground:
        assert await ground.told() == []
        ground.bookie.set_conditions(FULL)
        await passed(SECOND_MS)
        assert await ground.told() == [("read-only", FULL[0])]
        ground.bookie.set_conditions([])
        await passed(MINUTE_MS)
        assert len(await ground.told()) == 1
        await passed(QUIET_MS)
        assert (await ground.told())[1:] == [("writable", f"over: {FULL[0]}")]
        await passed(DAY_MS)
        assert len(await ground.told()) == 2


@virtual_time.played
async def test_s147_a_bookie_that_flaps_does_not_flood_the_timeline() -> None:
    async with begun(await made(), boot_epoch=1) as ground:
        for turn in range(DAY_MS // MINUTE_MS):
            ground.bookie.set_conditions([] if turn % 2 else FULL)
            await passed(MINUTE_MS)
        told = await ground.told()
        assert 20 <= len(told) <= 30
        assert "changed 60 times since it was told" in told[-1][1]
        await passed(2 * HOUR_MS)
        assert (await ground.told())[-1][0] == "writable", "in the end the timeline has the truth"


@virtual_time.played
async def test_s147_a_restart_tells_only_what_is_otherwise_than_it_was_told() -> None:
    cluster = await made()
    for boot_epoch in range(1, 6):
        async with begun(cluster, boot_epoch=boot_epoch, full=True) as ground:
            await passed(QUIET_MS + MINUTE_MS)
            assert [kind for kind, _ in await ground.told()] == ["read-only"]
    async with begun(cluster, boot_epoch=6) as ground:
        await passed(QUIET_MS)
        assert await ground.told() == [
            ("read-only", FULL[0]),
            ("writable", "over: a condition of an earlier start"),
        ]


@virtual_time.played
async def test_s147_the_end_of_a_condition_is_no_end_of_an_order() -> None:
    async with begun(await made(), boot_epoch=1) as ground:
        await ground.bookie.set_read_only(read_only=True)
        await passed(DAY_MS)
        assert await ground.told() == [], "the person's command tells that"
        ground.bookie.set_conditions(FULL)
        await passed(SECOND_MS)
        ground.bookie.set_conditions([])
        await passed(QUIET_MS)
        kind, reason = (await ground.told())[-1]
        assert kind == "read-only"
        assert "over: " in reason
        assert "read-only still by a person's order" in reason


@virtual_time.played
async def test_s147_an_event_that_is_lost_is_told_later() -> None:
    cluster = await made()
    store = cluster.store
    assert isinstance(store, MemoryStore)
    async with begun(cluster, boot_epoch=1) as ground:
        store.weather = lambda _: Passage(loss=ExchangeLoss.REQUEST)
        ground.bookie.set_conditions(FULL)
        await passed(MINUTE_MS)
        store.weather = lambda _: Passage()
        await passed(QUIET_MS)
        assert [kind for kind, _ in await ground.told()] == ["read-only"]


def test_s147_a_calm_time_ends_the_longer_quiet() -> None:
    teller = Teller()
    at_ms = 0
    for turn in range(10):
        teller.seen(turn % 2 == 0)
        due_ms = teller.due_ms()
        assert due_ms is not None
        at_ms = max(at_ms, due_ms)
        teller.tell(at_ms)
    assert teller.quiet_ms == QUIET_MS_MAX
    assert teller.due_ms() is None
    at_ms += 3 * QUIET_MS_MAX
    teller.seen(True)
    teller.tell(at_ms)
    assert teller.quiet_ms == QUIET_MS
