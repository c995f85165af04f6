"""Nothing is collected without positive proof (S80), and what is proven to be deleted is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, frame, opening, read_ids
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.serving import collecting
from zonekeeper.bookie.serving.collecting import Collecting, Collector
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.bookies.held_collections import Permit
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import Evidence, EvidenceKind
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledger_ids, ledger_listing, ledgers, set_back
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.saving import exporting, importing
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
BOOKIE = BookieId("bk-a-0")
FAST = Collecting(every_ms=60_000, proofs_per_second=1_000_000)
AT_ONCE = Collecting(every_ms=0, proofs_per_second=1_000_000)
DELETER = Deleter(by="test", at_ms=1)
NEW = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (BookieId("bk-a-0"),)),),
    digest=Digest.CRC32C,
    password=b"secret",
    create_token=9,
)


@dataclass
class World:
    """A bookie's storage, and the metadata of its ledgers."""

    files: MemoryFileSystem
    index: MemoryOrdered
    place: MemoryPlace
    store: MemoryStore
    cluster: Cluster
    kept: Storage
    driver: Driver
    collector: Collector

    async def create(self, *ledger_ids: int, entries: int = 4) -> None:
        for ledger_id in ledger_ids:
            await ledgers.create(self.cluster, NEW, ledger_id=LedgerId(ledger_id))
            await self.write(ledger_id, entries)

    async def write(self, ledger_id: int, entries: int) -> None:
        await self.driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
        for first in range(0, entries, 2):
            await self.driver.append(frame(ledger_id, [first, first + 1]))

    async def delete(self, *ledger_ids: int) -> None:
        for ledger_id in ledger_ids:
            await ledgers.delete(self.cluster, LedgerId(ledger_id), DELETER)

    async def collected(self) -> int:
        """Do what is done in two rounds with an interval between them; give what is forgotten."""
        return await collected_by(self.collector)

    def known(self) -> list[int]:
        return [int(ledger_id) for ledger_id in self.kept.known_ledgers()]


async def collected_by(collector: Collector) -> int:
    first = await collector.round()
    await asyncio.sleep(FAST.every_ms / 1_000)
    return first + await collector.round()


def collector_of(
    cluster: Cluster,
    kept: Storage,
    settings: Collecting = FAST,
    files: MemoryFileSystem | None = None,
) -> Collector:
    """Give a collector with a witness of its own, which keeps nothing from before."""
    witness = Witness(cluster, BOOKIE, files or MemoryFileSystem(), InlineDisk(), wall_ms=lambda: 1)
    return Collector(cluster, BOOKIE, kept, witness, settings, wall_ms=lambda: 1)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    files, index, place = keeping.fresh(), MemoryOrdered(), MemoryPlace()
    store = await place.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    try:
        async with keeping.running(files, index) as kept:
            yield World(
                files=files,
                index=index,
                place=place,
                store=store,
                cluster=cluster,
                kept=kept,
                driver=Driver(kept),
                collector=collector_of(cluster, kept),
            )
    finally:
        await place.close()


@virtual_time.played
async def test_a_deleted_ledger_is_forgotten_with_its_extents_and_its_space() -> None:
    async with world() as it:
        await it.create(1, 2, 3, entries=40)
        await it.delete(2)
        assert await it.collected() == 1
        assert it.known() == [1, 3]
        assert all(row.ledger_id != 2 for row in Index(it.index).rows())
        before = sum(segment.live_bytes for segment in it.kept.segments)
        assert await it.kept.compact(major=True) > 0
        assert sum(segment.size_bytes for segment in it.kept.segments) == before
        assert await read_ids(it.kept, 1) == await read_ids(it.kept, 3) == set(range(40))
        files, index = it.files, it.index
    async with keeping.running(files, index) as again:
        assert again.known_ledgers() == [1, 3]
        assert await read_ids(again, 1) == set(range(40))


@virtual_time.played
async def test_what_is_not_deleted_is_kept() -> None:
    async with world() as it:
        await it.create(0, 1, 7, 1 << 40)
        assert await it.collected() == 0
        assert it.known() == [0, 1, 7, 1 << 40]


async def short_listing(cluster: Cluster) -> AsyncIterator[LedgerId]:
    """What a follower that is behind may show, or a listing that was cut short."""
    del cluster
    nothing: tuple[LedgerId, ...] = ()
    for ledger_id in nothing:
        yield ledger_id


async def collected_after_a_short_listing(patch: pytest.MonkeyPatch) -> int:
    patch.setattr(ledger_listing, "ids", short_listing)
    async with world() as it:
        await it.create(1)
        count = await it.collected()
        assert it.collector.counters.unproven == 2 * (1 - count)
        return count


@virtual_time.played
async def test_a_listing_alone_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await collected_after_a_short_listing(monkeypatch) == 0


