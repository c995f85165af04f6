"""The bookie's service over segments: the same promises as over one log, and errors that say so."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.bookie.running import (
    BOOKIE,
    KEY,
    LEDGER,
    all_there,
    append,
    frame,
    lac_packet,
    open_fragment,
    opening,
    read_ids,
    write_lac,
)
from tests.bookie.segments import keeping
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors


@asynccontextmanager
async def serving(files: FileSystem, store: MemoryOrdered) -> AsyncIterator[BookieServer]:
    async with keeping.running(files, store) as kept, asyncio.TaskGroup() as tasks:
        bookie = BookieServer(BOOKIE, kept, boot_epoch=1, version="test", tasks=tasks)
        bookie.standing = all_there
        yield bookie
        bookie.drain()


async def test_a_ledgers_life_over_rewrites_and_restarts() -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with serving(files, store) as bookie:
        await open_fragment(bookie, opening())
        for first in range(0, 120, 2):
            assert await append(bookie, frame(first, first + 1, lac=first - 1)) == [None]
        assert await append(bookie, frame(5, 6, 7), frame(119, 120, 121)) == [None, None]
        assert await write_lac(bookie, lac_packet(121)) is None
        assert keeping.mark_of(files) > (0, 0)
        assert await read_ids(bookie) == list(range(122))
        (different,) = await append(bookie, frame(3, data=b"other"))
        assert isinstance(different, errors.EntryMismatch)
        await bookie.fence(LEDGER, KEY)
    for _ in range(2):
        async with serving(files, store) as bookie:
            assert await read_ids(bookie) == list(range(122))
            listed = await bookie.list_entries(
                service.ListEntriesRequest(
                    ledger_id=LEDGER, first_entry_id=frame(0).first, ranges_max=10
                )
            )
            assert listed.ranges == ((0, 121),)
            evidence = await bookie.read_lac(LEDGER)
            assert admission.lac_of(evidence.explicit_lac) == 121
            (refused,) = await append(bookie, frame(122))
            assert isinstance(refused, errors.Fenced)
            (same,) = await append(bookie, frame(0, 1, 2, recovery=True))
            assert same is None


async def test_a_disk_that_cannot_read_is_no_answer_that_an_entry_is_not_there() -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with serving(files, store) as bookie:
        await open_fragment(bookie, opening())
        for first in range(60):
            await append(bookie, frame(first))

        def unreadable(kind: str, name: str) -> None:
            if kind == "read":
                raise OSError(errno.EIO, "input/output error", name)

        files.troubles = unreadable
        with pytest.raises(errors.IoFailed):
            await read_ids(bookie)
        files.troubles = lambda kind, name: None
        assert await read_ids(bookie) == list(range(60))
