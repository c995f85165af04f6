"""The room for the next checkpoint stays free, however many ledgers a bookie knows (S143, S144)."""

import asyncio
import dataclasses
from typing import Final

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    Folders,
    append,
    frame,
    open_fragment,
    opening,
    running,
)
from tests.bookie.segments.keeping import let_work
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.openings import FragmentOpening

KIB = 1 << 10
#: A quarter of the reserve is much less than a checkpoint of the ledgers.
SIZES = Sizes(segment_bytes=64 * KIB, segments_max=4, reserve_bytes=16 * KIB)
LEDGERS = 400


async def fill(bookie: BookieServer, size_bytes: int, *, recovery: bool = False) -> None:
    """Append until an entry is refused for want of room."""
    number = 0
    while True:
        wanted = frame(number, data=bytes(size_bytes), recovery=recovery)
        (outcome,) = await append(bookie, wanted)
        if outcome is not None:
            assert isinstance(outcome, errors.InsufficientSpace)
            return
        number += 1


async def take_in_all(bookie: BookieServer) -> int:
    """Open fragments of new ledgers until one is refused for want of room; give their number."""
    number = 0
    while True:
        try:
            await open_fragment(bookie, opening(ledger_id=LedgerId(number)))
        except errors.InsufficientSpace:
            return number
        number += 1


@pytest.mark.parametrize("recovery", [False, True])
@virtual_time.played
async def test_s143_a_full_device_has_room_for_the_checkpoint_of_all_ledgers(
    recovery: bool,
) -> None:
    files = MemoryFileSystem(total_bytes=2_000 * KIB)
    async with running(files, sizes=SIZES) as bookie:
        for number in range(LEDGERS):
            await open_fragment(bookie, opening(ledger_id=LedgerId(number)))
        await fill(bookie, 4 * KIB, recovery=recovery)
        free, most = files.space().free_bytes, bookie._memory.checkpoint_bytes
        assert most > 5 * SIZES.reserve_bytes
        assert free >= most

        counters = bookie._storage.counters
        waits = counters.waits_for_room
        await bookie._storage.forget([LedgerId(1)])
        await bookie._storage.reclaim()

        assert counters.waits_for_room == waits
        kept = checkpoint.load(files)
        assert len(kept.ledgers) >= LEDGERS - 1
        file = files.open(checkpoint.NAME)
        assert SIZES.reserve_bytes < file.size() <= most
    async with running(files, sizes=SIZES) as bookie:
        assert len(bookie._memory.ledgers) >= LEDGERS - 1


@virtual_time.played
async def test_s143_no_ledger_is_taken_in_whose_checkpoint_would_find_no_room() -> None:
    """Without entries, too: a device may be small, and --ledgers large."""
    files = MemoryFileSystem(total_bytes=600 * KIB)
    async with running(files, sizes=SIZES) as bookie:
        taken = await take_in_all(bookie)
        assert taken > 100
        await bookie._storage.measure()
        assert files.space().free_bytes >= bookie._memory.checkpoint_bytes
        await bookie._storage.forget([LedgerId(0)])
        await bookie._storage.reclaim()
        assert len(checkpoint.load(files).ledgers) == taken - 1
        assert bookie._storage.counters.waits_for_room == 0


#: Segments that are written in advance have room for much more than what is left to fences.
IN_ADVANCE = Sizes(segment_bytes=32 << 20, reserve_bytes=256 * KIB)
IN_ADVANCE_ON: Final = 80 << 20


def large(ledger_id: int, first: int = 0) -> FragmentOpening:
    """An opening whose hint takes some 40 KiB."""
    names = tuple(BookieId(f"{number:0200}") for number in range(200))
    return dataclasses.replace(
        opening(ledger_id=LedgerId(ledger_id), first=first),
        quorums=Quorums(ensemble=len(names), write=1, ack=1),
        ensemble=names,
    )


