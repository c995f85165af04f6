"""Forgetting a bookie cannot be taken back: it is looked at once more right before it."""

import asyncio
import dataclasses

import pytest

from tests.replication.orders.ordering import (
    LEAVING,
    give,
    has_cookie,
    is_claimed,
    is_left,
    kept,
    on_leaving,
    phase_of,
    standing,
    take_back,
    told,
    until_emptied,
    until_over,
    until_phase,
)
from tests.replication.repair_lab import Bench, played
from tests.replication.test_claims_in_outages import store_of
from zonekeeper.metadata.bookies import bookie_records, cookie_store, order_records
from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.metadata.bookies.order_records import OrderChange
from zonekeeper.metadata.cluster import record_store, restored
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.store import Create
from zonekeeper.metadata.stores.memory import Passage, RequestKind, calm
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId
from zonekeeper.placement.zones.bookie_orders import OrderKind, OrderPhase
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.orders import emptying


@played()
async def test_a_bookie_is_emptied_stopped_and_forgotten(bench: Bench) -> None:
    writers = await on_leaving(bench, 3)
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        emptied = await until_phase(bench, OrderPhase.STOPPING)
        assert emptied.emptied_ms is not None
        await is_left(bench, writers)
        await asyncio.sleep(120)
        assert await has_cookie(bench), "it is waited for until it is stopped"
        await bench.lab.machines[LEAVING].crash()
        await until_over(bench)
        assert not await has_cookie(bench)
        state = await order_records.read_state(bench.cluster, LEAVING)
        assert state.record is None
        assert await bench.cluster.store.get(f"/ledgers.zonekeeper/looks/{LEAVING}") is None
        await asyncio.sleep(10)
        assert not await is_claimed(bench)
    kinds = [("draining", "anna"), ("drained", "anna"), ("removed", "anna")]
    assert await told(bench) == kinds


@played()
async def test_a_bookie_that_dies_while_it_is_removed_is_recovered_and_forgotten(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 4)
    await bench.hold("b")
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, OrderPhase.HELD)
        await bench.miss(LEAVING)
        await bench.open("b")
        await until_over(bench)
        await is_left(bench, writers)
        assert not await has_cookie(bench)
        assert {cause for _, _, cause in bench.moved()} == {"lost"}


@played()
async def test_a_bookie_that_is_started_again_while_all_ledgers_are_read_is_not_forgotten(
    bench: Bench,
) -> None:
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, OrderPhase.STOPPING)
        for _ in range(3):
            await bench.written(1)
        started: list[asyncio.Task[None]] = []

        def weather(kind: RequestKind) -> Passage:
            if kind is RequestKind.READ and not started and bench.view.missing:
                reads.pop()
                if not reads:
                    started.append(bench.tasks.create_task(bench.lab.machines[LEAVING].start()))
            return Passage(back_ms=500)

        reads = list(range(12))
        await bench.lab.machines[LEAVING].crash()
        store_of(bench).weather = weather
        await bench.until(lambda: bool(started))
        await asyncio.sleep(60)
        store_of(bench).weather = calm
        found = await until_phase(bench, OrderPhase.STOPPING)
        assert found.emptied_ms is not None
        assert await has_cookie(bench)
        assert (await bookie_records.read(bench.cluster, LEAVING)).draining


@pytest.mark.parametrize("comes_and_goes", [False, True])
@played()
async def test_a_bookie_that_ran_since_the_listing_began_is_looked_at_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, comes_and_goes: bool
) -> None:
    """It may have come and gone: then only its record shows that it had begun to serve."""
    await give(bench, OrderKind.REMOVE)
    other = await bench.lab.cluster()
    listings = 0
    naming = emptying.naming

    async def listed(cluster: object, bookie: BookieId) -> emptying.NamingLedgers:
        nonlocal listings
        found = await naming(bench.cluster, bookie)
        listings += 1
        if comes_and_goes and listings == 1:
            await bookie_records.count_boot(other, LEAVING, 77)
        return found

    async with kept(bench):
        await until_phase(bench, OrderPhase.STOPPING)
        monkeypatch.setattr(emptying, "naming", listed)
        await bench.lab.machines[LEAVING].crash()
        await until_over(bench)
    assert listings == (2 if comes_and_goes else 1)
    assert not await has_cookie(bench)


