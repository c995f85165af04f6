"""A device that is full finds back by itself when something on it is deleted."""

import asyncio
import errno
import os
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, check, fill, frame, fresh, running, sorted_names
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.storage.storage import Storage

KIB = 1 << 10
SEGMENT = 16 * KIB
RESERVE = 32 * KIB
#: What rounds leave free, and what compaction does.
ROUND_LEAVES, COMPACTION_LEAVES = RESERVE // 2, RESERVE // 4
SIZES = Sizes(segment_bytes=SEGMENT, segments_max=4, round_segments=1, reserve_bytes=RESERVE)
#: Longer than anything waits that ends.
LIMIT_S = 1_000


def leave(files: MemoryFileSystem, free_bytes: int) -> None:
    """Let the device be full but for so much."""
    files._total_bytes = files._used() + free_bytes


async def append_until(
    driver: Driver, ledger_ids: Sequence[int], first: int, enough: Callable[[], bool]
) -> None:
    """Append to ledgers in turn, two entries at a time, from this one on, until it is enough."""
    while not enough():
        for ledger_id in ledger_ids:
            await driver.append(frame(ledger_id, [first, first + 1]))
        first += 2


@asynccontextmanager
async def standing_still(files: MemoryFileSystem) -> AsyncIterator[tuple[Storage, Driver]]:
    """Half of each segment is ledger 1, and there is no room for one more round."""
    async with running(files, MemoryOrdered(), SIZES) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2), 200)
        leave(files, ROUND_LEAVES + SEGMENT // 2)
        async with asyncio.timeout(LIMIT_S):
            await append_until(driver, (1, 2), 400, lambda: bool(kept.backlog.stands_still))
        assert kept.backlog.in_reach > 0, "whoever writes need not wait yet"
        yield kept, driver


async def half_of_all_is_deleted() -> None:
    files = fresh()
    async with standing_still(files) as (kept, driver), asyncio.timeout(LIMIT_S):
        trouble = kept.backlog.trouble
        assert trouble is not None
        assert "waits for room" in trouble
        assert "are needed" in trouble
        rewritten = kept.counters.rewritten_segments
        await driver.forget(1)
        await kept.reclaim()
        await asyncio.sleep(2)
        await fill(driver, (3,), 60)
        assert kept.backlog.trouble is None
        assert kept.counters.compacted_segments > 1
        assert kept.counters.rewritten_segments > rewritten
        await check(kept, driver.promised)


def test_when_half_of_each_segment_is_deleted_the_rewrite_goes_on() -> None:
    """Each compaction fits, makes room for the next, and waits for no round that waits for it."""
    virtual_time.run(half_of_all_is_deleted())


async def what_waits_is_deleted() -> None:
    files = fresh()
    leave(files, SEGMENT + ROUND_LEAVES + SEGMENT // 2)
    async with running(files, MemoryOrdered(), SIZES) as kept, asyncio.timeout(LIMIT_S):
        driver = Driver(kept)
        await append_until(driver, (1,), 0, lambda: bool(kept.backlog.stands_still))
        assert kept.segments == ()
        await driver.forget(1)
        await kept.reclaim()
        await asyncio.sleep(2)
        assert kept.backlog.trouble is None
        await fill(driver, (2,), 20)
        await check(kept, driver.promised)


def test_when_only_what_waits_for_a_round_is_deleted_the_rewrite_goes_on() -> None:
    virtual_time.run(what_waits_is_deleted())


async def test_what_waits_for_a_round_for_which_there_may_be_no_room_is_not_taken() -> None:
    """An append that waits for a segment waits for the rewrite: it must be able to free one."""
    files = fresh()
    kept = await keeping.opened(files, MemoryOrdered(), SIZES)
    log = asyncio.ensure_future(kept.log.run())
    driver = Driver(kept)

    def nearly_all_is_used() -> bool:
        return not kept.backlog.in_reach and kept.log.active.size() >= SEGMENT * 3 / 4

    await append_until(driver, (1,), 0, nearly_all_is_used)
    large = frame(2, range(60))
    assert large.size_bytes > SEGMENT - kept.log.active.size()
    taken = []
    for free in (2 * SEGMENT, SEGMENT - 1):
        leave(files, ROUND_LEAVES + free)
        await kept.measure()
        taken.append(kept.log.has_room(large, urgent=True))
    assert taken == [True, False]
    kept.log.close()
    await log


async def nothing_is_deleted() -> None:
    files = fresh()
    async with standing_still(files) as (kept, driver), asyncio.timeout(LIMIT_S):
        waits = kept.counters.waits_for_room
        assert await kept.compact(major=True) == 0
        await asyncio.sleep(10)
        assert waits < kept.counters.waits_for_room < waits + 20
        await check(kept, driver.promised)
        files._total_bytes = 1 << 40
        await asyncio.sleep(2)
        await fill(driver, (3,), 60)
        await check(kept, driver.promised)


def test_when_nothing_is_deleted_all_is_read_and_it_goes_on_when_there_is_room() -> None:
    virtual_time.run(nothing_is_deleted())


async def a_round_of_fewer() -> None:
    files = fresh()
    kept = await keeping.opened(files, MemoryOrdered(), replace(SIZES, segments_max=8))
    log = asyncio.ensure_future(kept.log.run())
    driver = Driver(kept)
    await fill(driver, (1,), 350)
    sealed = kept.backlog.sealed
    assert sealed >= 5
    leave(files, ROUND_LEAVES + SEGMENT)
    async with asyncio.timeout(LIMIT_S):
        while kept.backlog.sealed == sealed:
            await kept._rewriter.round()
    assert kept.backlog.sealed == sealed - 1
    assert kept.counters.waits_for_room == 0
    # What is recycled keeps its room, and what was sorted has taken its own.
    leave(files, 1 << 30)
    rounds = 0
    while kept.backlog.sealed:
        await kept._rewriter.round()
        rounds += 1
    assert rounds < sealed - 1
    kept.log.close()
    await log
    await check(kept, driver.promised)


def test_a_round_that_does_not_fit_takes_fewer_segments_and_later_more() -> None:
    virtual_time.run(a_round_of_fewer())


async def allocation_fails(number: int) -> None:
    """The device says that there is room, and then there is none, or no file to be had."""
    files = fresh()
    async with running(files, MemoryOrdered(), SIZES) as kept, asyncio.timeout(LIMIT_S):
        driver = Driver(kept)
        await fill(driver, (1, 2), 200)
        await driver.forget(1)
        names = sorted_names(files)

        def short(kind: str, name: str) -> None:
            if kind == "allocate" and name not in names:
                raise OSError(number, os.strerror(number), name)

        files.troubles = short
        assert await kept.compact(major=True) == 0
        assert kept.counters.compactions_without_room == 1
        assert sorted_names(files) == names
        files.troubles = no_troubles
        assert await kept.compact(major=True) > 0
        await check(kept, driver.promised)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_compaction_without_room_gives_up_what_it_wrote_and_is_tried_again(number: int) -> None:
    virtual_time.run(allocation_fails(number))


async def files_are_short() -> None:
    files = fresh()
    async with running(files, MemoryOrdered(), SIZES) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2), 200)
        await driver.forget(1)
        kept._places.close()

        def short(kind: str, name: str) -> None:
            if kind == "open" and name.startswith("sorted-"):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)

        files.troubles = short
        assert await kept.compact(major=True) == 0
        files.troubles = no_troubles
        assert kept.counters.compactions_failed == 0
        assert await kept.compact(major=True) > 0
        await check(kept, driver.promised)


