"""A bookie that lost data of a ledger: what it does not have is unknown until it is made whole."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

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
from tests.bookie.segments import keeping
from tests.bookie.serving.test_service import ABSENT, reading
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage.ledger_entries import LedgerEntries
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors

T = TypeVar("T")


async def vouched(ledger_id: LedgerId, boot_epoch: int) -> bool:
    """Vouch for everything, as a repair does that has looked."""
    del ledger_id, boot_epoch
    return True


async def into_limbo(bookie: BookieServer) -> None:
    await bookie._settle(LEDGER, admission.LimboWanted(in_limbo=True))


async def test_limbo_ends_for_a_ledger_when_it_holds_again_what_it_should() -> None:
    files = MemoryFileSystem()
    async with running(files, vouched=vouched) as bookie:
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
    async with running(MemoryFileSystem(), boot_epoch=3, vouched=vouched) as bookie:
        await into_limbo(bookie)
        for other in (0, 2, 4):
            with pytest.raises(errors.StartedAgain, match=f"start {other} and is in 3 now"):
                await bookie.end_limbo(LEDGER, other)
        with pytest.raises(errors.LimboLedger):
            await bookie.read(reading(0, 9))
        await bookie.end_limbo(LEDGER, 3)


async def test_a_limbo_ends_only_by_a_voucher_that_the_bookie_reads_itself() -> None:
    asked: list[tuple[LedgerId, int]] = []
    answers: list[bool | Exception] = [False, errors.MetadataAway("the test's"), True]

    async def read_voucher(ledger_id: LedgerId, boot_epoch: int) -> bool:
        asked.append((ledger_id, boot_epoch))
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with running(MemoryFileSystem(), boot_epoch=3, vouched=read_voucher) as bookie:
        await into_limbo(bookie)
        for refusal in (errors.NotVouched, errors.MetadataAway):
            assert refusal.retryable
            assert not refusal.maybe_applied
            with pytest.raises(refusal):
                await bookie.end_limbo(LEDGER, 3)
            with pytest.raises(errors.LimboLedger):
                await bookie.read(reading(0, 9))
        await bookie.end_limbo(LEDGER, 3)
        assert (await bookie.read(reading(0, 9))).next_entry_id == 10
        await bookie.end_limbo(LEDGER, 3)
        assert asked == [(LEDGER, 3)] * 3, "where there is no limbo, nothing is read"


async def test_a_bookie_without_metadata_ends_no_limbo() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await into_limbo(bookie)
        with pytest.raises(errors.MetadataAway):
            await bookie.end_limbo(LEDGER, bookie.boot_epoch)


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
        await bookie._settle(LEDGER, admission.LimboWanted(in_limbo=False))
        assert await read_ids(bookie) == [0, 1, 3]


async def test_a_read_that_was_looked_up_in_limbo_is_answered_as_in_limbo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limbo ends, durably, while the disk is asked where the entries are."""
    async with running(
        MemoryFileSystem(), sizes=Sizes(segment_bytes=2048), vouched=vouched
    ) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1), *(frame(number) for number in range(3, 60)))
        in_memory = bookie._memory.ledgers[LEDGER].extents
        assert isinstance(in_memory, LedgerEntries)
        await keeping.let_work(lambda: in_memory.is_sorted(3))
        reads = bookie._storage._devices.reads
        assert isinstance(reads, InlineDisk)
        run = reads.run

        async def slow(work: Callable[[], T]) -> T:
            await bookie.end_limbo(LEDGER, bookie.boot_epoch)
            return await run(work)

        for key in (None, KEY):
            await into_limbo(bookie)
            with monkeypatch.context() as patched:
                patched.setattr(reads, "run", slow)
                with pytest.raises(errors.LimboLedger):
                    await bookie.read(replace(reading(2, 9), fence_key=key))
            reply = await bookie.read(replace(reading(2, 9), fence_key=key))
            assert [n for each in reply.frames for n in each.entry_ids] == list(range(3, 10))

            await into_limbo(bookie)
            with monkeypatch.context() as patched:
                patched.setattr(reads, "run", slow)
                reply = await bookie.read(replace(reading(0, 9), fence_key=key))
            assert ([list(each.entry_ids) for each in reply.frames]) == [[0, 1]]
            assert (reply.next_entry_id, reply.last_add_confirmed) == (2, None)