@played()
async def test_a_bookie_that_a_ledger_names_again_is_emptied_again(bench: Bench) -> None:
    (writer,) = await on_leaving(bench, 1)
    before = await bench.ledger(writer.ledger_id)
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, OrderPhase.STOPPING)
        late = dataclasses.replace(before, last_entry=NO_ENTRY, length=0, create_token=11)
        stored = await ledgers.create(bench.cluster, late)
        await bench.lab.machines[LEAVING].crash()
        await until_over(bench)
    assert LEAVING not in (await bench.ledger(stored.id)).bookies
    assert not await has_cookie(bench)


@played()
async def test_nothing_is_forgotten_while_the_root_is_restored(bench: Bench) -> None:
    await give(bench, OrderKind.REMOVE)
    raw = restored.render(Restored(at_ms=1, high=1, export="x"), bench.cluster.instance)
    path = bench.cluster.root.beside("restored")
    async with kept(bench):
        await until_phase(bench, OrderPhase.STOPPING)
        await bench.cluster.store.commit([Create(path=path, value=raw)])
        await bench.lab.machines[LEAVING].crash()
        await until_phase(bench, OrderPhase.RESTORED)
        await asyncio.sleep(300)
        assert await has_cookie(bench)
        await bench.cluster.store.delete(path, version=0)
        await until_over(bench)
        assert not await has_cookie(bench)


@played()
async def test_a_mark_of_a_restored_root_that_comes_during_the_listing_is_seen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await give(bench, OrderKind.REMOVE)
    raw = restored.render(Restored(at_ms=1, high=1, export="x"), bench.cluster.instance)
    path = bench.cluster.root.beside("restored")
    naming = emptying.naming

    async def listed(cluster: object, bookie: BookieId) -> emptying.NamingLedgers:
        if not await bench.cluster.store.exists(path):
            await bench.cluster.store.commit([Create(path=path, value=raw)])
        return await naming(bench.cluster, bookie)

    async with kept(bench):
        await until_phase(bench, OrderPhase.STOPPING)
        monkeypatch.setattr(emptying, "naming", listed)
        await bench.lab.machines[LEAVING].crash()
        await until_phase(bench, OrderPhase.RESTORED)
        assert await has_cookie(bench)


@played()
async def test_an_order_in_a_restored_root_is_about_another_incarnation_and_waits(
    bench: Bench,
) -> None:
    """An import makes cookies anew, with all marks and orders: the order is to be given again."""
    writers = await on_leaving(bench, 1)
    await give(bench, OrderKind.REMOVE)
    stored = await cookie_store.read(bench.cluster, LEAVING)
    assert stored is not None
    await cookie_store.delete(bench.cluster, LEAVING, version=stored.version)
    await cookie_store.create(bench.cluster, stored.cookie)
    async with kept(bench):
        await until_phase(bench, OrderPhase.ANOTHER)
        await asyncio.sleep(60)
        assert bench.metrics.all_bytes_moved == 0
        await give(bench, OrderKind.REMOVE, token="t9")
        await until_phase(bench, OrderPhase.STOPPING)
    await is_left(bench, writers)


@played()
async def test_an_order_in_a_restored_root_is_taken_back_with_its_mark(bench: Bench) -> None:
    await on_leaving(bench, 1)
    await give(bench, OrderKind.REMOVE)
    stored = await cookie_store.read(bench.cluster, LEAVING)
    assert stored is not None
    await cookie_store.delete(bench.cluster, LEAVING, version=stored.version)
    await cookie_store.create(bench.cluster, stored.cookie)
    await take_back(bench)
    async with kept(bench):
        await until_over(bench)
        await asyncio.sleep(60)
        assert await standing(bench) is None, "no order is given for a mark that is gone"
        assert (await bookie_records.read(bench.cluster, LEAVING)).draining is None
        assert bench.metrics.all_bytes_moved == 0