def test_a_segment_that_could_not_be_opened_for_a_while_is_compacted_later() -> None:
    virtual_time.run(files_are_short())


async def test_segments_that_nobody_uses_are_given_up_for_a_compaction_that_does_not_fit() -> None:
    files = fresh()
    async with running(files, MemoryOrdered(), SIZES) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2), 200)
        await driver.forget(1)
        await kept.reclaim()
        free = kept._arrivals._free
        assert len(free) > 1
        leave(files, COMPACTION_LEAVES)
        assert await kept.compact(major=True) > 0
        assert len(free) == 1
        await fill(driver, (3,), 100)
        await check(kept, driver.promised)


async def what_is_left() -> None:
    files = fresh()
    least = [1 << 40]

    def look(kind: str, name: str) -> None:
        if kind == "sync" and name.startswith("sorted-"):
            least[-1] = min(least[-1], files._total_bytes - files._used())

    files.troubles = look
    async with standing_still(files) as (kept, driver), asyncio.timeout(LIMIT_S):
        least.append(1 << 40)
        await driver.forget(1)
        await kept.compact(major=True)
        by_rounds, by_compaction = least
    assert by_rounds >= ROUND_LEAVES
    assert ROUND_LEAVES > by_compaction >= COMPACTION_LEAVES


def test_a_round_leaves_half_of_the_reserve_and_a_compaction_a_quarter() -> None:
    virtual_time.run(what_is_left())


