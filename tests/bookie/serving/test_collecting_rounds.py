"""Two rounds prove a deletion, in one session each; many without a record wait for a person."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.bookie.serving.collecting_world import (
    BOOKIE,
    DELETER,
    FAST,
    NEW,
    World,
    collected_by,
    collector_of,
    world,
)
from tests.support import virtual_time
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.serving import collecting
from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.bookies.held_collections import Permit
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.ledgers import ledger_ids, ledger_listing, ledgers, set_back
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import LedgerId

# ── two rounds ──


@virtual_time.played
async def test_one_round_is_no_proof_and_two_that_are_too_close_are_none() -> None:
    async with world() as it:
        await it.create(1)
        await it.delete(1)
        assert await it.collector.round() == 0
        await asyncio.sleep(FAST.every_ms / 1_000 - 1)
        assert await it.collector.round() == 0
        assert it.known() == [1]
        await asyncio.sleep(2)
        assert await it.collector.round() == 1


@virtual_time.played
async def test_a_ledger_that_was_there_between_two_rounds_is_proven_gone_anew() -> None:
    async with world() as it:
        await it.create(1)
        await it.delete(1)
        await it.collector.round()
        await ledgers.create(it.cluster, NEW, ledger_id=LedgerId(1))
        await asyncio.sleep(FAST.every_ms / 1_000)
        await it.collector.round()
        await it.delete(1)
        await asyncio.sleep(FAST.every_ms / 1_000)
        assert await it.collector.round() == 0
        assert it.known() == [1]
        await asyncio.sleep(FAST.every_ms / 1_000)
        assert await it.collector.round() == 1


@virtual_time.played
async def test_what_was_proven_before_a_mark_is_proven_anew_after_it() -> None:
    async with world() as it:
        await it.create(1)
        await it.delete(1)
        await it.collector.round()
        proofs = (StoreEvidence(bookie=BOOKIE, kind=EvidenceKind.IDS, known=9, found=1),)
        await set_back.mark(it.cluster, proofs, now_ms=1)
        await asyncio.sleep(FAST.every_ms / 1_000)
        assert await it.collector.round() == 0
        assert (it.collector.counters.rounds_held, it.collector.state.restored) == (1, 1)
        mark = await restored.read(it.cluster)
        assert mark is not None
        await restored.clear(it.cluster, mark)
        assert await it.collector.round() == 0
        assert it.collector.state.restored == 0
        await asyncio.sleep(FAST.every_ms / 1_000)
        assert await it.collector.round() == 1


@virtual_time.played
async def test_rounds_follow_each_other_by_themselves() -> None:
    async with world() as it:
        await it.create(1)
        await it.delete(1)
        working = asyncio.ensure_future(it.collector.run())
        await asyncio.sleep(2.5 * FAST.every_ms / 1_000)
        assert it.known() == []
        working.cancel()


async def proven_at(
    it: World, monkeypatch: pytest.MonkeyPatch, call: int, then: Callable[[], Awaitable[None]]
) -> int:
    """Do two rounds, and something at one of the direct readings; give what is forgotten."""
    proven, calls = ledgers.proven_deleted, 0

    async def reading(cluster: Cluster, ledger_id: LedgerId) -> bool:
        nonlocal calls
        calls += 1
        found = await proven(cluster, ledger_id)
        if calls == call:
            await then()
        return found

    monkeypatch.setattr(ledgers, "proven_deleted", reading)
    count = await it.collected()
    monkeypatch.undo()
    return count


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_reading_of_another_session_proves_nothing(
    call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await it.create(1)
            await it.delete(1)

            async def lose_session() -> None:
                assert it.store.session.id is not None
                it.place.server.expire(it.store.session.id)
                async with it.store.watch_session() as sessions:
                    async for session in sessions:
                        if session.id is not None:
                            break

            assert await proven_at(it, monkeypatch, call, lose_session) == 0
            assert it.known() == [1]
            assert it.collector.counters.rounds_failed == 1

    story()


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_store_that_is_set_back_at_any_moment_of_a_round_is_not_believed(
    call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the last reading shows was so before it: what the store is later does not matter."""

    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            for _ in range(3):
                await ledger_ids.allocate(it.cluster)
            await it.create(1)
            await it.collector.round()

            async def set_it_back() -> None:
                # The counter of ids is an older one, and no ledger of since is there.
                await it.store.delete(it.cluster.root.below("idgen"), version=None)
                await it.store.create(it.cluster.root.below("idgen"))

            await it.delete(1)
            count = await proven_at(it, monkeypatch, call, set_it_back)
            assert count == (1 if call == 3 else 0), "it was gone before the store was set back"
            await it.collected()
            assert await restored.read(it.cluster) is not None

    story()