async def written_in_advance(files: MemoryFileSystem, bookie: BookieServer, left: int) -> None:
    """Wait until a segment is written in advance, and leave so much room beside it."""
    await open_fragment(bookie, opening())
    arrivals = bookie._storage._arrivals
    await let_work(lambda: arrivals.prepared == 1)
    files.create("ballast").allocate(files.space().free_bytes - left)
    await bookie._storage.measure()


async def keeps_its_room(files: MemoryFileSystem, bookie: BookieServer) -> None:
    """Write checkpoints of all that is known; none waits for room, the first is the largest yet."""
    assert files.space().free_bytes >= bookie._memory.checkpoint_bytes
    counters = bookie._storage.counters
    for number in range(3):
        async with asyncio.timeout(600):
            await bookie._storage.forget([LedgerId(99_999)])
            await bookie._storage.reclaim()
        assert counters.waits_for_room == 0, f"checkpoint {number}"


@pytest.mark.parametrize("ledgers", [1, 200])
@virtual_time.played
async def test_s144_room_in_the_log_is_no_room_for_the_checkpoint(ledgers: int) -> None:
    """Of one ledger, or of many: an opening needs no free room where the log has some."""
    files = MemoryFileSystem(total_bytes=IN_ADVANCE_ON)
    async with running(files, sizes=IN_ADVANCE) as bookie:
        await written_in_advance(files, bookie, 512 * KIB)
        refused = 0
        for number in range(20):
            try:
                await open_fragment(bookie, large(100 + number % ledgers, 1 + number))
            except errors.InsufficientSpace:
                refused += 1
        assert 0 < refused < 20
        await open_fragment(bookie, large(100, 1))
        await keeps_its_room(files, bookie)


@virtual_time.played
async def test_s144_fences_of_unknown_ledgers_leave_the_checkpoint_its_room() -> None:
    """They may use the last quarter of the reserve, which openings leave."""
    files = MemoryFileSystem(total_bytes=600 * KIB)
    async with running(files, sizes=SIZES) as bookie:
        taken = await take_in_all(bookie)
        await bookie._storage.measure()
        fenced = 0
        try:
            for fenced in range(1_000):
                await bookie.fence(LedgerId(10_000 + fenced), KEY)
        except errors.InsufficientSpace:
            pass
        assert 5 <= fenced < 999
        assert len(bookie._memory.ledgers) == taken + fenced
        await bookie.fence(LedgerId(0), KEY)
        await keeps_its_room(files, bookie)


@virtual_time.played
async def test_s144_where_others_took_the_room_known_ledgers_are_fenced_and_recovered() -> None:
    files = MemoryFileSystem(total_bytes=IN_ADVANCE_ON)
    async with running(files, sizes=IN_ADVANCE) as bookie:
        await written_in_advance(files, bookie, 0)
        await bookie.fence(LEDGER, KEY)
        await open_fragment(bookie, opening(first=3))
        await bookie.fence(LedgerId(8), KEY)
        with pytest.raises(errors.InsufficientSpace, match="checkpoint"):
            await open_fragment(bookie, opening(ledger_id=LedgerId(9)))
        assert bookie._memory.ledgers.keys() == {LEDGER, LedgerId(8)}


@virtual_time.played
async def test_s144_the_checkpoint_may_have_a_device_of_its_own() -> None:
    """The journal has all the room that there is, and the data folder little."""
    data, journal = MemoryFileSystem(total_bytes=300 * KIB), MemoryFileSystem()
    async with running(Folders(data=data, journal=journal), sizes=SIZES) as bookie:
        taken = await take_in_all(bookie)
        assert taken > 100
        await keeps_its_room(data, bookie)
        data.create("ballast").allocate(data.space().free_bytes - 10 * KIB)
        await bookie._storage.measure()
        with pytest.raises(errors.InsufficientSpace, match="--data"):
            await open_fragment(bookie, opening(ledger_id=LedgerId(20_000)))
        data.remove("ballast")
        with pytest.raises(errors.InsufficientSpace):
            await open_fragment(bookie, opening(ledger_id=LedgerId(20_000)))
        await asyncio.sleep(1)
        await bookie._storage.forget([LedgerId(0)])
        await open_fragment(bookie, opening(ledger_id=LedgerId(20_000)))
