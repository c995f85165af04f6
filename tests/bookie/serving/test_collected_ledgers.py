"""What a bookie answers for a ledger that it has collected (S119)."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Coroutine

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    Outcomes,
    append,
    frame,
    open_fragment,
    opening,
    read_ids,
    running,
)
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.ledgers.tombstones import Tombstones
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, digests, errors, openings

TOKEN, OTHER_TOKEN = 7, 8
MINE = dataclasses.replace(opening(), create_token=TOKEN)
ANOTHER = dataclasses.replace(MINE, create_token=OTHER_TOKEN)


async def open_again(bookie: BookieServer, wanted: openings.FragmentOpening) -> None:
    """Open a ledger as a writer does that had it open before."""
    heard = Outcomes()
    bookie.append([carriers.Open(number=0, opening=wanted, was_open=True)], heard)
    if (refused := await heard.of(0)) is not None:
        raise refused


async def fencing_read(bookie: BookieServer, token: int) -> None:
    await bookie.read(
        service.ReadRequest(
            ledger_id=LEDGER,
            first_entry_id=EntryId(0),
            last_entry_id=EntryId(9),
            bytes_max=1 << 20,
            fence_key=KEY,
            create_token=token,
        )
    )


async def fill_and_forget(bookie: BookieServer) -> None:
    await open_fragment(bookie, MINE)
    await append(bookie, frame(0, 1))
    await bookie.fence(LEDGER, KEY, TOKEN)
    await bookie._storage.forget([LEDGER])


async def check_that_it_is_gone(bookie: BookieServer) -> None:
    """It is neither opened nor fenced, and nothing that a recovery asks is answered by a no."""
    for asked in (
        open_again(bookie, MINE),
        open_fragment(bookie, MINE),
        bookie.fence(LEDGER, KEY, TOKEN),
        bookie.fence(LEDGER, KEY),
        fencing_read(bookie, TOKEN),
    ):
        with pytest.raises(errors.LedgerDeleted):
            await asked
    assert LEDGER not in bookie._memory.ledgers


async def test_a_collected_ledger_is_neither_opened_nor_fenced_anew() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await fill_and_forget(bookie)
        await check_that_it_is_gone(bookie)


async def test_a_ledger_that_was_only_fenced_here_leaves_its_token_too() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await bookie.fence(LEDGER, KEY, TOKEN)
        await bookie._storage.forget([LEDGER])
        await check_that_it_is_gone(bookie)
        await open_fragment(bookie, ANOTHER)


async def test_a_fence_of_a_ledger_that_was_never_created_is_not_remembered() -> None:
    """A stranger fenced an id; the ledger that gets the id later must not be taken for that one.

    An earlier version stored such fences without a look at metadata.
    """
    files = MemoryFileSystem()
    strangers = digests.master_key(b"a stranger's")

    async def believed(ledger_id: LedgerId) -> admission.Standing:
        del ledger_id
        return admission.Stands(master_key=strangers)

    async with running(files) as bookie:
        bookie.standing = believed
        await bookie.fence(LEDGER, strangers)
        await bookie._storage.forget([LEDGER])
        assert len(bookie._memory.tombstones) == 0
    async with running(files, boot_epoch=2) as bookie:
        assert len(bookie._memory.tombstones) == 0
        await open_fragment(bookie, MINE)


@pytest.mark.parametrize("swept", [False, True])
async def test_nor_after_a_power_loss(swept: bool) -> None:
    """The tombstone is in the log's record, and from the next checkpoint on in that."""
    files = MemoryFileSystem()
    async with running(files, crash=True) as bookie:
        await fill_and_forget(bookie)
        if swept:
            await bookie._storage.reclaim()
            (stone,) = checkpoint.load(files).tombstones
            assert (stone.ledger_id, stone.create_token) == (LEDGER, TOKEN)
    async with running(files, boot_epoch=2) as bookie:
        await check_that_it_is_gone(bookie)


async def test_a_ledger_made_anew_under_its_id_is_taken() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await fill_and_forget(bookie)
        await bookie.fence(LEDGER, KEY, OTHER_TOKEN)
        await bookie._storage.forget([LEDGER])
        await open_fragment(bookie, dataclasses.replace(MINE, create_token=9))
        await append(bookie, frame(0, 1, 2))
        assert await read_ids(bookie) == [0, 1, 2]
        for old in (MINE, ANOTHER):
            with pytest.raises(errors.LedgerDeleted):
                await open_fragment(bookie, old)


