"""Forgetting a bookie cannot be taken back: it is looked at once more right before it."""

import asyncio

import pytest

from tests.replication.orders.test_decommissioning import LEAVING, Told, on_leaving, order
from tests.replication.repair_lab import Bench, played
from tests.replication.test_claims_in_outages import store_of
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.stores.memory import Passage, RequestKind
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.orders import decommissioning, emptying
from zonekeeper.replication.orders.orders import NotEmptiedError


@played()
async def test_a_bookie_that_is_started_again_while_all_ledgers_are_read_is_not_forgotten(
    bench: Bench,
) -> None:
    await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
    await bench.lose(LEAVING)
    for _ in range(3):
        await bench.written(1)
    started: list[asyncio.Task[None]] = []

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.READ and len(started) == 0 and reads.pop() == 0:
            started.append(bench.tasks.create_task(bench.lab.machines[LEAVING].start()))
        return Passage(back_ms=500)

    reads = list(range(8))
    store_of(bench).weather = weather
    with pytest.raises(RefusedError, match="stop it"):
        await decommissioning.remove(bench.repairer, order(LEAVING, Told()))
    assert started
    assert await cookie_store.read(bench.cluster, LEAVING) is not None
    assert (await bookie_records.read(bench.cluster, LEAVING)).draining


@played()
async def test_a_listing_shows_nothing_that_is_older_than_its_begin(bench: Bench) -> None:
    await bench.lab.cluster()  # whatever was before is seen by all
    store_of(bench).read_lag_ms = 8_000
    async with bench.lab.client("other") as other:
        writer = await other.create()
        while LEAVING not in writer.ensemble:
            writer.halt()
            writer = await other.create()
    assert list(await emptying.naming(bench.cluster, LEAVING)) == [writer.ledger_id]


@played(bookies_in={"a": 2, "b": 1, "c": 2})
async def test_what_keeps_a_bookie_is_named_for_a_few_ledgers_and_counted_for_all(
    bench: Bench,
) -> None:
    await on_leaving(bench, 7)
    told = Told()
    with pytest.raises(NotEmptiedError, match="7 ledgers keep bk-b-0: ") as caught:
        await decommissioning.drain(bench.repairer, order(LEAVING, told))
    assert str(caught.value).count("add bookies where they are few") == 5
    assert sum(told.all[-1].troubles.values()) == 7
