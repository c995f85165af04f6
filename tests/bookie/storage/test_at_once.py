"""Rounds of the rewrite, compactions, sweeps and reads at once, on disks that take their time.

Each commit is of one of them at a time, and each change of the index is under the commit's lock.
What was acknowledged stays, and what the index says is what the tables of the segments say.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import SIZES, Driver, fill, frame, fresh
from tests.support import virtual_time
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.segments import directories
from zonekeeper.bookie.storage import rewrite, storage
from zonekeeper.bookie.storage.storage import Storage

#: A piece of background work takes up to so long; a write to the log takes a tenth.
BACKGROUND_MS = 40
#: Ledgers that are written, and of which some are closed meanwhile.
CLOSED, OPEN = (2, 4, 6, 8), (1, 3, 5, 7, 9)


@asynccontextmanager
async def slow(
    files: MemoryFileSystem, store: MemoryOrdered, chance: random.Random, ends: dict[int, int]
) -> AsyncIterator[Storage]:
    on = replace(
        keeping.devices(files, store),
        writing=InlineDisk(lambda: chance.randrange(BACKGROUND_MS // 10)),
        background=InlineDisk(lambda: chance.randrange(BACKGROUND_MS)),
        reads=InlineDisk(lambda: chance.randrange(BACKGROUND_MS)),
    )
    kept = await storage.open_storage(on, SIZES, keeping.closed_at(ends))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kept.run())
        yield kept
        kept.log.close()
    await kept.close()


async def write(driver: Driver, chance: random.Random, ledger_ids: range, until: int) -> None:
    for number in range(until):
        for ledger_id in ledger_ids:
            await driver.append(frame(ledger_id, [2 * number, 2 * number + 1]))
        await asyncio.sleep(chance.random() / 100)


async def read(kept: Storage, driver: Driver, chance: random.Random) -> None:
    """Read what is promised, again and again: nothing of it is denied, and no read fails."""
    for _ in range(15):
        number = chance.choice(OPEN)
        promised = set(driver.promised[number].entries)
        assert await keeping.read_ids(kept, number) >= promised


async def churn(driver: Driver, kept: Storage, chance: random.Random, first: int) -> None:
    """Write ledgers and delete them, so that every segment is worth a compaction soon."""
    for ledger_id in range(first, first + 60, 2):
        for number in range(3):
            await driver.append(frame(ledger_id, [number]))
        await asyncio.sleep(chance.random() / 3)
        await driver.forget(ledger_id)
        await kept.reclaim()


async def close(driver: Driver, chance: random.Random) -> None:
    """Say of ledgers that are still written that they are closed: what is past their end goes."""
    for ledger_id in CLOSED:
        await asyncio.sleep(chance.random())
        driver.close(ledger_id, chance.randrange(60))


async def compact(kept: Storage, done: asyncio.Event, chance: random.Random) -> None:
    while not done.is_set():
        await asyncio.sleep(chance.random() / 10)
        await kept.compact(major=True)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_acknowledged_stays_whatever_works_at_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "_MOVED", 2)

    async def play() -> None:
        chance = random.Random(seed)
        files, store = fresh(), MemoryOrdered()
        ends: dict[int, int] = {}
        async with slow(files, store, chance, ends) as kept:
            driver = Driver(kept, ends)
            await fill(driver, range(1, 10), 4)
            done = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(2):
                    tasks.create_task(compact(kept, done, chance))
                async with asyncio.TaskGroup() as work:
                    work.create_task(close(driver, chance))
                    for some in (range(1, 5), range(5, 10)):
                        work.create_task(write(driver, chance, some, 30))
                    for first in (100, 200):
                        work.create_task(read(kept, driver, chance))
                        work.create_task(churn(driver, kept, chance, first))
                done.set()
            assert kept.counters.compacted_segments > 0
            assert kept.counters.rewritten_segments > 0
            await keeping.check(kept, driver.promised)
            await kept.reclaim()
            names = [directories.name_of(segment.number) for segment in kept.segments]
        assert set(keeping.sorted_names(files)) >= set(names)
        async with keeping.running(files, store, policy=keeping.closed_at(ends)) as again:
            await keeping.check(again, driver.promised)
        rebuilt = MemoryOrdered()
        storage.rebuild_index(files, Index(rebuilt))
        assert list(Index(store).rows()) == list(Index(rebuilt).rows())

    virtual_time.run(play())