async def test_what_was_open_and_is_not_known_is_refused_without_a_tombstone() -> None:
    async with running(MemoryFileSystem()) as bookie:
        with pytest.raises(errors.LedgerDeleted):
            await open_again(bookie, MINE)
        await open_fragment(bookie, MINE)
        await open_again(bookie, MINE)


async def test_what_comes_while_a_ledger_is_being_forgotten_is_decided_as_after_it() -> None:
    """Its fence must not be gone while its opening is still taken."""
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, MINE)
        await append(bookie, frame(0, 1))
        await bookie.fence(LEDGER, KEY, TOKEN)
        forgetting = asyncio.ensure_future(bookie._storage.forget([LEDGER]))
        await asyncio.sleep(0)
        heard = Outcomes()
        following = dataclasses.replace(MINE, first_entry_id=EntryId(2))
        bookie.append(
            [
                carriers.Open(number=0, opening=following, was_open=True),
                carriers.Append(number=1, frame=frame(2, 3)),
            ],
            heard,
        )
        assert not forgetting.done()
        assert isinstance(await heard.of(0), errors.LedgerDeleted)
        assert isinstance(await heard.of(1), errors.NotOpened)
        await forgetting
        await check_that_it_is_gone(bookie)


@pytest.mark.parametrize("turns", range(6))
async def test_s119_a_frame_that_is_sent_again_while_its_ledger_is_forgotten_is_refused(
    turns: int,
) -> None:
    """It is compared with what is here, outside the event loop; the bookie forgets meanwhile."""
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, MINE)
        await append(bookie, frame(0, 1))
        heard = Outcomes()
        bookie.append([carriers.Append(number=0, frame=frame(0, 1))], heard)
        for _ in range(turns):
            await asyncio.sleep(0)

        await bookie._storage.forget([LEDGER])

        assert isinstance(await heard.of(0), errors.NotOpened | None)
        await check_that_it_is_gone(bookie)


@pytest.mark.parametrize("turns", range(6))
async def test_s119_a_frame_of_a_forgotten_ledger_does_not_get_into_the_next_of_its_id(
    turns: int,
) -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, MINE)
        await append(bookie, frame(0, 1))
        heard = Outcomes()
        bookie.append([carriers.Append(number=0, frame=frame(1, 2))], heard)
        for _ in range(turns):
            await asyncio.sleep(0)
        forgetting = asyncio.ensure_future(bookie._storage.forget([LEDGER]))
        await asyncio.sleep(0)
        await open_fragment(bookie, ANOTHER)
        await forgetting

        await heard.of(0)

        assert await read_ids(bookie) == []


async def fence(bookie: BookieServer) -> None:
    evidence = await bookie.fence(LEDGER, KEY, TOKEN)
    assert evidence.last_entry is not None


async def read(bookie: BookieServer) -> None:
    await fencing_read(bookie, TOKEN)


@pytest.mark.parametrize("asked", [fence, read])
@pytest.mark.parametrize("turns", range(8))
async def test_a_recovery_that_asks_while_a_ledger_is_being_collected_hears_no_negative(
    turns: int, asked: Callable[[BookieServer], Coroutine[None, None, None]]
) -> None:
    """It was fenced already when the bookie forgot it: what is missing then was here before."""
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, MINE)
        await append(bookie, frame(0, 1))
        asking = asyncio.ensure_future(asked(bookie))
        for _ in range(turns):
            await asyncio.sleep(0)
        await bookie._storage.forget([LEDGER])
        with contextlib.suppress(errors.LedgerDeleted):
            await asking


async def test_a_ledger_that_is_not_known_leaves_no_tombstone() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await bookie._storage.forget([LEDGER])
        assert len(bookie._memory.tombstones) == 0
        await open_fragment(bookie, MINE)


async def test_tombstones_that_are_dropped_early_are_counted() -> None:
    async with running(MemoryFileSystem()) as bookie:
        bookie._memory.tombstones = Tombstones(most=1)
        for token in (TOKEN, OTHER_TOKEN):
            await open_fragment(bookie, dataclasses.replace(MINE, create_token=token))
            await bookie._storage.forget([LEDGER])
        assert bookie._storage.counters.tombstones_dropped == 1
