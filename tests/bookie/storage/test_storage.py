"""What is put into a storage is there, before and after the rewrite, and after every restart."""

import asyncio
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import (
    Driver,
    check,
    closed_at,
    frame,
    fresh,
    let_work,
    opening,
    read_ids,
    running,
    sorted_names,
)
from tests.support import virtual_time
from zonekeeper.bookie.disk.disks import ThreadDisk
from zonekeeper.bookie.disk.files import RealFileSystem
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments import arrivals, pace
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats.frames import Flags


async def fill(driver: Driver, ledgers: int, count: int) -> None:
    """Frames of two entries, of each ledger in turn."""
    for ledger_id in range(1, ledgers + 1):
        await driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
    for first in range(0, 2 * count, 2):
        for ledger_id in range(1, ledgers + 1):
            await driver.append(frame(ledger_id, [first, first + 1], lac=first - 1))


def noted_in(calls: list[str]) -> Callable[[str, str], None]:
    return lambda kind, name: calls.append(f"{kind} {name}")


def arrival_names(files: MemoryFileSystem) -> list[str]:
    return [name for name in files.names() if name.startswith("arrival-")]


@virtual_time.played
async def test_what_was_acknowledged_is_read_back_through_rewrites_and_restarts() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, 3, 40)
        assert keeping.mark_of(files) > (0, 0)
        assert sorted_names(files)
        await check(kept, driver.promised)
    for _ in range(3):
        async with running(files, store) as kept:
            await check(kept, driver.promised)


@virtual_time.played
async def test_the_log_never_has_more_segments_than_it_may() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        await fill(Driver(kept), 2, 100)
    assert len(arrival_names(files)) <= keeping.SIZES.segments_max


@virtual_time.played
async def test_segments_that_a_life_with_other_sizes_made_are_given_up_when_they_are_free() -> None:
    files, store = fresh(), MemoryOrdered()
    many = Sizes(segment_bytes=2048, segments_max=12)
    kept = await storage.open_storage(keeping.devices(files, store), many)
    log = asyncio.ensure_future(kept.log.run())
    driver = Driver(kept)
    await fill(driver, 2, 16)
    kept.log.close()
    await log
    await kept.close()
    assert len(arrival_names(files)) > keeping.SIZES.segments_max
    async with running(files, store) as kept:
        await check(kept, driver.promised)
        await let_work(until=lambda: len(arrival_names(files)) <= keeping.SIZES.segments_max)
        await check(kept, driver.promised)
    async with running(files, store) as kept:
        await check(kept, driver.promised)


@pytest.mark.parametrize("total_bytes", [1, 200 << 20, 1 << 30, 3 << 30, 16 << 30, 1 << 44])
def test_recycled_segments_take_a_quarter_of_a_device_at_most(total_bytes: int) -> None:
    """Else what is deleted may never bring a device under its low mark again."""
    sizes = arrivals.sizes_on(total_bytes, reserve_bytes=7)
    assert arrivals.SEGMENTS_MIN <= sizes.segments_max <= arrivals.SEGMENTS_MAX_DEFAULT
    assert arrivals.SEGMENT_BYTES_MIN <= sizes.segment_bytes <= arrivals.SEGMENT_BYTES_DEFAULT
    if sizes.segments_max > arrivals.SEGMENTS_MIN:
        assert sizes.segments_max * sizes.segment_bytes <= total_bytes / 4
        assert (1 + sizes.round_segments) / sizes.segments_max <= pace.START_SHARE
    assert sizes.reserve_bytes == 7


@virtual_time.played
async def test_an_index_that_is_gone_is_built_again_and_is_the_same() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, 5, 60)
        # Overlaps and a frame with holes, so that the extents are cut and interleaved.
        await driver.append(frame(1, [118, 119, 120, 121]))
        await driver.append(frame(2, [130, 132, 134]))
        await driver.append(frame(2, [131, 132, 133, 134, 135]))
        await fill(driver, 5, 70)
    # The stop may have come between a checkpoint and the index; a start puts that right.
    await keeping.opened(files, store)
    live = list(Index(store).rows())
    assert live
    again = MemoryOrdered()
    kept = await keeping.opened(files, again)
    assert list(Index(again).rows()) == live
    await check(kept, driver.promised)
    storage.rebuild_index(files, Index(store))
    assert list(Index(store).rows()) == live


@virtual_time.played
async def test_a_restart_reads_what_was_not_rewritten_however_much_there_is() -> None:
    for rounds in (40, 400):
        files, store = fresh(), MemoryOrdered()
        async with running(files, store) as kept:
            await fill(Driver(kept), 3, rounds)
        calls: list[str] = []
        files.troubles = noted_in(calls)
        await keeping.opened(files, store)
        # At most four segments of at most ten batches, each with its header and as a whole.
        assert sum(call.startswith("read arrival-") for call in calls) <= 100
        # The table of a segment that the stop left between checkpoint and index, at most.
        assert sum(call.startswith("read sorted-") for call in calls) <= 2


@virtual_time.played
async def test_a_read_of_a_rewritten_frame_is_one_read_of_the_disk() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        await fill(Driver(kept), 1, 60)
    async with running(files, store) as kept:
        ledger = kept.memory.ledger(LedgerId(1))
        calls: list[str] = []
        files.troubles = noted_in(calls)
        found = await kept.read(ledger, range(1), 1)
        assert [each.first for each in found.frames] == [0]
        # A round of the rewrite reads arrival segments meanwhile.
        assert sum(call.startswith("read sorted-") for call in calls) == 1


