"""The room for the next checkpoint stays free, however many ledgers a bookie knows (S143)."""

import pytest

from tests.bookie.running import append, frame, open_fragment, opening, running
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors

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
        await bookie._log.measure()
        assert files.space().free_bytes >= bookie._memory.checkpoint_bytes
        await bookie._storage.forget([LedgerId(0)])
        await bookie._storage.reclaim()
        assert len(checkpoint.load(files).ledgers) == taken - 1
        assert bookie._storage.counters.waits_for_room == 0
