"""Where entries are, looked up in a thread while extents move: never a wrong "not here"."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver
from zonekeeper.bookie import reading
from zonekeeper.bookie.disks import InlineDisk
from zonekeeper.bookie.segments.index import MemoryOrdered
from zonekeeper.placement.ids import EntryId, LedgerId

T = TypeVar("T")

FAR = 1 << 40


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