def no_journal_grows(files: MemoryFileSystem, segment_bytes: int) -> Callable[[str, str], None]:
    """Others have filled the journal's device: only what is written in advance can be written."""

    def full(kind: str, name: str) -> None:
        if not name.startswith("arrival-") or kind not in ("write", "create"):
            return
        if kind == "create" or len(files._find(name).seen) < segment_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    return full


async def no_file_can_grow_for_a_while() -> None:
    files = fresh()
    sizes = Sizes(segment_bytes=2 * KIB, segments_max=6, round_segments=2)
    full = no_journal_grows(files, sizes.segment_bytes)
    async with running(files, MemoryOrdered(), sizes, crash=True) as kept:
        driver = Driver(kept)
        await append_until(driver, (1,), 0, lambda: kept.backlog.sealed == 1)
        files.troubles = full
        async with asyncio.timeout(LIMIT_S):
            await append_until(driver, (1,), 1_000, lambda: kept.counters.waits_for_room > 0)
        await check(kept, driver.promised)
    for number in range(20):
        after = files.crashed(random.Random(number))
        async with running(after, MemoryOrdered(), sizes) as kept:
            await check(kept, driver.promised)


async def what_is_sealed_is_room_for_the_writer() -> None:
    files = fresh()
    sizes = Sizes(segment_bytes=2 * KIB, segments_max=8, round_segments=4)
    async with running(files, MemoryOrdered(), sizes) as kept:
        driver = Driver(kept)
        await append_until(driver, (1,), 0, lambda: kept.backlog.sealed == 1)
        files.troubles = no_journal_grows(files, sizes.segment_bytes)
        async with asyncio.timeout(LIMIT_S):
            await append_until(driver, (1,), 1_000, lambda: kept.counters.rewritten_segments > 20)
        await check(kept, driver.promised)


def test_a_writer_that_waits_for_room_gets_what_a_round_of_few_segments_frees() -> None:
    """Too few are sealed for a round, and more could be begun, were there room."""
    virtual_time.run(what_is_sealed_is_room_for_the_writer())


async def nothing_is_sealed_and_nothing_grows() -> None:
    files = fresh()
    async with running(files, MemoryOrdered(), SIZES) as kept:
        driver = Driver(kept)
        await fill(driver, (1,), 1)
        files.troubles = no_journal_grows(files, 1 << 40)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                append_until(driver, (1,), 1_000, lambda: files.troubles is no_troubles)
            )
            await asyncio.sleep(10)
            assert kept.backlog.trouble == "the log waits for room on its device"
            files.troubles = no_troubles
        assert kept.backlog.trouble is None
        await check(kept, driver.promised)


def test_a_log_that_waits_for_room_says_so() -> None:
    virtual_time.run(nothing_is_sealed_and_nothing_grows())


def test_a_segment_into_which_not_one_batch_fitted_is_missed_by_no_start() -> None:
    virtual_time.run(no_file_can_grow_for_a_while())