@played()
async def test_an_order_that_a_bygone_bookie_left_never_meets_the_new_one_of_its_name(
    bench: Bench,
) -> None:
    """The bookie was forgotten by another tool, and its id is used again."""
    await on_leaving(bench, 1)
    await give(bench, OrderKind.REMOVE)
    stored = await cookie_store.read(bench.cluster, LEAVING)
    assert stored is not None
    await cookie_store.delete(bench.cluster, LEAVING, version=stored.version)
    await bookie_records.forget(bench.cluster, LEAVING)
    await cookie_store.create(bench.cluster, stored.cookie)
    async with kept(bench):
        await until_over(bench)
        await asyncio.sleep(60)
        assert bench.metrics.all_bytes_moved == 0
        assert await has_cookie(bench)
        assert (await bookie_records.read(bench.cluster, LEAVING)) == BookieRecord()


@played()
async def test_a_bookie_that_was_forgotten_by_another_tool_ends_the_order(bench: Bench) -> None:
    await on_leaving(bench, 1)
    await bench.hold("b")
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, OrderPhase.HELD)
        stored = await cookie_store.read(bench.cluster, LEAVING)
        assert stored is not None
        await bench.lab.machines[LEAVING].crash()
        await cookie_store.delete(bench.cluster, LEAVING, version=stored.version)
        await bench.open("b")
        await until_over(bench)
        with pytest.raises(RefusedError, match=r"there is no bookie|has no cookie"):
            await give(bench, OrderKind.REMOVE, token="t9")


@played()
async def test_a_listing_shows_nothing_that_is_older_than_its_begin(bench: Bench) -> None:
    await bench.lab.cluster()  # whatever was before is seen by all
    store_of(bench).read_lag_ms = 8_000
    async with bench.lab.client("other") as other:
        writer = await other.create()
        while LEAVING not in writer.ensemble:
            writer.halt()
            writer = await other.create()
    assert list((await emptying.naming(bench.cluster, LEAVING)).ids) == [writer.ledger_id]


@played()
async def test_a_bookie_whose_record_vanished_is_not_forgotten_without_its_mark(
    bench: Bench,
) -> None:
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, OrderPhase.STOPPING)
        path = bookie_records.path(bench.cluster, LEAVING)
        await record_store.change(bench.cluster, path, bookie_records.CODEC, lambda _: None)
        await bench.lab.machines[LEAVING].crash()
        await until_phase(bench, OrderPhase.RETURNING)
        assert await has_cookie(bench)


@played()
async def test_a_removal_after_a_drain_goes_on_where_that_was(bench: Bench) -> None:
    writers = await on_leaving(bench, 2)
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        drained = await until_emptied(bench)
        moved = bench.metrics.all_bytes_moved
        raised = await give(bench, OrderKind.REMOVE, token="t9")
        assert (raised.emptied_ms, raised.read_only) == (drained.emptied_ms, True)
        await bench.lab.machines[LEAVING].crash()
        await until_over(bench)
        assert bench.metrics.all_bytes_moved == moved
    await is_left(bench, writers)


@played()
async def test_a_change_that_is_not_the_orders_own_does_not_begin_the_work_anew(
    bench: Bench,
) -> None:
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, OrderPhase.STOPPING)
        before = await standing(bench)
        await order_records.change(
            bench.cluster,
            LEAVING,
            lambda state: OrderChange(
                order=state.order and dataclasses.replace(state.order, unknown='{"x": 1}'),
                record=state.record,
            ),
        )
        await asyncio.sleep(60)
        after = await standing(bench)
        assert before is not None
        assert after is not None
        assert after.emptied_ms == before.emptied_ms
        assert phase_of(after) is OrderPhase.STOPPING
