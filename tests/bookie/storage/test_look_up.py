"""Where entries are, looked up in a thread while extents move: never a wrong "not here"."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.formats.index import MemoryOrdered, Pair
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.storage import reading, rewrite, storage
from zonekeeper.bookie.storage.ledger_entries import LedgerEntries
from zonekeeper.placement.base.ids import EntryId, LedgerId

T = TypeVar("T")

FAR = 1 << 40


class Counting(MemoryOrdered):
    """Counts how often it is looked into."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def from_floor(self, key: bytes) -> Iterator[Pair]:
        self.looks += 1
        return super().from_floor(key)


async def filled(driver: Driver, count: int) -> None:
    await asyncio.gather(*(driver.append(keeping.frame(1, [number])) for number in range(count)))


async def test_a_listing_is_looked_up_in_pieces_and_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "FRAMES_MAX", 7)
    async with keeping.running(keeping.fresh(), MemoryOrdered()) as kept:
        await filled(Driver(kept), 100)
        ledger = kept.memory.ledger(LedgerId(1))
        found: list[int] = []
        at, pieces = 0, 0
        while at <= 99:
            known = await kept.look_up(ledger, at, FAR, FAR)
            for extent in known.extents:
                found += range(extent.first, extent.last + 1)
            at, pieces = known.last + 1, pieces + 1
        assert found == list(range(100))
        assert pieces >= 100 // 7
        for step in (1, 3):
            at, seen = 0, list[int]()
            while at <= 99:
                part = await kept.read(ledger, range(at, 100, step), 200)
                seen += [each for frame in part.frames for each in frame.entry_ids]
                assert part.next_entry_id > at
                at = part.next_entry_id
            assert seen == list(range(0, 100, step))


async def test_what_moves_while_it_is_looked_up_is_looked_up_again() -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with keeping.running(files, store) as kept:
        driver = Driver(kept)
        await filled(driver, 60)
        ledger = kept.memory.ledger(LedgerId(1))
        await keeping.let_work(lambda: keeping.mark_of(files) > (0, 0))
        reads = kept._devices.reads
        assert isinstance(reads, InlineDisk)
        run, looks = reads.run, 0

        async def slow(work: Callable[[], T]) -> T:
            """The rewrite does a whole round before the answer comes back."""
            nonlocal looks
            looks += 1
            found = await run(work)
            if looks == 1:
                before = keeping.mark_of(files)
                await asyncio.gather(
                    *(driver.append(keeping.frame(1, [number])) for number in range(60, 120))
                )
                await keeping.let_work(lambda: keeping.mark_of(files) > before)
            return found

        monkeypatched = pytest.MonkeyPatch()
        monkeypatched.setattr(reads, "run", slow)
        known = await kept.look_up(ledger, 0, 119, FAR)
        monkeypatched.undo()

        assert looks == 2
        assert [each for extent in known.extents for each in (extent.first, extent.last)][-1] == 119
        assert known.last == EntryId(119)
        assert await keeping.read_ids(kept, 1) == set(range(120))


async def test_a_writer_never_waits_for_the_index_and_who_fills_gaps_looks_once_a_frame() -> None:
    files, store = keeping.fresh(), Counting()
    async with keeping.running(files, store) as kept:
        driver = Driver(kept)
        await driver.append(keeping.frame(1, [0, 5]))
        await asyncio.gather(*(driver.append(keeping.frame(2, [each])) for each in range(100)))
        entries = kept.memory.ledger(LedgerId(1)).extents
        assert isinstance(entries, LedgerEntries)
        await keeping.let_work(lambda: entries.is_sorted(5))
    large = Sizes(segment_bytes=1 << 20)  # no rewrite looks, too
    async with keeping.running(files, store, large) as kept:
        driver = Driver(kept)
        before = store.looks
        for number in range(6, 16):
            await driver.append(keeping.frame(1, [number]))
        assert store.looks == before
        for number in range(1, 5):
            await driver.append(keeping.frame(1, [number]))
        assert store.looks == before + 4
        assert await keeping.read_ids(kept, 1) == set(range(16))


async def test_extents_leave_memory_ledger_by_ledger_while_appends_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewrite, "_MOVED", 2)
    files, store = keeping.fresh(), MemoryOrdered()
    async with keeping.running(files, store) as kept:
        driver = Driver(kept)
        for _ in range(2):
            for number in range(12):
                for ledger_id in range(1, 10):
                    at = number + (100 if kept.segments else 0)
                    await driver.append(keeping.frame(ledger_id, [at]))
                    if number % 4 == 3 and ledger_id == 9:
                        await driver.forget(ledger_id)
        await keeping.let_work(lambda: kept.counters.rewritten_segments > 2)
        await keeping.check(kept, driver.promised)


async def test_who_follows_a_ledger_does_not_wait_behind_those_who_catch_up() -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with keeping.running(files, store) as kept:
        await filled(Driver(kept), 60)
        await keeping.let_work(lambda: bool(kept.segments))
    tails, reads = InlineDisk(), InlineDisk(delay_ms=lambda: 1 << 40)
    on = replace(keeping.devices(files, store), reads=reads, tails=tails)
    kept = await storage.open_storage(on, Sizes(segment_bytes=1 << 20))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kept.run())
        ledger = kept.memory.ledger(LedgerId(1))
        catching_up = tasks.create_task(kept.read(ledger, range(10), 1 << 20))
        await Driver(kept).append(keeping.frame(1, [60]))
        found = await kept.read(ledger, range(60, 61), 1 << 20)
        assert [frame.entry_ids[0] for frame in found.frames] == [60]
        assert not catching_up.done()
        catching_up.cancel()
        kept.log.close()
    reads.stop()
    await kept.close()
