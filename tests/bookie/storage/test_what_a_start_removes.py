"""A start removes what does not count, and that only once it is sure of what counts."""

import asyncio
import errno
import os
import random
from dataclasses import replace

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import (
    POLICY,
    SIZES,
    Driver,
    check,
    frame,
    fresh,
    running,
    sorted_names,
)
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats import log_end
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.storage import Storage

ENOUGH = 3


async def append_until_sorted(kept: Storage, driver: Driver, first: int = 0) -> int:
    """Append until there are some sorted segments; gives the next entry."""
    while len(kept.segments) < ENOUGH:
        await driver.append(frame(1, [first, first + 1]))
        first += 2
    return first


async def written_until_sorted(devices: Devices) -> Driver:
    """Have a life on devices until there are some sorted segments."""
    kept = await storage.open_storage(devices, SIZES, POLICY)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kept.run())
        driver = Driver(kept)
        await append_until_sorted(kept, driver)
        kept.log.close()
    return driver


async def test_a_checkpoint_whose_name_was_not_synced_is_not_counted_on() -> None:
    """A sync that failed is not made good by the next one; the checkpoint is written anew."""
    files = fresh()
    renamed = False

    def fail_once(kind: str, name: str) -> None:
        nonlocal renamed
        if kind == "rename" and name == "checkpoint.new":
            renamed = True
        elif kind == "sync_names" and renamed:
            files.troubles = no_troubles
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    drivers: list[Driver] = []

    async def write_until_the_disk_fails() -> None:
        async with running(files, MemoryOrdered()) as kept:
            drivers.append(driver := Driver(kept))
            first = await append_until_sorted(kept, driver)
            files.troubles = fail_once
            while True:
                await driver.append(frame(1, [first, first + 1]))
                first += 2

    with pytest.raises(BaseExceptionGroup, match="unhandled"):
        await write_until_the_disk_fails()
    (driver,) = drivers
    async with running(files, MemoryOrdered(), crash=True) as kept:
        shown = await check(kept, driver.promised)
        # So much that the segments which that checkpoint gave up are used again.
        driver = Driver(kept)
        driver.promised = shown
        left = []
        for first in range(1_000, 1_060, 2):
            await driver.append(frame(1, [first, first + 1]))
            left.append((files.crashed(random.Random(first)), driver.snapshot()))
    for after, promised in left:
        async with running(after, MemoryOrdered()) as kept:
            await check(kept, promised)


def test_where_there_is_no_room_for_a_checkpoint_the_one_that_is_there_is_synced() -> None:
    files = fresh()
    checkpoints.save(files, replace(checkpoints.load(files), sweep=7))
    called: list[str] = []

    def full(kind: str, name: str) -> None:
        called.append(kind)
        if kind == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    files.troubles = full

    assert checkpoints.secured(files).sweep == 7

    assert called[-1] == "sync_names"
    assert files.names() == [checkpoints.NAME, log_end.NAME]


def on(data: MemoryFileSystem, journal: MemoryFileSystem, ledgers: MemoryFileSystem) -> Devices:
    devices = keeping.devices(data, MemoryOrdered())
    return replace(devices, arrival_files=journal, sorted_files=(ledgers,))


async def test_disks_that_do_not_belong_together_are_refused_as_they_are() -> None:
    """The data folder is an older one; what is sorted since is no stray."""
    data, journal, ledgers = fresh(), MemoryFileSystem(), MemoryFileSystem()
    older = MemoryFileSystem()
    checkpoints.save(older, checkpoints.load(data))
    driver = await written_until_sorted(on(data, journal, ledgers))
    there = ledgers.names()

    with pytest.raises(DamagedLogError, match=r"missing|go back"):
        await storage.open_storage(on(older, journal, ledgers), SIZES, POLICY)

    assert ledgers.names() == there
    kept = await storage.open_storage(on(data, journal, ledgers), SIZES, POLICY)
    await check(kept, driver.promised)


async def test_a_piece_of_a_segment_that_went_elsewhere_is_not_taken_for_it() -> None:
    """The directory with most room fails in the middle of a segment, and cannot even remove it."""
    data, journal = fresh(), MemoryFileSystem()
    good, failing = MemoryFileSystem(total_bytes=1 << 30), MemoryFileSystem()
    store = MemoryOrdered()
    devices = replace(
        keeping.devices(data, store), arrival_files=journal, sorted_files=(good, failing)
    )

    def fail(kind: str, name: str) -> None:
        if kind in ("write", "sync", "remove", "truncate"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)

    failing.troubles = fail
    driver = await written_until_sorted(devices)
    assert failing.names() == [sorted_names(good)[0]]
    failing.troubles = no_troubles

    for index in (store, MemoryOrdered()):
        again = replace(devices, index=Index(index))
        await check(await storage.open_storage(again, SIZES, POLICY), driver.promised)
        assert failing.names() == []


async def test_a_segment_that_was_moved_to_another_directory_is_not_removed() -> None:
    """It is missing where the checkpoint places it, and what is elsewhere is all there is."""
    data, journal = fresh(), MemoryFileSystem()
    other, roomiest = MemoryFileSystem(total_bytes=1 << 30), MemoryFileSystem()
    devices = replace(
        keeping.devices(data, MemoryOrdered()),
        arrival_files=journal,
        sorted_files=(other, roomiest),
    )
    driver = await written_until_sorted(devices)
    there = roomiest.names()
    assert sorted_names(other) == []
    move(roomiest, other)

    moved = await storage.open_storage(devices, SIZES, POLICY)

    assert moved.failed_directories
    assert "in directory 1 of 2, in the configured order" in str(moved.failed_directories)
    assert other.names() == there
    move(other, roomiest)
    await check(await storage.open_storage(devices, SIZES, POLICY), driver.promised)


def move(source: MemoryFileSystem, target: MemoryFileSystem) -> None:
    for name in source.names():
        file = source.open(name)
        copy = target.create(name)
        copy.write(0, [file.read(0, file.size())])
        copy.sync()
        source.remove(name)
    source.sync_names()
    target.sync_names()


@pytest.mark.parametrize(
    "name",
    [
        "sorted-00000001.old",
        "arrival-00000001.bak",
        "arrival-",
        "sorted-1",
        "arrival-000000001",
        "arrival-\u0661",
        "00000001",
    ],
)
async def test_what_is_called_like_no_segment_is_left_alone(name: str) -> None:
    files = fresh()
    async with running(files, MemoryOrdered()) as kept:
        driver = Driver(kept)
        await append_until_sorted(kept, driver)
    files.create(name).write(0, [b"a person's copy"])
    async with running(files, MemoryOrdered()) as kept:
        await check(kept, driver.promised)
    assert name in files.names()


async def test_an_unfinished_segment_is_removed_by_a_start() -> None:
    files = fresh()
    files.create("sorted-00000077").write(0, [b"torn"])
    async with running(files, MemoryOrdered()):
        assert sorted_names(files) == []
