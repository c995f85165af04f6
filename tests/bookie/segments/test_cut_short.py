"""The caller of a thread's work is cancelled: the work is done whole all the same."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, check, frame, let_work, opening, read_ids, running
from zonekeeper.bookie.disk.files import File
from zonekeeper.bookie.formats import locations
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments.places import Places
from zonekeeper.placement.base.ids import LedgerId

T = TypeVar("T")

GENERATION = 1


class SlowDisk:
    """A disk that works when it is told to, also long after all callers have gone."""

    def __init__(self) -> None:
        self._works: list[Callable[[], None]] = []

    async def run(self, work: Callable[[], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def piece() -> None:
            result = work()
            if not done.cancelled():
                done.set_result(result)

        self._works.append(piece)
        return await done

    async def close(self) -> None:
        self.go_on()

    def go_on(self) -> None:
        while self._works:
            self._works.pop(0)()


def no_sorted(number: int) -> File:
    raise FileNotFoundError(number)


async def test_a_segment_under_a_read_that_nobody_waits_for_is_not_used_anew() -> None:
    files, disk = keeping.fresh(), SlowDisk()
    places = Places(no_sorted)
    places.adopt(GENERATION, files.create("arrival-1"))
    where = locations.location(locations.arrival_key(GENERATION), 0)
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(disk.run(places.pinning([where], lambda: places.read(where, 1))))
        await asyncio.sleep(0)
        reader.cancel()
        dropping = tasks.create_task(places.drop_arrivals([GENERATION]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert reader.cancelled()
        assert not dropping.done(), "the thread is still at it"
        disk.go_on()


@pytest.mark.parametrize("turns", range(60))
async def test_a_compaction_that_is_cut_short_sweeps_later_what_was_forgotten(turns: int) -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        for ledger_id in (1, 2):
            await driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
        for first in range(0, 80, 2):
            for ledger_id in (1, 2):
                await driver.append(frame(ledger_id, [first, first + 1], lac=first - 1))
        assert any(row.ledger_id == 2 for row in Index(store).rows())
        await driver.forget(2)
        async with asyncio.TaskGroup() as tasks:
            compacting = tasks.create_task(kept.compact(major=True))
            for _ in range(turns):
                await asyncio.sleep(0)
            compacting.cancel()
        await kept.reclaim()
        # Or by a round that is under way.
        await let_work(lambda: all(row.ledger_id != LedgerId(2) for row in Index(store).rows()))
        await check(kept, driver.promised)
    for kept_writes in range(store.synced, len(store.writes) + 1):
        async with running(files, store.crashed(kept_writes)) as kept:
            await check(kept, driver.promised)
            assert await read_ids(kept, 2) == set()
