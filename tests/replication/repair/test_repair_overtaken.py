"""What changes while a ledger is being repaired: members go away, writers go on, others hang."""

import asyncio

from tests.replication.repair_lab import (
    Bench,
    go_on_elsewhere,
    payload,
    played,
    rules,
    troubles,
)
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.wire.formats import errors

SLOW = RepairRules(bytes_per_second=1 << 20)


@played(given=rules(repair=SLOW))
async def test_a_writer_that_went_on_elsewhere_while_older_entries_were_copied_is_not_fenced(
    bench: Bench,
) -> None:
    writer = await bench.written(60, size=100_000, closed=False)
    first = writer.ensemble
    await bench.lose(first[0])
    await go_on_elsewhere(writer, 60)
    idle = first[1]
    assert idle in writer.ensemble
    await bench.lose(idle)
    assert troubles(await bench.attempt(writer.ledger_id, idle)) == [RepairTrouble.OPEN]
    await asyncio.sleep(40)
    moved = bench.metrics.all_bytes_moved
    attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, first[0]))
    await bench.until(lambda: bench.metrics.all_bytes_moved > moved)
    await go_on_elsewhere(writer, 62)
    assert idle not in writer.ensemble
    await attempt
    assert bench.metrics.ledgers_recovered == 0
    await writer.append_and_wait(payload(64))
    await writer.close()


@played(given=rules(repair=SLOW))
async def test_a_bookie_that_was_looked_at_and_goes_away_before_the_end_stays_marked(
    bench: Bench,
) -> None:
    writer = await bench.written(60, size=100_000)
    lost, doubted = writer.ensemble[:2]
    await bench.lose(lost)
    await bench.mark(writer.ledger_id, lost, doubted)
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
    await bench.lose(doubted)
    await attempt
    assert await bench.marked(writer.ledger_id) == (doubted,)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id, size=100_000) == []


@played()
async def test_a_lost_copy_is_made_anew_though_a_doubted_one_cannot_be_looked_at(
    bench: Bench,
) -> None:
    writer = await bench.written(20)
    lost, silent, _ = writer.ensemble
    await bench.lose(lost)
    bench.lab.door(silent).read_error = errors.Timeout("the test's")
    attempt = await bench.attempt(writer.ledger_id, silent, lost)
    assert troubles(attempt) == [RepairTrouble.NO_SOURCE]
    assert lost not in await bench.ensemble(writer.ledger_id)
    assert silent in (await bench.marked(writer.ledger_id) or ())
    bench.lab.door(silent).read_error = None
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id) == []
