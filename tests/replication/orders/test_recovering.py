"""All that a lost bookie held is made anew by an order."""

import asyncio
import dataclasses

import pytest

from tests.replication.orders.ordering import (
    LEAVING,
    give,
    has_cookie,
    is_left,
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
from tests.replication.repair_lab import Bench, played
from zonekeeper.metadata.bookies import bookie_records, cookie_store, order_records
from zonekeeper.metadata.bookies.order_records import OrderChange
from zonekeeper.placement.zones.bookie_orders import OrderKind, OrderPhase
from zonekeeper.placement.zones.gate import RefusedError


@played()
async def test_a_lost_bookies_ledgers_are_repaired_and_it_is_written_off(bench: Bench) -> None:
    writers = await on_leaving(bench, 3)
    await bench.lose(LEAVING)
    await give(bench, OrderKind.RECOVER)
    assert (await bookie_records.read(bench.cluster, LEAVING)).draining is None
    async with kept(bench):
        await until_over(bench)
        await is_left(bench, writers)
        record = await bookie_records.read(bench.cluster, LEAVING)
        assert record.written_off is not None
        assert (record.written_off.by, record.written_off.reason) == ("anna", "a smaller zone")
        assert await has_cookie(bench)
        await bench.until(lambda: LEAVING in bench.view.written_off)
        assert await told(bench) == [("recovering", "anna"), ("recovered", "anna")]
        await give(bench, OrderKind.REMOVE, token="t9")
        await until_over(bench)
        assert not await has_cookie(bench)


@played()
async def test_an_open_ledger_is_fenced_after_its_grace_and_recovered_too(bench: Bench) -> None:
    (writer,) = await on_leaving(bench, 1, closed=False)
    await bench.lose(LEAVING)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await give(bench, OrderKind.RECOVER)
    async with kept(bench):
        await until_over(bench)
    assert loop.time() - began_s >= 30
    assert (await bench.ledger(writer.ledger_id)).is_closed
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_bookie_that_is_up_is_refused(bench: Bench) -> None:
    with pytest.raises(RefusedError, match="bk-b-0 is registered, so it is not lost"):
        await give(bench, OrderKind.RECOVER)


@played()
async def test_a_bookie_without_a_cookie_whose_ledgers_still_name_it_can_be_recovered(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 2)
    await bench.lose(LEAVING)
    stored = await cookie_store.read(bench.cluster, LEAVING)
    assert stored is not None
    await cookie_store.delete(bench.cluster, LEAVING, version=stored.version)
    await bench.until(lambda: LEAVING not in bench.view.topology)
    order = await give(bench, OrderKind.RECOVER)
    assert order.incarnation is None
    async with kept(bench):
        await until_over(bench)
    await is_left(bench, writers)
    assert (await bookie_records.read(bench.cluster, LEAVING)).written_off is None


@played()
async def test_a_bookie_that_comes_back_ends_the_order_and_is_not_written_off(bench: Bench) -> None:
    await on_leaving(bench, 2)
    await bench.lose(LEAVING)
    await bench.hold("b")
    await give(bench, OrderKind.RECOVER)
    async with kept(bench):
        await until_phase(bench, OrderPhase.HELD)
        await bench.bring_back(LEAVING)
        await bench.open("b")
        await until_over(bench)
        assert (await bookie_records.read(bench.cluster, LEAVING)).written_off is None
        assert ("recovery ended", "anna") in await told(bench)


@played()
async def test_a_held_zone_is_waited_for(bench: Bench) -> None:
    await on_leaving(bench, 2)
    await bench.lose(LEAVING)
    await bench.hold("b")
    await give(bench, OrderKind.RECOVER)
    async with kept(bench):
        found = await until_phase(bench, OrderPhase.HELD)
        await asyncio.sleep(60)
        assert found.progress is not None
        assert "zone b is held" in found.progress.why
        assert bench.metrics.all_bytes_moved == 0
        await bench.open("b")
        await until_over(bench)


@played()
async def test_nothing_is_written_off_by_a_listing_of_another_process(bench: Bench) -> None:
    """The bookie may have come, got ledgers and gone where no process worked on the order."""
    writers = await on_leaving(bench, 2)
    await bench.lose(LEAVING)
    order = await give(bench, OrderKind.RECOVER)
    emptied = dataclasses.replace(order, emptied_ms=3)
    await order_records.change(
        bench.cluster, LEAVING, lambda state: OrderChange(order=emptied, record=state.record)
    )
    async with kept(bench):
        await until_over(bench)
        await is_left(bench, writers)
        assert (await bookie_records.read(bench.cluster, LEAVING)).written_off is not None


async def drained_and_lost(bench: Bench) -> None:
    """A bookie that an order has made read-only is lost, and a person has it recovered."""
    await on_leaving(bench, 2)
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        await until_emptied(bench)
    assert await is_read_only(bench)
    await bench.lose(LEAVING)
    await give(bench, OrderKind.RECOVER, token="t1")


@played()
async def test_a_draining_bookie_that_is_recovered_drains_on_and_can_be_taken_back(
    bench: Bench,
) -> None:
    await drained_and_lost(bench)
    async with kept(bench):
        found = await until(bench, lambda one: one is not None and one.kind is OrderKind.DRAIN)
        assert found is not None
        assert found.read_only, "it is away: nobody could have asked it"
        assert (await bookie_records.read(bench.cluster, LEAVING)).written_off is not None
        await bench.bring_back(LEAVING)
        await until_emptied(bench)
        await take_back(bench)
        await until_over(bench)
    assert not await is_read_only(bench)


@played()
async def test_a_draining_bookie_that_comes_back_before_it_is_recovered_drains_on(
    bench: Bench,
) -> None:
    await drained_and_lost(bench)
    await bench.bring_back(LEAVING)
    async with kept(bench):
        await until(bench, lambda one: one is not None and one.kind is OrderKind.DRAIN)
        assert (await bookie_records.read(bench.cluster, LEAVING)).written_off is None
        await until_emptied(bench)
        await take_back(bench)
        await until_over(bench)
    assert not await is_read_only(bench)


@played()
async def test_a_recovery_that_is_taken_back_ends_the_draining_before_it_too(bench: Bench) -> None:
    await drained_and_lost(bench)
    await take_back(bench)
    await bench.bring_back(LEAVING)
    async with kept(bench):
        await until_over(bench)
        await asyncio.sleep(60)
        assert await standing(bench) is None
        assert (await bookie_records.read(bench.cluster, LEAVING)).draining is None
    assert not await is_read_only(bench)
