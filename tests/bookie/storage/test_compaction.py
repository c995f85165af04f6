"""Compaction gives space back and takes nothing else; a directory that fails takes only its own."""

import asyncio
import errno
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, fill, frame, fresh, read_ids, running
from tests.support import virtual_time
from zonekeeper.bookie.disk.files import FileSystem, Space
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.checkpoint_format import SortedSegment
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.segments.log import DiskFailedError
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage import compaction, storage
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors


def sizes(kept: Storage) -> tuple[int, int]:
    segments = kept.segments
    return sum(s.size_bytes for s in segments), sum(s.live_bytes for s in segments)


@virtual_time.played
async def test_minor_compaction_takes_what_is_nearly_empty_and_major_the_rest() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, range(1, 6), 30)
        assert await kept.compact(major=True) == 0
        await driver.forget(1)
        assert await kept.compact(major=False) == 0
        assert sizes(kept)[0] > sizes(kept)[1]
        for ledger_id in (2, 3, 4):
            await driver.forget(ledger_id)
        await kept.reclaim()
        due = sum(s.live_bytes <= 0.8 * s.size_bytes for s in kept.segments)
        minor = await kept.compact(major=False)
        assert minor + await kept.compact(major=True) == due
        assert sizes(kept)[0] == sizes(kept)[1]
        assert await read_ids(kept, 5) == set(range(60))
        assert await kept.compact(major=True) == 0


@virtual_time.played
async def test_a_reader_of_a_compacted_segment_ends_before_it_is_removed() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2), 60)
        await driver.forget(1)
        extent = next(iter(kept.memory.ledger(LedgerId(2)).extents.between(0, 1)))
        with kept._places.pinned([extent.offset]):
            compacting = asyncio.ensure_future(kept.compact(major=True))
            await keeping.let_work(until=lambda: kept.counters.compacted_segments > 0)
            assert not compacting.done()
            assert kept._places.read(extent.offset, extent.size) == frame(2, [0, 1]).data()
        assert await compacting > 0
        with pytest.raises(FileNotFoundError):
            kept._places.read(extent.offset, extent.size)
        assert await read_ids(kept, 2) == set(range(120))


@virtual_time.played
async def test_a_segment_that_cannot_be_read_is_not_compacted_and_not_lost() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2), 60)
        await driver.forget(1)

        def unreadable(kind: str, name: str) -> None:
            if kind == "read" and name.startswith("sorted-"):
                raise OSError(errno.EIO, "input/output error", name)

        files.troubles = unreadable
        assert await kept.compact(major=True) == 0
        assert kept.counters.compactions_failed > 0
        files.troubles = lambda kind, name: None
        assert await read_ids(kept, 2) == set(range(120))


@virtual_time.played
async def test_without_room_nothing_is_compacted_and_nothing_is_lost() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2), 60)
        await driver.forget(1)
        files._total_bytes = files._used() + (1 << 20)
        assert await kept.compact(major=True) == 0
        assert kept.counters.compactions_without_room == 1
        assert await read_ids(kept, 2) == set(range(120))


@virtual_time.played
async def test_what_has_nothing_that_counts_is_given_up_on_a_full_device_too() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, (1,), 60)
        dead = {each.number for each in kept.segments}
        await fill(driver, (2,), 60)
        await driver.forget(1)
        files._total_bytes = files._used() + (1 << 20)
        assert await kept.compact(major=True) > 0
        assert dead.isdisjoint(each.number for each in kept.segments)
        assert await read_ids(kept, 2) == set(range(120))


async def fail_in_a_commanded_compaction() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2), 60)
        await driver.forget(1)

        def failing(kind: str, name: str) -> None:
            if kind == "sync" and name.startswith("checkpoint"):
                raise OSError(errno.EIO, "input/output error", name)

        files.troubles = failing
        with pytest.raises(DiskFailedError):
            await kept.compact(major=True)
        # Nothing is put in any more, and yet it ends.
        await asyncio.Event().wait()


@virtual_time.played
async def test_a_disk_that_fails_under_a_commanded_compaction_ends_the_storage() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await fail_in_a_commanded_compaction()
    assert caught.group_contains(DiskFailedError)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 100)), max_size=8), st.integers(0, 200)
)
def test_the_emptiest_that_fit_are_chosen_first_and_never_too_many(
    drawn: list[tuple[int, int]], room_bytes: int
) -> None:
    due = [
        SortedSegment(number=at + 1, directory=0, size_bytes=size, live_bytes=min(live, size))
        for at, (live, size) in enumerate(drawn)
    ]
    chosen = compaction.choose(due, live_bytes_max=100, room_bytes=room_bytes)
    live = sum(each.live_bytes for each in chosen)
    assert set(chosen) <= set(due)
    assert bool(chosen) == any(each.live_bytes <= room_bytes for each in due)
    assert live <= room_bytes
    assert len(chosen) <= 1 or live <= 100
    worst = max((each.live_bytes / each.size_bytes for each in chosen), default=0)
    for other in set(due) - set(chosen):
        emptier = other.live_bytes / other.size_bytes < worst
        assert not emptier or live + other.live_bytes > min(room_bytes, 100)


# ── several directories ──


async def opened(
    files: MemoryFileSystem, store: MemoryOrdered, homes: Sequence[FileSystem]
) -> Storage:
    on = replace(keeping.devices(files, store), sorted_files=tuple(homes))
    sizes = replace(keeping.SIZES, reserve_bytes=1 << 16)
    return await storage.open_storage(on, sizes, keeping.POLICY)


async def live(kept: Storage, count: int) -> Driver:
    driver = Driver(kept)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kept.run())
        await fill(driver, (1, 2), count)
        kept.log.close()
    return driver


