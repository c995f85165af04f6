"""However a storage ends: no file is closed while a thread works on it."""

import asyncio
import errno
import os
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.bookie.segments.keeping import Driver, frame, opening
from tests.support import careful_files
from zonekeeper.bookie.disk.disks import ThreadDisk
from zonekeeper.bookie.disk.files import RealFile, RealFileSystem
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments import arrivals
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.log import DiskFailedError
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import LedgerId

LIMIT_S = 60
SIZES = Sizes(segment_bytes=8 << 20, segments_max=4)
Patch = pytest.MonkeyPatch


class Stuck:
    """A call of a thread that is held in the middle until it is let go."""

    def __init__(self, patch: Patch, name: str, wanted: Callable[[RealFile], bool]) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.ended = False
        call = getattr(RealFile, name)

        def method(file: RealFile, *given: object) -> object:
            if not wanted(file) or self.begun.is_set():
                return call(file, *given)
            self.begun.set()
            assert self.may_go_on.wait(LIMIT_S)
            try:
                return call(file, *given)
            finally:
                self.ended = True

        patch.setattr(RealFile, name, method)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Storage]:
    """Give a storage with threads on real files; its folder is closed at the end."""
    files = RealFileSystem(folder)
    storage.create(files, random.Random(1))
    yield await storage.open_storage(
        Devices(
            arrival_files=files,
            files=files,
            index=Index(RocksOrdered(folder / "index")),
            writing=ThreadDisk("writing"),
            background=ThreadDisk("background"),
            reads=ThreadDisk("reads", threads=2),
            tails=ThreadDisk("tails", threads=2),
        ),
        SIZES,
    )
    files.close()


async def closed(kept: Storage, stuck: Stuck) -> None:
    """Close a storage; let a thread go on only when the closing waits for it, or is over."""
    closing = asyncio.ensure_future(kept.close())
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.to_thread(stuck.begun.wait, LIMIT_S)
    assert not closing.done(), "the storage was closed while a thread was at work"
    stuck.may_go_on.set()
    await closing
    assert stuck.ended


async def test_s54_after_a_failed_sync_no_file_is_closed_under_the_thread_that_prepares_one(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    stuck = Stuck(monkeypatch, "write", is_prepared)
    with careful_files.watched() as said:
        async with opened(tmp_path) as kept:
            running = asyncio.ensure_future(kept.run())
            assert await asyncio.to_thread(stuck.begun.wait, LIMIT_S)
            fail_to_sync(monkeypatch)
            Driver(kept).append(frame(1, [0]))
            with pytest.raises(BaseExceptionGroup) as ended:
                await running
            assert ended.group_contains(DiskFailedError)
            await closed(kept, stuck)
    assert said == []


async def test_a_cancelled_storage_closes_no_file_under_a_thread_that_reads_it(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    with careful_files.watched() as said:
        async with opened(tmp_path) as kept:
            running = asyncio.ensure_future(kept.run())
            driver = Driver(kept)
            await driver.state(1, admission.OpenWanted(opening=opening(1)))
            await driver.append(frame(1, [0, 1]))
            stuck = Stuck(monkeypatch, "read", lambda file: True)
            reading = asyncio.ensure_future(
                kept.read(kept.memory.ledger(LedgerId(1)), range(2), 1 << 20)
            )
            assert await asyncio.to_thread(stuck.begun.wait, LIMIT_S)
            for task in (reading, running):
                task.cancel()
            await asyncio.wait([reading, running])
            await closed(kept, stuck)
    assert said == []


def is_prepared(file: RealFile) -> bool:
    in_background = threading.current_thread().name.startswith("background")
    return in_background and arrivals.number_of(file.name) is not None


def fail_to_sync(patch: Patch) -> None:
    """Let each sync of the log's own thread fail."""
    sync = RealFile.sync

    def failing(file: RealFile) -> None:
        if threading.current_thread().name.startswith("writing"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), file.name)
        sync(file)

    patch.setattr(RealFile, "sync", failing)
