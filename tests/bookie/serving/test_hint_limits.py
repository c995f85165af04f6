"""The limits of hints in a bookie: a few ledgers with many fragments harm no other (S135)."""

import dataclasses

import pytest

from tests.bookie.running import KEY, LEDGER, append, frame, open_fragment, opening, running
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import hints
from zonekeeper.bookie.ledgers.records import FragmentRecord
from zonekeeper.bookie.serving import capacity
from zonekeeper.bookie.serving.capacity import HINT_BYTES_A_LEDGER, BookieLimits
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.openings import FragmentOpening

LARGE_BYTES = 600
LIMITS = BookieLimits(ledgers_max=200)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is a hundredth of what it is: parsing takes its time."""
    monkeypatch.setattr(hints, "LEDGER_BYTES_MAX", 10 << 10)
    monkeypatch.setattr(capacity, "HINT_BYTES_MIN", 640 << 10)


def large(ledger: int, first: int, size_bytes: int = LARGE_BYTES) -> FragmentOpening:
    """An opening with a hint of about this size."""
    names = [BookieId(f"{number:05x}") for number in range(size_bytes // 7)]
    return dataclasses.replace(
        opening(ledger_id=LedgerId(ledger), first=first),
        quorums=Quorums(ensemble=len(names), write=1, ack=1),
        ensemble=tuple(names),
    )


def size_of(wanted: FragmentOpening) -> int:
    return hints.size_of(FragmentRecord.of(wanted).hint)


async def fill(bookie: BookieServer) -> list[errors.ProtocolError]:
    """Open fragments of many ledgers until each refuses more; give the refusals."""
    refusals: list[errors.ProtocolError] = []
    for ledger in range(100, 180):
        first = 0
        while True:
            try:
                await open_fragment(bookie, large(ledger, first))
            except errors.ProtocolError as error:
                refusals.append(error)
                break
            first += 1
    return refusals


@virtual_time.played
async def test_s135_one_ledger_of_a_hostile_peer_leaves_room_for_every_other() -> None:
    async with running(MemoryFileSystem(), limits=LIMITS) as bookie:
        refused = 0
        for number in range(100):
            try:
                await open_fragment(bookie, large(100, number))
            except errors.BadRequest:
                refused += 1
        assert refused == 100 - hints.LEDGER_BYTES_MAX // size_of(large(100, 0))
        memory = bookie._memory
        assert memory.hint_bytes <= hints.LEDGER_BYTES_MAX
        assert memory.hint_bytes == sum(
            each.admitted.hint_bytes for each in memory.ledgers.values()
        )

        for first in range(40):
            await open_fragment(bookie, opening(first=first))
        assert await append(bookie, frame(0)) == [None]


@virtual_time.played
async def test_s135_when_many_ledgers_have_taken_all_room_for_hints_each_other_has_its_share() -> (
    None
):
    async with running(MemoryFileSystem(), limits=LIMITS) as bookie:
        refusals = await fill(bookie)
        assert {type(each) for each in refusals} == {errors.BadRequest, errors.TooManyRequests}
        memory, most = bookie._memory, LIMITS.hint_bytes_max
        # Those that came too late have their own share, and no more.
        shares = 80 * HINT_BYTES_A_LEDGER
        assert most - 2 * LARGE_BYTES < memory.hint_bytes <= most + shares
        crowded = next(each for each in refusals if isinstance(each, errors.TooManyRequests))
        assert "--ledgers" in str(crowded)
        assert crowded.retryable

        # An honest writer beside them opens some fragments, and goes on.
        taken = 0
        for first in range(40):
            try:
                await open_fragment(bookie, opening(first=first))
            except errors.TooManyRequests:
                break
            taken += 1
        assert taken == HINT_BYTES_A_LEDGER // size_of(opening())
        assert taken >= 7
        assert await append(bookie, frame(0)) == [None]
        await open_fragment(bookie, opening(first=3))
        await bookie.fence(LEDGER, KEY)


@virtual_time.played
async def test_the_room_of_hints_is_free_again_when_their_ledger_is_forgotten() -> None:
    files = MemoryFileSystem()
    async with running(files, limits=LIMITS) as bookie:
        await open_fragment(bookie, opening())
        mine = bookie._memory.hint_bytes
        for number in range(5):
            await open_fragment(bookie, large(100, number))
        before = bookie._memory.hint_bytes
        assert before > mine + 5 * LARGE_BYTES
    async with running(files, limits=LIMITS) as bookie:
        assert bookie._memory.hint_bytes == before, "after a start, too"
        await bookie._storage.forget([LedgerId(100)])
        assert bookie._memory.hint_bytes == mine


def test_hints_have_the_more_room_the_more_ledgers_a_bookie_may_know() -> None:
    assert BookieLimits(ledgers_max=10).hint_bytes_max == capacity.HINT_BYTES_MIN
    assert BookieLimits().hint_bytes_max == 1_000_000 * HINT_BYTES_A_LEDGER


@virtual_time.played
async def test_what_an_earlier_version_has_kept_beyond_the_limit_starts_and_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the log first, and then in a checkpoint."""
    files, limit = MemoryFileSystem(), hints.LEDGER_BYTES_MAX
    monkeypatch.setattr(hints, "LEDGER_BYTES_MAX", 1 << 30)
    async with running(files, limits=LIMITS) as bookie:
        await open_fragment(bookie, opening())
        for first in range(1, 50):
            await open_fragment(bookie, large(int(LEDGER), first))
        told = bookie._memory.ledgers[LEDGER].durable.fragments
    monkeypatch.setattr(hints, "LEDGER_BYTES_MAX", limit)
    for _ in range(3):
        async with running(files, limits=LIMITS) as bookie:
            state = bookie._memory.ledgers[LEDGER].durable
            assert state.fragments == told
            assert state.hint_bytes > 2 * limit
            await open_fragment(bookie, opening())
            assert await append(bookie, frame(0)) == [None]
            with pytest.raises(errors.BadRequest):
                await open_fragment(bookie, large(int(LEDGER), 60))
            await bookie._storage.forget([LedgerId(99)])
            await bookie._storage.reclaim()
