"""What a bookie takes when room is short: what was promised stays readable, and the rest waits."""

import asyncio
import errno
import os

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    OTHER_KEY,
    Outcomes,
    append,
    frame,
    lac_packet,
    open_fragment,
    opening,
    read_ids,
    running,
    write_lac,
)
from tests.bookie.segments.keeping import let_work
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.ledgers import hints
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, entries, errors, frames
from zonekeeper.wire.formats.frames import Flags

MIB = 1 << 20
#: One segment in use, one written in advance, and a little more.
DISK_BYTES = 80 * MIB
SIZES = Sizes(segment_bytes=32 * MIB, reserve_bytes=4 * MIB)


@virtual_time.played
async def test_recovery_is_taken_by_a_bookie_that_is_read_only_for_any_reason() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        assert await append(bookie, frame(0)) == [None]
        await bookie.set_read_only(read_only=True)
        bookie.set_conditions(["a device is full"])

        plain, recovered = await append(bookie, frame(1), frame(1, recovery=True))

        assert isinstance(plain, errors.ReadOnly)
        assert recovered is None
        assert await read_ids(bookie) == [0, 1]


@virtual_time.played
async def test_recovery_is_refused_by_a_bookie_that_stops() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        bookie.drain()
        (refused,) = await append(bookie, frame(0, recovery=True))
        assert isinstance(refused, errors.ShuttingDown)


async def prepared(files: MemoryFileSystem, bookie: BookieServer) -> None:
    """Wait until a segment is written in advance, and let others take all room that is left."""
    arrivals = bookie._storage._arrivals
    await let_work(lambda: arrivals.prepared == 1)
    free = files.space().free_bytes
    assert free >= SIZES.reserve_bytes
    files.create("ballast").allocate(free)
    await bookie._storage.measure()


async def fill(bookie: BookieServer, *, recovery: bool) -> int:
    """Append until an entry is refused for want of room, and give how many were taken."""
    count = 0
    while True:
        (outcome,) = await append(bookie, frame(count, data=bytes(MIB), recovery=recovery))
        if outcome is not None:
            assert isinstance(outcome, errors.InsufficientSpace)
            return count
        count += 1


def flood(bookie: BookieServer, *, lac: int) -> tuple[Outcomes, int]:
    """Ask at once for more openings, and then for more LACs, than fit; give how many were asked.

    A LAC is smaller than an opening: where no opening fits any more, a LAC or two may.
    """
    heard, openings = Outcomes(), 20_000
    wanted: list[carriers.Request] = [
        carriers.Open(number=number, opening=opening(first=1 + number))
        for number in range(openings)
    ]
    wanted += [
        carriers.WriteLac(number=openings + at, ledger_id=LEDGER, packet=lac_packet(lac + at))
        for at in range(20)
    ]

    bookie.append(wanted, heard)

    assert all(isinstance(each, errors.InsufficientSpace) for each in heard.heard.values())
    assert heard.heard.keys() >= {openings - 1, len(wanted) - 1}, "the last of each do not fit"
    return heard, len(wanted)


@virtual_time.played
async def test_what_was_written_in_advance_is_room_on_a_device_that_has_none() -> None:
    files = MemoryFileSystem(total_bytes=DISK_BYTES)
    async with running(files, sizes=SIZES) as bookie:
        await open_fragment(bookie, opening())
        await prepared(files, bookie)

        taken = await fill(bookie, recovery=True)

        assert taken >= 10, "what is left of a segment when a batch does not fit is not counted"
        await bookie.fence(LEDGER, KEY)
        assert files.space().free_bytes == 0
        assert bookie._log.active.size() == SIZES.segment_bytes
    async with running(files, sizes=SIZES) as bookie:
        wanted = service.ListEntriesRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), ranges_max=9
        )
        assert (await bookie.list_entries(wanted)).ranges == ((0, taken - 1),)


@pytest.fixture
def hints_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger's hints take less than the room that is tried here."""
    monkeypatch.setattr(hints, "LEDGER_BYTES_MAX", 1 << 30)


