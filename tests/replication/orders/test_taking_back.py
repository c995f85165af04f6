"""An order is taken back in each of its states: what it made read-only is writable again."""

import asyncio
import dataclasses

import pytest

from tests.replication.orders.ordering import (
    ANNA,
    LEAVING,
    give,
    has_cookie,
    is_claimed,
    is_read_only,
    kept,
    on_leaving,
    standing,
    take_back,
    told,
    until,
    until_emptied,
    until_over,
    until_phase,
)
from tests.replication.repair_lab import Bench, played, rules
from zonekeeper.metadata.bookies import bookie_records, order_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderPhase
from zonekeeper.replication.orders import order_keeper
from zonekeeper.wire.formats import errors

SLOW = RepairRules(bytes_per_second=2_048, respread_bytes_per_second=0)


async def is_as_before(at: Bench) -> None:
    """The bookie takes new data again, and nothing of it was deleted."""
    assert not await is_read_only(at)
    record = await bookie_records.read(at.cluster, LEAVING)
    assert record.draining is None
    assert record.boot_epoch == 1
    assert await has_cookie(at)
    assert await at.claimed() == []


@pytest.mark.parametrize("phase", [OrderPhase.HELD, OrderPhase.COPYING, OrderPhase.STOPPING])
@played(given=rules(repair=SLOW))
async def test_an_order_is_taken_back_in_each_phase_and_nothing_is_deleted(
    bench: Bench, phase: OrderPhase
) -> None:
    writers = await on_leaving(bench, 4)
    if phase is OrderPhase.HELD:
        await bench.hold("b")
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, phase)
        assert await is_read_only(bench)
        before = bench.metrics.all_bytes_moved
        back = await take_back(bench)
        assert back is not None
        assert (await bookie_records.read(bench.cluster, LEAVING)).draining is None
        await until_over(bench)
        await asyncio.sleep(60)
        await is_as_before(bench)
        if phase is not OrderPhase.STOPPING:
            named = [await bench.ledger(one.ledger_id) for one in writers]
            assert any(LEAVING in one.bookies for one in named), "it ended where it was"
            assert bench.metrics.all_bytes_moved <= before + 10_000
        assert (await told(bench))[-1] == ("taken back", "anna")
    for writer in writers:
        assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_an_order_that_no_process_has_begun_with_is_taken_back(bench: Bench) -> None:
    await give(bench, OrderKind.DRAIN)
    await take_back(bench)
    async with kept(bench):
        await until_over(bench)
        await is_as_before(bench)
    assert await take_back(bench) is None


@played()
async def test_a_drained_bookie_is_taken_back_after_days(bench: Bench) -> None:
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        await until_emptied(bench)
        await asyncio.sleep(60)
        assert not await is_claimed(bench)
        await take_back(bench)
        await until_over(bench)
        await is_as_before(bench)


@played()
async def test_a_bookie_that_a_person_made_read_only_before_stays_so(bench: Bench) -> None:
    mark = Mark(at_ms=1, by="carl", reason="its disk is slow")
    await bookie_records.order_read_only(bench.cluster, LEAVING, mark)
    await bench.lab.door(LEAVING).set_read_only(read_only=True)
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        done = await until_emptied(bench)
        assert done.read_only is False
        await take_back(bench)
        await until_over(bench)
        assert await is_read_only(bench)


@played()
async def test_a_bookie_that_a_person_makes_read_only_meanwhile_stays_so(bench: Bench) -> None:
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        done = await until_emptied(bench)
        assert done.read_only is True
        mark = Mark(at_ms=1, by="carl", reason="its disk is slow")
        await bookie_records.order_read_only(bench.cluster, LEAVING, mark)
        await take_back(bench)
        await until_over(bench)
        assert await is_read_only(bench)


@played()
async def test_a_bookie_that_is_away_is_made_writable_when_it_is_back(bench: Bench) -> None:
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_emptied(bench)
        machine = bench.lab.machines[LEAVING]
        await take_back(bench)
        await until_over(bench)
        await is_as_before(bench)
        await give(bench, OrderKind.DRAIN, token="t2")
        await until(bench, lambda one: one is not None and one.read_only is True)
        await until_emptied(bench)
        await machine.crash()
        await take_back(bench)
        await until_phase(bench, OrderPhase.RETURNING)
        await asyncio.sleep(300)
        assert await standing(bench) is not None
        await machine.start()
        await until_over(bench)
        assert not await is_read_only(bench)


@played()
async def test_an_order_to_be_writable_that_fails_is_tried_again(bench: Bench) -> None:
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        await until_emptied(bench)
        door = bench.lab.door(LEAVING)
        works = door.set_read_only

        async def refuse(*, read_only: bool) -> None:
            raise errors.UnauthorizedAccess(f"the test's: {read_only}")

        setattr(door, "set_read_only", refuse)  # noqa: B010 mypy holds methods to be fixed
        await take_back(bench)
        found = await until_phase(bench, OrderPhase.RETURNING)
        assert found.progress is not None
        assert "the test's: False" in found.progress.why
        setattr(door, "set_read_only", works)  # noqa: B010 mypy holds methods to be fixed
        await until_over(bench)
        assert not await is_read_only(bench)


@played()
async def test_an_order_that_is_given_again_while_it_is_taken_back_keeps_what_it_made_read_only(
    bench: Bench,
) -> None:
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        await until_emptied(bench)
    await take_back(bench)
    again = await give(bench, OrderKind.DRAIN, token="t2", check=False)
    assert again.read_only is True
    assert again.taken_back is None
    assert (await bookie_records.read(bench.cluster, LEAVING)).draining is not None
    async with kept(bench):
        await until_emptied(bench)
        await take_back(bench)
        await until_over(bench)
        await is_as_before(bench)


@played()
async def test_the_first_word_that_takes_back_stands(bench: Bench) -> None:
    await give(bench, OrderKind.DRAIN)
    first = await take_back(bench)
    assert await take_back(bench) == first
    assert first is not None
    assert first.taken_back is not None
    assert dataclasses.asdict(first.taken_back)["by"] == "bob"


@played()
async def test_orders_that_wait_for_a_person_keep_no_other_from_being_carried_out(
    bench: Bench,
) -> None:
    """As many wait as a process works on at once; what waits is no work."""
    others = [one.id for one in bench.view.topology if one.id != LEAVING][: order_keeper.AT_ONCE]
    assert len(others) == order_keeper.AT_ONCE
    bygone = BookieOrder(kind=OrderKind.REMOVE, token="t9", given=ANNA, incarnation=1)

    def written(state: OrderState) -> OrderChange:
        return OrderChange(order=bygone, record=order_records.draining(state.record, bygone))

    for bookie in others:
        await order_records.change(bench.cluster, bookie, written)
    async with kept(bench):
        for bookie in others:
            await until_phase(bench, OrderPhase.ANOTHER, bookie)
        await give(bench, OrderKind.DRAIN, check=False)
        await take_back(bench)
        await until_over(bench)
