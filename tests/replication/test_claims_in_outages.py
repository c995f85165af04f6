"""What becomes of a claim when the store is away at the moment at which it should be given back."""

import asyncio
from contextlib import suppress

from tests.replication.repair.test_replicator import replicating
from tests.replication.repair.test_respreading import written_without_zone_b
from tests.replication.repair_lab import Bench, played, rules
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.policy.rules import RepairRules

#: Longer than a request waits for its answer, and shorter than a session.
OUTAGE_S = 7
SLOW = RepairRules(bytes_per_second=1 << 20, respread_bytes_per_second=1 << 20)


def store_of(bench: Bench) -> MemoryStore:
    store = bench.cluster.store
    assert isinstance(store, MemoryStore)
    return store


@played(given=rules(repair=SLOW))
async def test_a_claim_that_an_outage_left_behind_does_not_keep_the_ledger_from_being_repaired(
    bench: Bench,
) -> None:
    writer = await bench.written(60, size=100_000)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    await bench.mark(writer.ledger_id, lost)
    session = bench.cluster.store.session.id
    attempt = asyncio.ensure_future(bench.repairer.attempt(writer.ledger_id))
    await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
    store_of(bench).cut()
    await asyncio.sleep(OUTAGE_S)
    store_of(bench).mend()
    with suppress(StoreError):
        await attempt
    assert bench.cluster.store.session.id == session
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    await bench.until(lambda: bench.view.what_holds(None) is None)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id, size=100_000) == []
    assert await bench.claimed() == []


@played(given=rules(repair=SLOW))
async def test_a_process_that_is_told_to_stop_while_the_store_is_away_stops(bench: Bench) -> None:
    writer = await written_without_zone_b(bench, 60, size=100_000)
    await bench.mark(writer.ledger_id)
    async with replicating(bench) as replicator:
        await bench.until(lambda: replicator.metrics.all_bytes_moved > 0)
        store_of(bench).cut()
    # The block's end cancels it, and waits.
    store_of(bench).mend()