@virtual_time.played
async def test_a_listing_of_a_server_that_is_behind_is_no_older_than_the_look() -> None:
    async with world() as it:
        lagging = await it.place.open()
        assert isinstance(lagging, MemoryStore)
        lagging.read_lag_ms = 3_600_000
        behind = await clusters.open_cluster(lagging)
        await it.create(1, 2)
        await it.delete(2)
        seen = list[set[int]]()
        listing = ledger_listing.ids

        async def listed(cluster: Cluster) -> AsyncIterator[LedgerId]:
            found = {ledger_id async for ledger_id in listing(cluster)}
            seen.append(set(map(int, found)))
            for ledger_id in sorted(found):
                yield ledger_id

        patch = pytest.MonkeyPatch()
        patch.setattr(ledger_listing, "ids", listed)
        try:
            assert await collected_by(collector_of(behind, it.kept)) == 1
        finally:
            patch.undo()
        assert seen == [{1}, {1}], "the listing does not miss what the bookie knew"


@virtual_time.played
async def test_a_ledger_that_came_after_the_look_began_is_not_looked_at() -> None:
    """The write proves the reading only for ledgers that the bookie knew before it."""
    async with world() as it:
        patch = pytest.MonkeyPatch()
        look = Witness.look

        async def meanwhile(self: Witness) -> SessionId:
            if it.known() == []:
                await it.write(1, 2)
            return await look(self)

        patch.setattr(Witness, "look", meanwhile)
        try:
            assert await it.collected() == 0
        finally:
            patch.undo()
        await asyncio.sleep(FAST.every_ms / 1_000)
        assert await it.collector.round() == 1


# ── a person's word ──


async def many(it: World, count: int, *, recorded: bool) -> None:
    await it.create(*range(count), entries=2)
    for ledger_id in map(LedgerId, range(count)):
        if recorded:
            await ledgers.delete(it.cluster, ledger_id, DELETER)
        else:
            await it.store.delete(ledgers.path(it.cluster, ledger_id), version=None)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "UNRECORDED_MAX", 5)


def test_the_larger_of_a_tenth_and_a_thousand_go_without_a_word() -> None:
    assert not collecting.too_many(1_000, 1_000)
    assert collecting.too_many(1_001, 1_001)
    assert not collecting.too_many(2_000, 20_000)
    assert collecting.too_many(2_001, 20_000)


@pytest.mark.usefixtures("small")
def test_few_ledgers_go_without_a_record_of_their_deletion() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 5, recorded=False)
            assert await it.collected() == 5

    story()


@pytest.mark.usefixtures("small")
def test_many_ledgers_go_with_a_record() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 12, recorded=True)
            assert await it.collected() == 12

    story()


async def word(it: World) -> None:
    asked = await held_collections.read(it.cluster, BOOKIE)
    assert asked is not None
    permit = Permit(at_ms=1, by="shell", reason="deleted with another tool")
    await held_collections.permit(it.cluster, BOOKIE, asked.digest, permit)


@pytest.mark.usefixtures("small")
def test_s69_many_ledgers_without_a_record_wait_for_a_person() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 6, recorded=False)
            await it.create(100)
            await it.delete(100)
            assert await it.collected() == 0
            collector = it.collector
            assert (collector.counters.rounds_waited, collector.state.waiting_ledgers) == (1, 6)
            asked = await held_collections.read(it.cluster, BOOKIE)
            assert asked is not None
            assert (asked.ledgers, asked.known, asked.first, asked.last) == (6, 7, 0, 5)
            assert await it.collected() == 0, "nobody has said a word"

            await word(it)
            assert await collector.round() == 7
            assert await held_collections.read(it.cluster, BOOKIE) is None
            assert collector.state.waiting_ledgers == 0

    story()


