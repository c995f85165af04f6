"""All that a lost bookie held is made anew by a person's order."""

import asyncio

import pytest

from tests.replication.orders.test_decommissioning import LEAVING, Told, on_leaving, order
from tests.replication.repair_lab import Bench, played
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import timeline
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.orders import decommissioning, recovering
from zonekeeper.replication.orders.orders import Phase


@played()
async def test_a_lost_bookies_ledgers_are_repaired_and_it_is_written_off(bench: Bench) -> None:
    writers, told = await on_leaving(bench, 3), Told()
    await bench.lose(LEAVING)
    await recovering.recover(bench.repairer, order(LEAVING, told))
    for writer in writers:
        assert await bench.lacks(writer.ledger_id) == []
        assert LEAVING not in (await bench.ledger(writer.ledger_id)).bookies
    record = await bookie_records.read(bench.cluster, LEAVING)
    assert record.written_off is not None
    assert (record.written_off.by, record.written_off.at_ms) == ("anna", 7)
    assert await cookie_store.read(bench.cluster, LEAVING) is not None
    assert told.phases[-1] is Phase.DONE
    assert [event.kind for event in await timeline.newest(bench.cluster)] == ["recovered"]
    await decommissioning.remove(bench.repairer, order(LEAVING, told))
    assert await cookie_store.read(bench.cluster, LEAVING) is None


@played()
async def test_an_open_ledger_is_fenced_after_its_grace_and_recovered_too(bench: Bench) -> None:
    (writer,) = await on_leaving(bench, 1, closed=False)
    await bench.lose(LEAVING)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await recovering.recover(bench.repairer, order(LEAVING, Told()))
    assert loop.time() - began_s >= 30
    assert (await bench.ledger(writer.ledger_id)).is_closed
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_bookie_that_is_up_or_that_nobody_knows_is_refused(bench: Bench) -> None:
    with pytest.raises(RefusedError, match="bk-b-0 is registered, so it is not lost"):
        await recovering.recover(bench.repairer, order(LEAVING, Told()))
    with pytest.raises(RefusedError, match="there is no bookie bk-z-9"):
        await recovering.recover(bench.repairer, order(BookieId("bk-z-9"), Told()))


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
    await recovering.recover(bench.repairer, order(LEAVING, Told()))
    for writer in writers:
        assert await bench.lacks(writer.ledger_id) == []
    assert (await bookie_records.read(bench.cluster, LEAVING)).written_off is None


@played()
async def test_a_bookie_that_comes_back_ends_the_order_and_is_not_written_off(bench: Bench) -> None:
    await on_leaving(bench, 2)
    await bench.lose(LEAVING)
    await bench.hold("b")

    async def refused() -> str:
        with pytest.raises(RefusedError) as error:
            await recovering.recover(bench.repairer, order(LEAVING, Told()))
        return str(error.value)

    recover = bench.tasks.create_task(refused())
    await asyncio.sleep(5)
    await bench.bring_back(LEAVING)
    assert "registered again" in await recover
    assert (await bookie_records.read(bench.cluster, LEAVING)).written_off is None
    assert bench.metrics.all_bytes_moved == 0


@played()
async def test_a_held_zone_is_waited_for(bench: Bench) -> None:
    await on_leaving(bench, 2)
    await bench.lose(LEAVING)
    await bench.hold("b")
    told = Told()
    recover = bench.tasks.create_task(recovering.recover(bench.repairer, order(LEAVING, told)))
    await asyncio.sleep(60)
    assert told.phases[-1] is Phase.HELD
    held = told.all[-1].held
    assert held is not None
    assert "zone b is held" in held.text
    await bench.open("b")
    await recover
