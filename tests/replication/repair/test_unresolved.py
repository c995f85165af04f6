"""A bookie without a known place counts as no zone, and no copy goes to it."""

import dataclasses

from tests.replication.repair_lab import Bench, lost_one, played, troubles
from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.formats import cookies
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.replication.repair.repair_metrics import RepairTrouble


async def stands_at(bench: Bench, bookie: BookieId, location: Location | None) -> None:
    stored = await cookie_store.read(bench.cluster, bookie)
    assert stored is not None
    raw = cookies.render(dataclasses.replace(stored.cookie, location=location))
    path = bench.cluster.root.cookie(bookie)
    await bench.cluster.store.put(path, raw, version=stored.version)
    await bench.until(lambda: bench.view.topology.location(bookie) == location)


@played(bookies_in={"a": 2, "b": 2, "c": 2})
async def test_s93_a_bookie_whose_zone_nobody_knows_gets_no_copy_until_it_is_known(
    bench: Bench,
) -> None:
    writer, lost = await lost_one(bench)
    zone = bench.zone(lost)
    (spare,) = [
        machine.id
        for machine in bench.lab.machines.values()
        if machine.id not in writer.ensemble and machine.location.zone == zone
    ]
    for machine in bench.lab.machines.values():
        if machine.id not in writer.ensemble:
            await stands_at(bench, machine.id, None)
    assert troubles(await bench.attempt(writer.ledger_id, lost)) == [RepairTrouble.NO_TARGET]
    assert bench.metrics.all_bytes_moved == 0
    await stands_at(bench, spare, bench.lab.machines[spare].location)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert set(await bench.ensemble(writer.ledger_id)) == {*writer.ensemble, spare} - {lost}