@pytest.mark.usefixtures("small")
def test_a_word_is_for_the_ledgers_that_the_person_saw() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await it.create(*range(100, 112), entries=2)
            await many(it, 6, recorded=False)
            await it.collected()
            await word(it)
            for ledger_id in map(LedgerId, range(100, 112)):
                await it.store.delete(ledgers.path(it.cluster, ledger_id), version=None)
            await it.collected()
            asked = await held_collections.read(it.cluster, BOOKIE)
            left = it.known()
            assert asked is not None
            assert asked.permit is None
            assert (asked.ledgers, asked.first, asked.last) == (12, 100, 111)
            assert left == list(range(100, 112))
            with pytest.raises(held_collections.AskedAnewError, match="look again"):
                await held_collections.permit(
                    it.cluster, BOOKIE, "another", Permit(at_ms=1, by="shell", reason="x")
                )

    story()


@pytest.mark.usefixtures("small")
def test_a_word_outlives_the_start_that_asked() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 6, recorded=False)
            await it.collected()
            await word(it)
            assert await collected_by(collector_of(it.cluster, it.kept)) == 6
            assert await held_collections.read(it.cluster, BOOKIE) is None

    story()


@pytest.mark.usefixtures("small")
def test_a_word_for_other_ledgers_is_none_after_a_restart() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await it.create(100)
            await many(it, 6, recorded=False)
            await it.collected()
            await word(it)
            await it.store.delete(ledgers.path(it.cluster, LedgerId(100)), version=None)
            again = collector_of(it.cluster, it.kept)
            assert await collected_by(again) == 0
            asked = await held_collections.read(it.cluster, BOOKIE)
            assert asked is not None
            assert (asked.ledgers, asked.permit) == (7, None)

    story()


@pytest.mark.usefixtures("small")
def test_a_question_goes_when_the_ledgers_are_there_again() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 6, recorded=False)
            await it.collected()
            for ledger_id in range(6):
                await ledgers.create(it.cluster, NEW, ledger_id=LedgerId(ledger_id))
            await collected_by(collector_of(it.cluster, it.kept))
            assert await held_collections.read(it.cluster, BOOKIE) is None
            assert len(it.known()) == 6

    story()


@pytest.mark.usefixtures("small")
def test_s69_what_was_asked_about_waits_for_a_word_though_only_some_of_it_is_left() -> None:
    """A rebuild puts ledgers back one by one: those that are not there yet must not go."""

    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 6, recorded=False)
            await it.collected()
            for ledger_id in range(4):
                await ledgers.create(it.cluster, NEW, ledger_id=LedgerId(ledger_id))
            assert await it.collected() == 0
            asked = await held_collections.read(it.cluster, BOOKIE)
            assert asked is not None
            assert (asked.ledgers, asked.first, asked.last) == (2, 4, 5)
            assert await collected_by(collector_of(it.cluster, it.kept)) == 0, "nor after a start"

            await word(it)
            assert await it.collected() == 2
            assert await held_collections.read(it.cluster, BOOKIE) is None

    story()


@pytest.mark.usefixtures("small")
def test_what_was_asked_about_waits_for_a_word_though_the_bookie_knows_more_by_then() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 6, recorded=False)
            await it.collected()
            await it.create(*range(100, 154), entries=2)
            assert not collecting.too_many(6, len(it.known()))
            assert await it.collected() == 0
            assert it.collector.state.waiting_ledgers == 6

    story()


@pytest.mark.usefixtures("small")
def test_a_question_goes_although_some_ledger_is_deleted_all_the_time() -> None:
    @virtual_time.played
    async def story() -> None:
        async with world() as it:
            await many(it, 6, recorded=False)
            await it.create(*range(100, 110))
            await it.collected()
            for ledger_id in range(6):
                await ledgers.create(it.cluster, NEW, ledger_id=LedgerId(ledger_id))
            for ledger_id in range(100, 104):
                await it.delete(ledger_id)
                await asyncio.sleep(FAST.every_ms / 1_000)
                await it.collector.round()
            assert await held_collections.read(it.cluster, BOOKIE) is None

    story()