@virtual_time.played
async def test_a_collector_that_trusts_one_listing_would_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def trusting(cluster: Cluster, ledger_id: LedgerId) -> bool:
        del cluster, ledger_id
        return True

    monkeypatch.setattr(ledgers, "proven_deleted", trusting)
    assert await collected_after_a_short_listing(monkeypatch) == 1


@virtual_time.played
async def test_a_ledger_that_came_after_the_listing_began_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as it:
        await it.create(1)
        listing = ledger_listing.ids

        async def slow(cluster: Cluster) -> AsyncIterator[LedgerId]:
            async for ledger_id in listing(cluster):
                await it.write(2, 2)
                yield ledger_id

        monkeypatch.setattr(ledger_listing, "ids", slow)
        assert await it.collected() == 0
        assert it.known() == [1, 2]
        monkeypatch.undo()
        # It was never created, so the next round may delete it.
        assert await it.collected() == 1


@virtual_time.played
async def test_nothing_is_collected_after_an_old_export_is_imported() -> None:
    async with world() as it:
        await it.create(1)
        export = [line async for line in exporting.lines(it.cluster)]
        await it.create(2, 3)
        place = MemoryPlace()
        store = await place.open()
        await importing.run(store, lambda: export, now_ms=1)
        imported = await clusters.open_cluster(store)
        collector = collector_of(imported, it.kept)
        assert await collected_by(collector) == 0
        assert it.known() == [1, 2, 3]
        assert collector.counters.rounds_held == 2
        # A person says that what is missing is not wanted any more.
        mark = await restored.read(imported)
        assert mark is not None
        await restored.clear(imported, mark)
        assert await collected_by(collector) == 2
        assert it.known() == [1]
        await place.close()


@virtual_time.played
async def test_a_restore_during_a_round_is_seen_before_the_next_ledger_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as it:
        await it.create(1, 2)
        await it.delete(1, 2)
        forget = it.kept.forget

        async def and_restore(ledger_ids: list[LedgerId]) -> None:
            await forget(ledger_ids)
            mark = restored.render(Restored(at_ms=1, high=1, export="x"), INSTANCE)
            await it.store.create(it.cluster.root.beside("restored"), mark, make_parents=True)

        monkeypatch.setattr(it.kept, "forget", and_restore)
        assert await it.collected() == 1
        assert it.known() == [2]


@virtual_time.played
async def test_metadata_that_cannot_be_read_is_no_proof() -> None:
    async with world() as it:
        await it.create(1)
        await it.delete(1)
        hasty = await it.place.open(Timeouts(session_ms=20_000, request_ms=50))
        assert isinstance(hasty, MemoryStore)
        collector = collector_of(await clusters.open_cluster(hasty), it.kept)
        hasty.cut()
        assert await collected_by(collector) == 0
        assert collector.counters.rounds_failed == 2
        hasty.mend()
        assert it.known() == [1]
        assert await it.collected() == 1


@virtual_time.played
async def test_another_cluster_under_the_same_root_proves_nothing() -> None:
    async with world() as it:
        await it.create(1)
        await it.delete(1)
        foreign = replace(it.cluster, instance="0" * 36)
        assert await collected_by(collector_of(foreign, it.kept)) == 0
        assert it.known() == [1]


async def test_who_writes_to_a_ledger_that_is_forgotten_begins_a_new_one() -> None:
    async with world() as it:
        await it.create(1, entries=20)
        await it.delete(1)
        collector = collector_of(it.cluster, it.kept, AT_ONCE)
        await collector.round()
        collecting_it = asyncio.ensure_future(collector.round())
        while not it.kept.memory.has_forgotten and not collecting_it.done():
            await it.driver.append(frame(1, [100]))
        await collecting_it
        await it.write(1, 2)
        await it.driver.append(frame(1, [7, 8]))
        assert {0, 1, 7, 8} <= await read_ids(it.kept, 1) <= {0, 1, 7, 8, 100}
        await it.create(5, entries=40)
        await it.kept.compact(major=True)
        assert {0, 1, 7, 8} <= await read_ids(it.kept, 1) <= {0, 1, 7, 8, 100}
        files = it.files
    # The rows of the old one stand in tables still, and do not come back with the index.
    async with keeping.running(files, MemoryOrdered()) as again:
        assert {0, 1, 7, 8} <= await read_ids(again, 1) <= {0, 1, 7, 8, 100}


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
async def test_candidates_are_what_is_known_and_not_listed(
    known: set[int], listed: set[int]
) -> None:
    async def listing() -> AsyncIterator[LedgerId]:
        for number in sorted(listed):
            yield LedgerId(number)

    found = await collecting.candidates(map(LedgerId, sorted(known)), listing())
    assert found == sorted(known - listed)


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
        proofs = (Evidence(bookie=BOOKIE, kind=EvidenceKind.IDS, known=9, found=1),)
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
def test_many_ledgers_without_a_record_wait_for_a_person() -> None:
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