def homes_of(*sizes: int) -> list[MemoryFileSystem]:
    return [
        MemoryFileSystem(total_bytes=size, device=number) for number, size in enumerate(sizes, 1)
    ]


@virtual_time.played
async def test_sorted_segments_are_spread_over_the_directories() -> None:
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 20, 1 << 20)
    driver = await live(await opened(files, store, homes), 200)
    assert all(len(home.names()) > 1 for home in homes)
    await keeping.check(await opened(files, store, homes), driver.promised)


@virtual_time.played
async def test_the_room_is_that_of_the_ledger_directories_each_device_once() -> None:
    """A journal of its own has other room, and two directories may be on one device."""
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 22, 1 << 20)
    room = await (await opened(files, store, [homes[0], homes[1], homes[1]])).room()
    assert room == Space(total_bytes=(1 << 22) + (1 << 20), free_bytes=(1 << 22) + (1 << 20))


@virtual_time.played
async def test_two_devices_with_equal_figures_are_two_devices() -> None:
    """New disks of one make are alike in total and free bytes."""
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 20, 1 << 20)
    room = await (await opened(files, store, homes)).room()
    assert room == Space(total_bytes=2 << 20, free_bytes=2 << 20)


@virtual_time.played
async def test_two_directories_of_one_device_count_once_while_it_is_written() -> None:
    """The second of them is asked a moment later, and has less free bytes then."""
    files, store = fresh(), MemoryOrdered()
    homes = [MemoryFileSystem(total_bytes=1 << 20, device=77) for _ in range(2)]
    homes[1].create("ballast").allocate(1 << 10)
    room = await (await opened(files, store, homes)).room()
    assert room.total_bytes == 1 << 20
    assert room.free_bytes in ((1 << 20), (1 << 20) - (1 << 10))


@virtual_time.played
async def test_a_directory_that_cannot_be_written_is_left_for_the_others() -> None:
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 22, 1 << 20)

    def failing(kind: str, name: str) -> None:
        if kind == "sync" and name.startswith("sorted-"):
            raise OSError(errno.EIO, "input/output error", name)

    homes[0].troubles = failing
    kept = await opened(files, store, homes)
    driver = await live(kept, 200)
    assert [text.split(":")[0] for text in kept.failed_directories] == ["ledger directory 1"]
    assert len(homes[1].names()) > 1
    await keeping.check(kept, driver.promised)


@virtual_time.played
async def test_a_bookie_without_any_directory_stops() -> None:
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 20, 1 << 20)

    def failing(kind: str, name: str) -> None:
        if kind == "create":
            raise OSError(errno.EIO, "input/output error", name)

    for home in homes:
        home.troubles = failing
    with pytest.raises(BaseExceptionGroup):
        await live(await opened(files, store, homes), 200)


@virtual_time.played
async def test_what_was_in_a_lost_directory_is_unknown_and_all_else_is_read() -> None:
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 20, 1 << 20)
    driver = await live(await opened(files, store, homes), 200)
    empty = MemoryFileSystem()
    kept = await opened(files, store, [homes[0], empty])
    assert [text.split(":")[0] for text in kept.failed_directories] == ["ledger directory 2"]
    ledger = kept.memory.ledger(LedgerId(1))
    known, unknown = set[int](), set[int]()
    for entry_id in range(400):
        try:
            found = await kept.read(ledger, range(entry_id, entry_id + 1), 1)
        except errors.IoFailed:
            unknown.add(entry_id)
        else:
            assert found.frames, "what was acknowledged is never denied"
            known.add(entry_id)
    assert known | unknown == driver.promised[1].entries
    assert known
    assert unknown
    # It was not mounted; with it, all is well again.
    await keeping.check(await opened(files, store, homes), driver.promised)


@virtual_time.played
async def test_what_was_in_a_lost_directory_is_not_listed_as_here() -> None:
    """A replicator that lists to see whether all entries are here would count on it."""
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 20, 1 << 20)
    await live(await opened(files, store, homes), 200)
    wanted = service.ListEntriesRequest(
        ledger_id=LedgerId(1), first_entry_id=EntryId(0), ranges_max=10
    )
    for directories, whole in ((homes, True), ([homes[0], MemoryFileSystem()], False)):
        kept = await opened(files, store, directories)
        async with asyncio.TaskGroup() as tasks:
            bookie = BookieServer(
                BookieId("bk-a-0"), kept, boot_epoch=1, version="test", tasks=tasks
            )
            if whole:
                assert (await bookie.list_entries(wanted)).ranges == ((0, 399),)
            else:
                with pytest.raises(errors.IoFailed, match="directory that failed"):
                    await bookie.list_entries(wanted)


@virtual_time.played
async def test_without_the_index_a_lost_directory_is_refused() -> None:
    """It is not even known which entries are gone, so that none could be denied."""
    files, store, homes = fresh(), MemoryOrdered(), homes_of(1 << 20, 1 << 20)
    await live(await opened(files, store, homes), 200)
    with pytest.raises(DamagedLogError, match="sorted segments are missing"):
        await opened(files, MemoryOrdered(), [homes[0], MemoryFileSystem()])


# ── the index ──


@virtual_time.played
async def test_an_index_that_is_behind_a_compaction_or_a_sweep_is_put_right() -> None:
    files, store = fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await fill(driver, (1, 2, 3), 40)
        await driver.forget(1)
        await kept.compact(major=True)
        await fill(driver, (1,), 20)
        await fill(driver, (4,), 60)
    await keeping.opened(files, store)
    expected = list(Index(store).rows())
    chance = random.Random(5)
    for kept_writes in chance.sample(range(len(store.writes) + 1), 12):
        older = MemoryOrdered(store.writes[:kept_writes])
        again = await keeping.opened(files, older)
        assert list(Index(older).rows()) == expected
        await keeping.check(again, driver.promised)
