"""What is marked, counted before a repair and after it: marks are listed, and no other ledger."""

import pytest

from tests.client.lab import ROOT
from tests.replication.repair_lab import Bench, played
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.pipeline.jobs import marked_ledgers
from zonekeeper.pipeline.planning import repair_holds
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.reports.repair_preflight import RepairPreflight
from zonekeeper.placement.base.ids import BookieId, LedgerId

ALL = IdRange(LedgerId(0), LedgerId(2**63 - 1))
ZONE_C = [BookieId(f"bk-c-{ordinal}") for ordinal in range(3)]


async def measured(at: Bench, wanted: IdRange = ALL) -> RepairPreflight:
    holds = repair_holds.now(at.view)
    return await marked_ledgers.measure(at.client, at.view, holds, wanted, 0, lambda _: None)


async def lost_in_c(at: Bench, count: int) -> list[LedgerId]:
    written = [await at.written(5) for _ in range(count)]
    await at.lose(*ZONE_C)
    for one in written:
        await at.mark(one.ledger_id, *(set(ZONE_C) & set(one.ensemble)))
    return [one.ledger_id for one in written]


@played()
async def test_only_marked_ledgers_count_each_with_what_it_has_lost(at: Bench) -> None:
    unmarked = await at.written(5)
    ids = await lost_in_c(at, 3)
    found = await measured(at)
    assert (found.marked, found.held, found.doubted, found.spread) == (3, 0, 0, 0)
    sizes = [(await at.ledger(one)).length for one in ids]
    assert found.counted.work.bytes == sum(sizes)
    assert found.counted.work.ledgers == 3
    assert 0 < found.counted.work.crossing_bytes < 2 * sum(sizes)
    assert unmarked.ledger_id not in ids
    one = await measured(at, IdRange(ids[1], ids[1]))
    assert (one.marked, one.counted.work.bytes) == (1, sizes[1])


@played()
async def test_a_loss_that_no_mark_names_is_told(at: Bench) -> None:
    await at.lose(*ZONE_C)
    found = await measured(at)
    assert found.unmarked == tuple(ZONE_C)
    assert found.marked == 0


@played()
async def test_what_is_held_is_not_copied_unless_all_is_refused(at: Bench) -> None:
    ids = await lost_in_c(at, 2)
    other = await at.written(5)
    elsewhere = next(one for one in other.ensemble if at.zone(one) == "b")
    await at.lose(elsewhere)
    await at.mark(other.ledger_id, elsewhere)
    await at.hold("b")
    found = await measured(at)
    assert (found.marked, found.held, found.counted.work.ledgers) == (3, 1, 2)
    assert set(found.holds) == {elsewhere}
    assert found.counted.bookies
    assert set(found.counted.bookies) <= set(ZONE_C), "its copies are not among those to be made"
    await at.hold("c")
    refused = await measured(at)
    assert (refused.marked, refused.held) == (3, 3)
    assert refused.counted.work.ledgers == len(ids) + 1, "what a release would let through"
    assert elsewhere in refused.counted.bookies
    assert set(refused.holds) == {*ZONE_C, elsewhere}


@played()
async def test_doubts_wishes_and_what_cannot_be_read_are_counted_apart(at: Bench) -> None:
    one, other = await at.written(5), await at.written(5)
    await at.mark(one.ledger_id, one.ensemble[0])
    await at.mark(other.ledger_id)
    damaged = LedgerId(other.ledger_id + 1)
    path = ledgers.path(at.cluster, damaged)
    await at.cluster.store.create(path, b"garbage", make_parents=True)
    await at.mark(damaged, one.ensemble[0])
    await at.mark(LedgerId(10**9), one.ensemble[0])
    found = await measured(at)
    assert (found.marked, found.doubted, found.spread) == (2, 2, 1)
    assert found.counted.work.unreadable == 1
    assert found.counted.work.bytes == 0


@played()
async def test_the_list_has_a_limit_and_begins_with_the_lowest(at: Bench) -> None:
    ids = [LedgerId(one) for one in (3, 7, 9, 2**40)]
    for one in ids:
        await at.mark(one, ZONE_C[0])
    assert list(await marked_ledgers.listed(at.cluster, ALL)) == ids
    assert list(await marked_ledgers.listed(at.cluster, ALL, most=2)) == ids[:2]
    within = IdRange(LedgerId(4), LedgerId(9))
    assert list(await marked_ledgers.listed(at.cluster, within)) == [7, 9]


@played()
async def test_at_the_end_marks_for_a_better_spread_do_not_count(at: Bench) -> None:
    assert await marked_ledgers.left(at.cluster, ALL) == 0
    await at.mark(LedgerId(3))
    assert await marked_ledgers.left(at.cluster, ALL) == 0
    for one in (4, 5, 6):
        await at.mark(LedgerId(one), ZONE_C[0])
    assert await marked_ledgers.left(at.cluster, ALL) == 3
    assert await marked_ledgers.left(at.cluster, ALL, most=2) == 2
    assert await marked_ledgers.left(at.cluster, IdRange(LedgerId(5), LedgerId(9))) == 2


@played()
async def test_a_listing_goes_on_behind_the_last_mark_when_the_store_is_back(
    at: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [LedgerId(one << 20) for one in range(5)]
    for one in ids:
        await at.mark(one, ZONE_C[0])
    children, asked = at.cluster.store.children, 0

    async def sometimes(path: str, *, sync: bool = False) -> tuple[str, ...] | None:
        nonlocal asked
        asked += 1
        if asked in (4, 11, 12):
            raise StoreUnavailableError("away", store=ROOT)
        return await children(path, sync=sync)

    monkeypatch.setattr(at.cluster.store, "children", sometimes)
    assert list(await marked_ledgers.listed(at.cluster, ALL)) == ids
    assert asked > 12