@pytest.mark.usefixtures("hints_without_limit")
@virtual_time.played
async def test_openings_and_lacs_leave_room_for_fences_and_for_what_is_forgotten() -> None:
    """What makes room is a record, too, and waits behind all that waits."""
    files = MemoryFileSystem(total_bytes=DISK_BYTES)
    async with running(files, sizes=SIZES) as bookie, asyncio.timeout(60):
        await open_fragment(bookie, opening())
        await prepared(files, bookie)
        await fill(bookie, recovery=True)

        heard, count = flood(bookie, lac=0)

        refused = len(heard.heard)
        await bookie.fence(LedgerId(9), KEY)
        await bookie._storage.forget([LEDGER])
        assert [await heard.of(number) for number in range(count)].count(None) == count - refused


@pytest.mark.usefixtures("hints_without_limit")
@virtual_time.played
async def test_a_full_bookie_acknowledges_what_needs_no_byte() -> None:
    files = MemoryFileSystem(total_bytes=DISK_BYTES)
    async with running(files, sizes=SIZES) as bookie, asyncio.timeout(60):
        await open_fragment(bookie, opening())
        assert await write_lac(bookie, lac_packet(5)) is None
        await prepared(files, bookie)
        await fill(bookie, recovery=True)
        flood(bookie, lac=6)

        for lac in (3, 5):
            assert await write_lac(bookie, lac_packet(lac)) is None
        await open_fragment(bookie, opening())
        with pytest.raises(errors.UnauthorizedAccess):
            await open_fragment(bookie, opening(key=OTHER_KEY))


@virtual_time.played
async def test_plain_entries_leave_the_reserve_to_a_recovery() -> None:
    files = MemoryFileSystem(total_bytes=DISK_BYTES)
    sizes = Sizes(segment_bytes=32 * MIB, reserve_bytes=12 * MIB)
    async with running(files, sizes=sizes) as bookie:
        await open_fragment(bookie, opening())
        await prepared(files, bookie)
        plain = await fill(bookie, recovery=False)
        (outcome,) = await append(bookie, frame(plain, recovery=True))
        assert outcome is None


@virtual_time.played
async def test_recovery_uses_half_of_what_is_kept_free() -> None:
    files = MemoryFileSystem(total_bytes=10 * MIB)
    sizes = Sizes(segment_bytes=32 * MIB, reserve_bytes=8 * MIB)
    async with running(files, sizes=sizes) as bookie:
        await open_fragment(bookie, opening())
        plain = await fill(bookie, recovery=False)
        both = await fill(bookie, recovery=True)
        assert plain < both
        assert files.space().free_bytes >= sizes.reserve_bytes // 2
        assert await append(bookie, frame(0, data=bytes(MIB))) != [None]


@virtual_time.played
async def test_writing_in_advance_leaves_the_reserve() -> None:
    files = MemoryFileSystem(total_bytes=20 * MIB)
    async with running(files, sizes=SIZES) as bookie:
        arrivals = bookie._storage._arrivals
        await let_work(lambda: arrivals.space.free_bytes < 2 * SIZES.reserve_bytes)
        assert arrivals.prepared == 0
        assert files.space().free_bytes >= SIZES.reserve_bytes


def test_a_batch_that_did_not_fit_is_written_when_there_is_room() -> None:
    virtual_time.run(a_batch_that_did_not_fit())


