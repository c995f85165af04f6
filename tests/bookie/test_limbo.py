"""A bookie that lost data of a ledger: what it does not have is unknown until it is made whole."""

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    append,
    frame,
    open_fragment,
    opening,
    read_ids,
    running,
)
from tests.bookie.test_service import ABSENT, reading
from zonekeeper.bookie import admission
from zonekeeper.bookie.memory_files import MemoryFileSystem
from zonekeeper.bookie.service import Bookie
from zonekeeper.placement.ids import EntryId
from zonekeeper.wire import errors, service


async def into_limbo(bookie: Bookie) -> None:
    await bookie._settle(LEDGER, admission.Limbo(in_limbo=True))


async def test_limbo_ends_for_a_ledger_when_it_holds_again_what_it_should() -> None:
    files = MemoryFileSystem()
    async with running(files) as bookie:
        await into_limbo(bookie)
        with pytest.raises(errors.LimboLedger):
            await bookie.read(reading(0, 9))
        await open_fragment(bookie, opening())
        assert isinstance((await append(bookie, frame(0)))[0], errors.Fenced)
        assert await append(bookie, frame(0, 1, recovery=True)) == [None]
        await bookie.end_limbo(LEDGER, bookie.boot_epoch)
        await bookie.end_limbo(LEDGER, bookie.boot_epoch)
        with pytest.raises(errors.NoSuchLedger):
            await bookie.end_limbo(ABSENT, bookie.boot_epoch)
    async with running(files) as bookie:
        assert await read_ids(bookie, 0, 9) == [0, 1]
        assert (await bookie.read(reading(2, 9))).next_entry_id == 10
        assert isinstance((await append(bookie, frame(2)))[0], errors.Fenced)


async def test_what_was_found_out_in_another_start_ends_no_limbo() -> None:
    """The disk may have been lost twice: what is said of the first says nothing of the second."""
    async with running(MemoryFileSystem(), boot_epoch=3) as bookie:
        await into_limbo(bookie)
        for other in (0, 2, 4):
            with pytest.raises(errors.StartedAgain, match=f"start {other} and is in 3 now"):
                await bookie.end_limbo(LEDGER, other)
        with pytest.raises(errors.LimboLedger):
            await bookie.read(reading(0, 9))
        await bookie.end_limbo(LEDGER, 3)


async def test_in_limbo_what_is_here_is_served_and_what_is_not_is_unknown() -> None:
    files = MemoryFileSystem()
    async with running(files) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1), frame(3))
        await into_limbo(bookie)
    async with running(files) as bookie:
        reply = await bookie.read(reading(0, 9))
        assert ([list(f.entry_ids) for f in reply.frames], reply.next_entry_id) == ([[0, 1]], 2)
        assert reply.last_add_confirmed is None
        for unknown in (
            bookie.read(reading(2, 9)),
            bookie.read_lac(LEDGER),
            bookie.fence(LEDGER, KEY),
            bookie.list_entries(
                service.ListEntriesRequest(
                    ledger_id=LEDGER, first_entry_id=EntryId(0), ranges_max=1
                )
            ),
        ):
            with pytest.raises(errors.LimboLedger):
                await unknown
        await bookie._settle(LEDGER, admission.Limbo(in_limbo=False))
        assert await read_ids(bookie) == [0, 1, 3]
