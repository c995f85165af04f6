"""Counted on much data: what a start reads, and that an index built again is the one that was."""

import asyncio
from pathlib import Path

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver
from zonekeeper.bookie.disk.memory_files import MemoryFile, MemoryFileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.storage import storage
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import frames
from zonekeeper.wire.formats.frames import Frame

LEDGERS = 1_000
ENTRIES = 1_000_000
A_FRAME = 100
SIZES = Sizes(segment_bytes=4 << 20, segments_max=6)


def frame(ledger_id: int, first: int, count: int) -> Frame:
    return frames.seal(
        keeping.sealer(ledger_id), EntryId(first), EntryId(first - 1), 1 << 20, [b"x" * 8] * count
    )


async def fill(driver: Driver, entries: int, ledgers: int) -> None:
    """All ledgers side by side; every tenth frame is sent again, framed in another way."""
    for first in range(0, entries // ledgers, A_FRAME):
        sent = [driver.append(frame(each, first, A_FRAME)) for each in range(1, ledgers + 1)]
        if first:
            again = range(1, ledgers + 1, 10)
            sent += [driver.append(frame(each, first - 7, A_FRAME // 2)) for each in again]
        await asyncio.gather(*sent)


@pytest.mark.crash
async def test_the_index_of_a_million_entries_is_built_again_as_it_was(tmp_path: Path) -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with keeping.running(files, store, SIZES) as kept:
        await fill(Driver(kept), ENTRIES, LEDGERS)
    # The stop may have come between a checkpoint and the index; a start puts that right.
    kept = await keeping.opened(files, store, SIZES)
    live = list(Index(store).rows())
    in_memory = sum(
        extent.last - extent.first + 1
        for ledger_id in range(1, LEDGERS + 1)
        for extent in kept.memory.ledger(LedgerId(ledger_id)).extents.between(0, ENTRIES)
    )
    assert in_memory == ENTRIES
    assert sum(row.extent.last - row.extent.first + 1 for row in live) > ENTRIES // 2
    assert len({row.ledger_id for row in live}) == LEDGERS
    rebuilt = Index(RocksOrdered(tmp_path / "index"))
    storage.rebuild_index(files, rebuilt)
    assert list(rebuilt.rows()) == live
    rebuilt.close()


@pytest.mark.crash
async def test_a_restart_reads_bytes_by_what_was_not_rewritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten times as much data, and the same to read: the tail, the ledgers and nothing else."""
    for entries in (50_000, 500_000):
        files, store = keeping.fresh(), MemoryOrdered()
        async with keeping.running(files, store, SIZES, crash=True) as kept:
            await fill(Driver(kept), entries, 50)
            tail = kept.backlog.sealed + 1
        # A batch is measured and then read; of the recycled files, the heads.
        most = (tail + 1) * SIZES.segment_bytes
        assert await bytes_of_a_start(files, store, monkeypatch) <= most


async def bytes_of_a_start(
    files: MemoryFileSystem, store: MemoryOrdered, patch: pytest.MonkeyPatch
) -> int:
    count = 0
    read = MemoryFile.read

    def counting(file: MemoryFile, offset: int, size: int) -> bytes:
        nonlocal count
        data = read(file, offset, size)
        count += len(data)
        return data

    with patch.context() as counted:
        counted.setattr(MemoryFile, "read", counting)
        await keeping.opened(files, store, SIZES)
    return count