@virtual_time.played
async def test_entries_past_the_end_of_a_closed_ledger_are_dropped_by_the_rewrite() -> None:
    files, store = fresh(), MemoryOrdered()
    ends = {1: 4, 2: -1}

    async with running(files, store, policy=closed_at(ends)) as kept:
        await fill(Driver(kept), 3, 60)
        assert {row.ledger_id for row in Index(store).rows()} == {1, 3}
        rows = [row.extent for row in Index(store).rows() if row.ledger_id == 1]
        assert [(row.first, row.last) for row in rows] == [(0, 1), (2, 3), (4, 4)]
        assert {0, 1, 2, 3, 4} <= await read_ids(kept, 1)


@virtual_time.played
async def test_a_reader_keeps_a_segment_from_being_recycled() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, 1, 1)
        (extent,) = kept.memory.ledger(LedgerId(1)).extents.between(0, 1)
        with kept._places.pinned([extent.offset]):
            writing = asyncio.ensure_future(fill_on(driver, 200))
            await let_work(until=lambda: kept.backlog.in_reach == 0)
            assert not writing.done()
            assert kept._places.read(extent.offset, extent.size) == frame(1, [0, 1]).data()
        await writing


async def fill_on(driver: Driver, count: int) -> None:
    for first in range(2, 2 + 2 * count, 2):
        await driver.append(frame(1, [first, first + 1]))


@virtual_time.played
async def test_who_waits_for_a_segment_waits_until_the_rewrite_frees_one() -> None:
    """The backlog is bounded: with a rewrite that stands still, nothing more is acknowledged."""
    files, store = fresh(), MemoryOrdered()
    kept = await keeping.opened(files, store)
    log = asyncio.ensure_future(kept.log.run())
    driver = Driver(kept)
    writing = asyncio.ensure_future(fill(driver, 1, 100))
    await let_work(until=lambda: kept.backlog.in_reach == 0)
    assert not writing.done()
    assert kept.backlog.sealed == keeping.SIZES.segments_max - 1
    while not writing.done():
        if kept.backlog.sealed:
            await kept._rewriter.round()
        await asyncio.sleep(keeping.TURN_S)
    kept.log.close()
    await log
    await check(kept, driver.promised)


@virtual_time.played
async def test_deferred_frames_are_acknowledged_without_a_sync_and_shown_with_the_next() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await driver.state(1, admission.OpenWanted(opening=opening(1)))
        calls: list[str] = []
        files.troubles = noted_in(calls)
        await driver.append(frame(1, [0, 1], flags=Flags.DEFERRED_SYNC))
        await driver.append(frame(1, [2], flags=Flags.DEFERRED_SYNC))
        written = [call for call in calls if "arrival-00000001" in call]
        assert written == ["write arrival-00000001", "write arrival-00000001"]
        assert await read_ids(kept, 1) == set()
        await kept.log.settle()
        assert await read_ids(kept, 1) == {0, 1, 2}
        await driver.append(frame(1, [3], flags=Flags.DEFERRED_SYNC))
        await driver.force()
        assert await read_ids(kept, 1) == {0, 1, 2, 3}


@virtual_time.played
async def test_settling_without_deferred_frames_asks_nothing_of_the_disk() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await driver.state(1, admission.OpenWanted(opening=opening(1)))
        await kept.log.settle()


@virtual_time.played
async def test_what_was_fenced_and_never_had_entries_stays_fenced_through_rewrites() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await driver.state(9, admission.FenceWanted(master_key=keeping.KEY))
        await fill(driver, 1, 60)
    async with running(files, store) as kept:
        await check(kept, driver.promised)
        assert kept.memory.ledger(LedgerId(9)).durable.fenced


@pytest.mark.parametrize("first", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@virtual_time.played
async def test_frames_that_overlap_fill_gaps_before_and_after_the_rewrite(
    first: int, size: int
) -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await driver.state(1, admission.OpenWanted(opening=opening(1)))
        await driver.append(frame(1, [1, 2]))
        await driver.append(frame(1, [4]))
        await fill(driver, 2, 0)
        other = Driver(kept)
        await driver.append(frame(1, range(first, first + size)))
        await fill_other(other)
        await driver.append(frame(1, range(6)))
        await driver.append(frame(1, [2]))
        await fill_other(other, 100)
        assert await read_ids(kept, 1) == set(range(max(6, first + size)))
        assert_disjoint(kept)
    async with running(files, store) as kept:
        assert await read_ids(kept, 1) == set(range(max(6, first + size)))


async def fill_other(driver: Driver, start: int = 0) -> None:
    for entry_id in range(start, start + 60):
        await driver.append(frame(2, [entry_id]))


def assert_disjoint(kept: Storage) -> None:
    found = [*kept.memory.ledger(LedgerId(1)).extents.between(0, 1 << 40)]
    assert all(a.last < b.first for a, b in itertools.pairwise(found))


async def test_real_files_real_threads_and_rocksdb_keep_what_the_twins_keep(tmp_path: Path) -> None:
    files = RealFileSystem(tmp_path)
    storage.create(files, random.Random(1))
    driver: Driver | None = None
    for _ in range(3):
        disks = [ThreadDisk("writing"), ThreadDisk("background"), ThreadDisk("reads", threads=2)]
        kept = await storage.open_storage(
            Devices(
                arrival_files=files,
                files=files,
                index=Index(RocksOrdered(tmp_path / "index")),
                writing=disks[0],
                background=disks[1],
                reads=disks[2],
            ),
            Sizes(segment_bytes=1 << 16, segments_max=4),
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kept.run())
            if driver is None:
                driver = Driver(kept)
                await fill(driver, 3, 0)
                await asyncio.gather(
                    *(driver.append(frame(1 + each % 3, [each])) for each in range(3_000))
                )
            await check(kept, driver.promised)
            kept.log.close()
        await kept.close()
        for disk in disks:
            await disk.close()
    assert keeping.mark_of(files) > (0, 0)
    files.close()
