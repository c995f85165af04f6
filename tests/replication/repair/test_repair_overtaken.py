"""What changes while a ledger is being repaired: members go away, writers go on, others hang."""

import asyncio

import pytest

from tests.replication.repair.test_limbo import says
from tests.replication.repair_lab import (
    Bench,
    go_on_elsewhere,
    payload,
    played,
    rules,
    troubles,
)
from zonekeeper.placement.base.ids import BookieId, LedgerId
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


async def gets_an_empty_disk(bench: Bench, bookie: BookieId) -> None:
    """Lose a bookie's disk for good, and start the bookie on an empty one at once."""
    await bench.lab.machines[bookie].crash()
    await bench.lab.machines[bookie].replace_disk()
    await bench.bring_back(bookie)
    assert await says(bench.lab.door(bookie), LedgerId(0), 0) == "unknown"


@pytest.mark.parametrize("others_are_left", [False, True])
@played(given=rules(repair=SLOW))
async def test_s142_a_bookie_that_was_looked_at_and_comes_back_in_limbo_stays_marked(
    bench: Bench, *, others_are_left: bool
) -> None:
    """Its loss is published meanwhile, and the mark names it already."""
    writer = await bench.written(60, size=100_000)
    lost, forgetful, held = writer.ensemble
    await bench.lose(lost)
    if others_are_left:
        await bench.hold(bench.zone(held))
    await bench.mark(writer.ledger_id, lost, forgetful, *[held] * others_are_left)
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
    await gets_an_empty_disk(bench, forgetful)
    await bench.mark(writer.ledger_id, forgetful)
    assert not (await attempt).done
    assert forgetful in (await bench.marked(writer.ledger_id) or ())
    if others_are_left:
        await bench.open(bench.zone(held))
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id, size=100_000) == []
    assert bench.metrics.limbos_ended == 1
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 60) == "no"


@played(given=rules(repair=SLOW))
async def test_s142_a_bookie_that_comes_back_in_limbo_before_its_copies_are_looked_at_stays_marked(
    bench: Bench,
) -> None:
    """Nobody has asked it whether it is in limbo: it was not there when that was asked."""
    writer = await bench.written(60, size=100_000, closed=False)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    await go_on_elsewhere(writer, 60)
    forgetful = writer.ensemble[0]
    await writer.close()
    await bench.lose(forgetful)
    await bench.mark(writer.ledger_id, lost, forgetful)
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
    await bench.lab.machines[forgetful].replace_disk()
    await bench.bring_back(forgetful)
    assert troubles(await attempt) == [RepairTrouble.OVERTAKEN]
    assert await bench.marked(writer.ledger_id) == (forgetful,)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert bench.metrics.limbos_ended == 1
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 0) == "no"


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