async def a_batch_that_did_not_fit() -> None:
    files = MemoryFileSystem()

    def full(kind: str, name: str) -> None:
        if kind == "write" and name.startswith("arrival-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    async with running(files) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0))
        files.troubles = full
        waiting = asyncio.ensure_future(append(bookie, frame(1), frame(2)))
        await asyncio.sleep(10)
        assert not waiting.done()
        assert await read_ids(bookie) == [0]
        assert bookie._storage.counters.waits_for_room > 5
        files.troubles = no_troubles
        assert await waiting == [None, None]
    async with running(files) as bookie:
        assert await read_ids(bookie) == [0, 1, 2]


def test_a_sync_without_room_is_no_shortage() -> None:
    """The kernel has taken what was written, and lost it: nothing is ever tried again."""
    files = MemoryFileSystem()

    async def play() -> None:
        async with running(files) as bookie:
            await open_fragment(bookie, opening())

            def full(kind: str, name: str) -> None:
                if kind == "sync":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

            files.troubles = full
            (outcome,) = await append(bookie, frame(0))
            assert isinstance(outcome, errors.IoFailed)

    with pytest.raises(BaseExceptionGroup, match="unhandled"):
        virtual_time.run(play())


@virtual_time.played
async def test_a_start_without_room_for_one_batch_changes_nothing() -> None:
    files = MemoryFileSystem(total_bytes=MIB)
    sizes = Sizes(segment_bytes=MIB // 2, reserve_bytes=MIB - (MIB >> 6))
    async with running(files, sizes=sizes) as bookie:
        await open_fragment(bookie, opening())
        assert await append(bookie, frame(0)) == [None]
    ballast = files.create("ballast")
    ballast.allocate(files.space().free_bytes)
    with pytest.raises(OSError, match="No space left"):
        async with running(files, sizes=sizes):
            pass
    ballast.truncate(MIB // 2)
    async with running(files, sizes=sizes) as bookie:
        assert await read_ids(bookie) == [0]


class Two:
    """A client with two ledgers, which writes to them in turn."""

    def __init__(self, bookie: BookieServer) -> None:
        self._bookie = bookie
        self._sealers = {
            ledger_id: entries.Sealer(ledger_id, Digest.CRC32C, b"secret") for ledger_id in TWO
        }
        #: How many entries of each were acknowledged.
        self.counts = dict.fromkeys(TWO, 0)

    async def append(self, ledger_id: LedgerId, flags: Flags) -> errors.ProtocolError | None:
        entry_id = EntryId(self.counts[ledger_id])
        packet = self._sealers[ledger_id].seal(entry_id, EntryId(-1), 1 << 40, bytes(10_000))
        (outcome,) = await append(
            self._bookie, frames.build(ledger_id, [entry_id], [packet], flags)
        )
        if outcome is None:
            self.counts[ledger_id] += 1
        return outcome

    async def fill(self, flags: Flags) -> None:
        """Append until both are refused for want of room."""
        while True:
            outcomes = [await self.append(ledger_id, flags) for ledger_id in TWO]
            if all(isinstance(outcome, errors.InsufficientSpace) for outcome in outcomes):
                return

    async def check(self, ledger_id: LedgerId) -> None:
        wanted = service.ListEntriesRequest(
            ledger_id=ledger_id, first_entry_id=EntryId(0), ranges_max=9
        )
        listed = await self._bookie.list_entries(wanted)
        assert listed.ranges == ((0, self.counts[ledger_id] - 1),)


TWO = (LedgerId(1), LedgerId(2))


def no_room_to_sort(kind: str, name: str) -> None:
    if kind == "allocate" and name.startswith("sorted-"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


async def a_life_to_the_brink_and_back(total_bytes: int) -> None:
    files = MemoryFileSystem(total_bytes=total_bytes)
    sizes = Sizes(
        segment_bytes=MIB // 4,
        segments_max=6,
        round_segments=1,
        reserve_bytes=MIB // 2,
        sorted_bytes_max=MIB // 4,
    )
    async with running(files, sizes=sizes) as bookie, asyncio.timeout(10_000):
        for ledger_id in TWO:
            await open_fragment(bookie, opening(ledger_id=ledger_id))
        client, kept = Two(bookie), bookie._storage
        # The rewrite was behind once, so that there are as many arrival segments as there may be.
        files.troubles = no_room_to_sort
        await client.fill(Flags.RECOVERY)
        files.troubles = no_troubles
        await asyncio.sleep(100)
        assert kept.backlog.in_reach > 1
        await client.fill(Flags.PLAIN)
        await client.fill(Flags.RECOVERY)
        await asyncio.sleep(100)
        await client.fill(Flags.RECOVERY)
        for ledger_id in TWO:
            await client.check(ledger_id)
        before = client.counts[TWO[1]]
        await kept.forget(TWO[:1])
        await kept.reclaim()
        await asyncio.sleep(100)
        assert kept.backlog.trouble is None
        while await client.append(TWO[1], Flags.PLAIN) is None:
            pass
        assert client.counts[TWO[1]] > 1.5 * before
        await client.check(TWO[1])


@pytest.mark.parametrize("total_bytes", range(6 * MIB, 7 * MIB, MIB // 4))
def test_a_bookie_that_took_all_it_could_takes_more_when_half_of_it_is_deleted(
    total_bytes: int,
) -> None:
    """That a ledger is forgotten can be written when nothing else can, and all follows from it."""
    virtual_time.run(a_life_to_the_brink_and_back(total_bytes))
