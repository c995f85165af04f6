"""The reads of metadata that peers cause: bounded for all, and slow for strangers alone (S138)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.bookie.running import BOOKIE, KEY, LEDGER, running
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.serving import store_reads
from zonekeeper.bookie.serving.store_reads import (
    AT_ONCE,
    STRANGERS_EVERY_MS,
    Peer,
    StoreReads,
    StoreTurn,
)
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors

READ_S = 0.002
HONEST, STRANGER = Peer(), Peer()


class Store:
    """Answers after a while, and notes what is asked of it."""

    def __init__(self) -> None:
        self.reads = StoreReads(BOOKIE)
        self.now = self.most = 0
        self.begun = Counter[Peer]()
        self.answers = True

    async def ask(self, peer: Peer, *, there: bool) -> bool:
        async def answer() -> bool:
            self.begun[peer] += 1
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await asyncio.sleep(READ_S if self.answers else 3_600)
            finally:
                self.now -= 1
            return there

        return await self.reads.read(peer, answer, found=bool)

    @property
    def is_idle(self) -> bool:
        return (self.now, self.reads.under_way, self.reads.waiting) == (0, 0, 0)


def asking(store: Store, peer: Peer, count: int, *, there: bool) -> list["asyncio.Future[bool]"]:
    return [asyncio.ensure_future(store.ask(peer, there=there)) for _ in range(count)]


@virtual_time.played
async def test_s138_no_more_than_so_many_are_under_way() -> None:
    store = Store()
    assert all(await asyncio.gather(*asking(store, HONEST, 1_000, there=True)))
    assert store.most == AT_ONCE
    assert store.is_idle


@virtual_time.played
async def test_s138_a_stranger_has_few_reads_and_holds_nobody_up() -> None:
    store = Store()
    flood = asking(store, STRANGER, 5_000, there=False)
    await asyncio.sleep(1)
    after_a_second = store.begun[STRANGER]
    assert after_a_second <= AT_ONCE + 1_000 // STRANGERS_EVERY_MS + 1
    now = asyncio.get_running_loop().time
    before = now()
    assert all(await asyncio.gather(*asking(store, HONEST, 10 * AT_ONCE, there=True)))
    assert now() - before < 20 * READ_S
    assert store.begun[STRANGER] <= after_a_second + 2
    for each in flood:
        each.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    assert store.is_idle


@virtual_time.played
async def test_strangers_take_turns_and_none_of_them_waits_for_ever() -> None:
    store = Store()
    peers = [Peer() for _ in range(5)]
    for peer in peers:
        assert not await store.ask(peer, there=False)
    store.begun.clear()
    floods = [each for peer in peers for each in asking(store, peer, 100, there=False)]
    await asyncio.sleep(20 * STRANGERS_EVERY_MS / 1_000)
    assert {store.begun[peer] for peer in peers} <= {3, 4, 5}
    for each in floods:
        each.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
    assert store.is_idle


@virtual_time.played
async def test_peers_that_are_no_strangers_take_turns_too() -> None:
    store = Store()
    many = asking(store, HONEST, 5_000, there=True)
    await asyncio.sleep(0)
    other = Peer()
    await store.ask(other, there=True)
    assert store.begun[HONEST] <= 3 * AT_ONCE
    await asyncio.gather(*many)


@virtual_time.played
async def test_a_peer_whose_read_finds_something_is_no_stranger_any_more() -> None:
    """A client may ask for a deleted ledger; then its next ledger is there."""
    store = Store()
    assert not await store.ask(HONEST, there=False)
    begun = asyncio.get_running_loop().time()
    assert all(await asyncio.gather(*asking(store, HONEST, 10 * AT_ONCE, there=True)))
    assert asyncio.get_running_loop().time() - begun < 30 * READ_S + STRANGERS_EVERY_MS / 1_000


@virtual_time.played
async def test_a_store_that_does_not_answer_is_given_up() -> None:
    store = Store()
    store.answers = False
    outcomes = await asyncio.gather(
        *asking(store, HONEST, 10 * AT_ONCE, there=True), return_exceptions=True
    )
    kinds = {type(each) for each in outcomes}
    assert kinds == {errors.MetadataAway, errors.TooManyRequests}
    assert all(isinstance(each, errors.ProtocolError) and each.retryable for each in outcomes)
    assert store.is_idle
    store.answers = True
    assert await store.ask(HONEST, there=True)


@virtual_time.played
async def test_what_waits_is_bounded_and_strangers_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_reads, "WAITING_MAX", 100)
    store = Store()
    assert not await store.ask(STRANGER, there=False)
    flood = asking(store, STRANGER, 1_000, there=False)
    await asyncio.sleep(0)
    assert store.reads.waiting <= 100
    honest = asking(store, HONEST, 130, there=True)
    assert all(await asyncio.gather(*honest)), "32 of them are under way at once"
    for each in flood:
        each.cancel()
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert errors.TooManyRequests in {type(each) for each in outcomes}
    assert store.is_idle
    outcomes = await asyncio.gather(*asking(store, HONEST, 200, there=True), return_exceptions=True)
    assert [type(each) for each in outcomes].count(errors.TooManyRequests) == 200 - 132


@virtual_time.played
async def test_reads_that_are_cancelled_at_any_moment_leave_their_place() -> None:
    for turns in range(12):
        store = Store()
        some = asking(store, HONEST, 2 * AT_ONCE, there=True)
        for _ in range(turns):
            await asyncio.sleep(READ_S / 4)
        for each in some:
            each.cancel()
        await asyncio.gather(*some, return_exceptions=True)
        assert store.is_idle
        assert await store.ask(HONEST, there=True)


@virtual_time.played
async def test_a_stranger_of_limbos_is_slow_alone() -> None:
    """``EndLimbo`` reads, too; a fence of an honest peer does not wait for it."""
    asked = Counter[str]()

    async def vouched(ledger_id: LedgerId, boot_epoch: int) -> bool:
        asked["voucher"] += 1
        await asyncio.sleep(READ_S)
        return False

    async def standing(ledger_id: LedgerId) -> admission.Standing:
        asked["standing"] += 1
        await asyncio.sleep(READ_S)
        return admission.Gone()

    async with running(MemoryFileSystem(), vouched=vouched) as bookie:
        bookie.standing = standing
        await bookie._settle(LEDGER, admission.LimboWanted(in_limbo=True))

        async def flood(ask: Callable[[], Awaitable[object]]) -> None:
            some = [asyncio.ensure_future(ask()) for _ in range(2_000)]
            await asyncio.wait(some, timeout=1)
            for each in some:
                each.cancel()
            await asyncio.gather(*some, return_exceptions=True)

        await flood(lambda: bookie.end_limbo(LEDGER, 1))
        assert asked["voucher"] <= AT_ONCE + 1_000 // STRANGERS_EVERY_MS + 1
        await flood(lambda: bookie.fence(LedgerId(99), KEY))
        assert asked["standing"] <= AT_ONCE + 1_000 // STRANGERS_EVERY_MS + 1
        assert asked["standing"] >= AT_ONCE, "those who ask for limbos are other peers"


@virtual_time.played
async def test_s138_what_waiting_requests_take_is_bounded_and_strangers_make_room() -> None:
    """An opening that names very many bookies takes a MiB while it waits."""
    reads, size_bytes = StoreReads(BOOKIE), 1 << 20
    room = store_reads.WAITING_BYTES_MAX // size_bytes
    begun = Counter[Peer]()
    refused = Counter[Peer]()

    async def absent() -> bool:
        return False

    def enter(peer: Peer) -> None:
        def begin(turn: StoreTurn) -> None:
            assert turn.peer is peer
            begun[peer] += 1

        def refuse(error: errors.ProtocolError) -> None:
            assert isinstance(error, errors.TooManyRequests)
            refused[peer] += 1

        try:
            reads.enter(peer, begin, refuse, size_bytes=size_bytes)
        except errors.TooManyRequests as error:
            refuse(error)

    assert not await reads.read(STRANGER, absent, found=bool)
    for _ in range(2 * room):
        enter(STRANGER)
    assert (reads.waiting, refused[STRANGER]) == (room, 2 * room - room - begun[STRANGER])
    for _ in range(2 * room):
        enter(HONEST)
    assert reads.waiting == room
    assert begun[HONEST] + refused[HONEST] == room
    assert begun[HONEST] >= AT_ONCE - 1
    await asyncio.sleep(store_reads.TURN_TIMEOUT_MS / 1_000 + 1)
    assert (reads.waiting, reads.waiting_bytes) == (0, 0), "they were given up"


@virtual_time.played
async def test_s138_of_a_stranger_no_more_wait_than_may_begin_in_time() -> None:
    """Thousands that were given up in one moment would hold up the event loop."""
    store = Store()
    before = asking(store, STRANGER, 5_000, there=False)
    await asyncio.sleep(0)
    assert store.reads.waiting == 5_000 - AT_ONCE, "nothing is known of it yet"
    await asyncio.sleep(1)
    assert store.reads.waiting <= store_reads.STRANGERS_MAX
    asked = asking(store, STRANGER, 100, there=False)
    other = asking(store, HONEST, 100, there=True)
    assert all(await asyncio.gather(*other))
    outcomes = await asyncio.gather(*before, *asked, return_exceptions=True)
    kinds = Counter(type(each) for each in outcomes)
    assert kinds.keys() == {bool, errors.TooManyRequests}
    assert kinds[bool] >= store_reads.STRANGERS_MAX // 2, "those that wait are served in turn"
    assert store.is_idle


@virtual_time.played
async def test_a_bookie_that_stops_begins_no_read_any_more() -> None:
    store = Store()
    waiting = asking(store, HONEST, AT_ONCE + 1, there=True)
    await asyncio.sleep(0)
    store.reads.end()
    with pytest.raises(errors.ShuttingDown):
        await store.ask(Peer(), there=True)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in outcomes] == [bool] * AT_ONCE + [errors.ShuttingDown]
    assert store.begun.total() == AT_ONCE
    assert store.is_idle


@virtual_time.played
async def test_a_turn_that_was_given_holds_nothing_of_its_request() -> None:
    """Nor does a timer hold the turn: an opening may be large, and the timer runs for long."""
    reads = StoreReads(BOOKIE)
    given, refused = list[StoreTurn](), list[errors.ProtocolError]()
    before = given.append
    turn = reads.enter(HONEST, before, refused.append, size_bytes=1 << 16)
    assert (given, refused) == ([turn], [])
    assert turn.given != before
    assert turn.timer is not None
    assert turn.timer.cancelled()
    assert reads.waiting_bytes == 0
