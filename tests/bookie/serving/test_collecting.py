"""Nothing is collected without positive proof (S80), and what is proven to be deleted is."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import frame, read_ids
from tests.bookie.serving.collecting_world import (
    AT_ONCE,
    INSTANCE,
    collected_by,
    collector_of,
    world,
)
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.serving import collecting
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.ledgers import ledger_listing, ledgers
from zonekeeper.metadata.saving import exporting, importing
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import LedgerId


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
async def test_a_deleted_ledger_that_was_opened_and_never_written_is_forgotten() -> None:
    """A log's next ledger is opened before its record has it, and dropped if it never does."""
    async with world() as it:
        await it.create(1, 2, entries=0)
        assert it.known() == [1, 2]
        await it.delete(2)
        assert await it.collected() == 1
        assert it.known() == [1]
        files, index = it.files, it.index
    async with keeping.running(files, index) as again:
        assert again.known_ledgers() == [1]


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
