"""Repairs while something is held, and of ledgers that are still written.

Numbers are those of docs/scenarios.md.
"""

import asyncio

import pytest

from tests.client.lab import Door
from tests.replication.repair_lab import (
    DELAY_MS,
    STRIPED,
    Bench,
    bench,
    go_on_elsewhere,
    lost_one,
    payload,
    played,
    rules,
    troubles,
)
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors as client_errors
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.repairing import Attempt

# ── open ledgers ──


async def open_without_one(bench: Bench) -> Writer:
    """Give a writer that has lost a bookie; its ledger has its grace."""
    writer = await bench.written(10, closed=False)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    assert troubles(await bench.attempt(writer.ledger_id, lost)) == [RepairTrouble.OPEN]
    return writer


@played()
async def test_s75_a_writer_that_changes_its_ensemble_within_the_grace_is_left_alone(
    bench: Bench,
) -> None:
    writer = await open_without_one(bench)
    await go_on_elsewhere(writer, 10)
    await asyncio.sleep(40)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    await writer.append(payload(12))
    await writer.close()
    assert bench.metrics.ledgers_recovered == 0
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_s75_a_ledger_whose_writer_does_nothing_is_fenced_after_the_grace_and_repaired(
    bench: Bench,
) -> None:
    writer = await open_without_one(bench)
    await asyncio.sleep(29)
    assert troubles(await bench.repairer.attempt(writer.ledger_id)) == [RepairTrouble.OPEN]
    assert not (await bench.ledger(writer.ledger_id)).is_closed
    await asyncio.sleep(2)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    ledger = await bench.ledger(writer.ledger_id)
    assert (ledger.is_closed, ledger.last_entry) == (True, 9)
    assert await bench.lacks(writer.ledger_id) == []
    with pytest.raises(client_errors.WriterStopped):
        await writer.append_and_wait(b"too late")


@played()
async def test_the_grace_begins_anew_with_another_last_fragment(bench: Bench) -> None:
    writer = await bench.written(10, closed=False)
    first = writer.ensemble
    await bench.lose(first[0])
    await bench.attempt(writer.ledger_id, first[0])
    await asyncio.sleep(20)
    await go_on_elsewhere(writer, 10)
    second = writer.ensemble[0]
    assert second != first[0]
    await bench.lose(second)
    await asyncio.sleep(15)
    attempt = await bench.attempt(writer.ledger_id, second)
    assert troubles(attempt) == [RepairTrouble.OPEN]
    assert not (await bench.ledger(writer.ledger_id)).is_closed


# ── the gate ──


async def held_at_the_copy(
    bench: Bench, writer: Writer
) -> tuple[list[Door], asyncio.Task[Attempt]]:
    """Begin a repair, and hold its first carrier at the doors that no member is behind."""
    before = writer.ensemble
    doors = [m.doorway for m in bench.lab.machines.values() if m.door and m.id not in before]
    for door in doors:
        door.holding = True
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await bench.until(lambda: any(door.held for door in doors))
    return doors, attempt


@played()
async def test_s83_a_held_loss_is_not_even_claimed(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    await bench.hold(bench.zone(lost))
    attempt = await bench.attempt(writer.ledger_id, lost)
    assert troubles(attempt) == [RepairTrouble.HELD]
    assert bench.metrics.all_bytes_moved == 0
    await bench.open(bench.zone(lost))
    assert (await bench.repairer.attempt(writer.ledger_id)).done


@played()
async def test_a_bookie_with_a_mark_left_is_not_replaced_the_moment_it_is_missing(
    bench: Bench,
) -> None:
    writer = await bench.written(20)
    gone = writer.ensemble[0]
    await bench.mark(writer.ledger_id, gone)  # to be looked at, while it is there
    await bench.miss(gone)
    attempt = await bench.repairer.attempt(writer.ledger_id)
    assert troubles(attempt) == [RepairTrouble.HELD]
    assert "bookieRecoveryDelay" in attempt.obstacles[0].text
    assert bench.metrics.all_bytes_moved == 0
    await asyncio.sleep(2 * DELAY_MS / 1_000)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert gone not in await bench.ensemble(writer.ledger_id)


@played(given=rules(repair=RepairRules(bytes_per_second=1 << 20)))
async def test_a_bookie_that_goes_away_while_others_are_worked_on_is_not_replaced_at_once(
    bench: Bench,
) -> None:
    writer = await bench.written(60, size=100_000, closed=False)
    gone, lost = writer.ensemble[:2]
    await bench.lose(lost)
    await go_on_elsewhere(writer, 60)
    await writer.close()
    await bench.mark(writer.ledger_id, gone, lost)
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
    await bench.miss(gone)
    assert RepairTrouble.HELD in troubles(await attempt)
    first, last = (await bench.ledger(writer.ledger_id)).fragments
    assert gone in first.ensemble
    assert gone in last.ensemble
    assert lost not in first.ensemble


@played()
async def test_a_process_that_never_saw_a_bookie_there_does_not_wait_again(one: Bench) -> None:
    writer = await one.written(20)
    gone = writer.ensemble[0]
    await one.mark(writer.ledger_id, gone)
    await one.miss(gone)
    assert troubles(await one.repairer.attempt(writer.ledger_id)) == [RepairTrouble.HELD]
    async with bench(one.lab, "later", zone="b") as later:
        assert (await later.repairer.attempt(writer.ledger_id)).done


@played()
async def test_work_in_flight_stops_before_its_next_carrier_and_never_swaps(bench: Bench) -> None:
    writer = await bench.written(60, size=100_000)
    before, lost = writer.ensemble, writer.ensemble[0]
    await bench.lose(lost)
    await bench.mark(writer.ledger_id, lost)
    doors, attempt = await held_at_the_copy(bench, writer)
    in_flight = bench.metrics.all_bytes_moved
    await bench.hold(bench.zone(lost))
    for door in doors:
        door.release()
    assert troubles(await attempt) == [RepairTrouble.HELD]
    assert bench.metrics.all_bytes_moved == in_flight
    assert sum(len(door.appended) for door in doors) == 1
    assert await bench.ensemble(writer.ledger_id) == before
    assert await bench.claimed() == []


@played()
async def test_after_a_hold_nothing_more_is_read_and_what_was_being_read_is_not_written(
    bench: Bench,
) -> None:
    writer = await bench.written(60, size=100_000)
    lost, sources = writer.ensemble[0], writer.ensemble[1:]
    await bench.lose(lost)
    await bench.mark(writer.ledger_id, lost)
    doors = [m.doorway for m in bench.lab.machines.values() if m.door is not None]
    before = len([request for door in doors for request in door.reads])
    gate = asyncio.Event()
    for bookie in sources:
        bench.lab.door(bookie).hold_reads = gate
    appended = sum(len(door.appended) for door in doors)
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await asyncio.sleep(1)
    await bench.hold(bench.zone(lost))
    gate.set()
    assert troubles(await attempt) == [RepairTrouble.HELD]
    assert len([request for door in doors for request in door.reads]) == before + 1
    assert sum(len(door.appended) for door in doors) == appended
    assert bench.metrics.all_bytes_moved == 0


@played()
async def test_after_a_hold_nothing_is_read_behind_the_carrier_in_flight(bench: Bench) -> None:
    writer = await bench.written(60, size=100_000)
    lost, before = writer.ensemble[0], writer.ensemble
    await bench.lose(lost)
    await bench.mark(writer.ledger_id, lost)
    doors, attempt = await held_at_the_copy(bench, writer)
    reads = sum(len(bench.lab.door(one).reads) for one in before[1:])
    await bench.hold(bench.zone(lost))
    for door in doors:
        door.release()
    assert troubles(await attempt) == [RepairTrouble.HELD]
    assert sum(len(bench.lab.door(one).reads) for one in before[1:]) == reads


@played()
async def test_a_held_loss_is_held_whoever_has_its_claim(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    await bench.hold(bench.zone(lost))
    await bench.mark(writer.ledger_id, lost)
    await underreplication.claim(bench.cluster, writer.ledger_id, BookieId("somebody"))
    attempt = await bench.repairer.attempt(writer.ledger_id)
    assert troubles(attempt) == [RepairTrouble.HELD]
    assert not attempt.again


@played()
async def test_a_hold_between_the_last_carrier_and_the_swap_prevents_the_swap(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    before = writer.ensemble
    await bench.mark(writer.ledger_id, lost)
    doors, attempt = await held_at_the_copy(bench, writer)
    await bench.hold(bench.zone(lost))
    for door in doors:
        door.release()
    assert troubles(await attempt) == [RepairTrouble.HELD]
    assert await bench.ensemble(writer.ledger_id) == before


@played()
async def test_a_hold_during_a_recovery_ends_it(bench: Bench) -> None:
    writer = await bench.written(10, closed=False)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    await bench.attempt(writer.ledger_id, lost)
    await asyncio.sleep(31)
    for bookie in writer.ensemble[1:]:
        bench.lab.door(bookie).hold_reads = asyncio.Event()
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await asyncio.sleep(1)
    await bench.hold(bench.zone(lost))
    assert troubles(await attempt) == [RepairTrouble.HELD]
    assert not (await bench.ledger(writer.ledger_id)).is_closed
    assert await bench.claimed() == []


@played()
async def test_s87_s92_a_loss_outside_the_held_zone_is_repaired_and_the_held_one_stays_marked(
    bench: Bench,
) -> None:
    writer = await bench.written(30, quorums=STRIPED)
    held = next(one for one in writer.ensemble if bench.zone(one) == "b")
    other = next(one for one in writer.ensemble if bench.zone(one) == "c")
    await bench.lose(held, other)
    await bench.hold("b")
    attempt = await bench.attempt(writer.ledger_id, held, other)
    assert troubles(attempt) == [RepairTrouble.HELD]
    after = await bench.ensemble(writer.ledger_id)
    assert held in after
    assert other not in after
    assert await bench.marked(writer.ledger_id) == (held,)
    assert {target for _, target, _ in bench.moved()} == {"c"}


@played()
async def test_s88_a_fragment_with_one_copy_left_is_held_like_others(bench: Bench) -> None:
    """One live copy is an alert, and no exemption from the hold."""
    writer = await bench.written(20)
    lost = [one for one in writer.ensemble if bench.zone(one) != "a"]
    await bench.lose(*lost)
    await bench.hold("b")
    await bench.hold("c")
    attempt = await bench.attempt(writer.ledger_id, *lost)
    assert set(troubles(attempt)) == {RepairTrouble.HELD}
    assert bench.metrics.all_bytes_moved == 0


@played()
async def test_s86_a_zone_that_was_given_up_is_repaired_into_those_that_are_left(
    bench: Bench,
) -> None:
    writer = await bench.written(20)
    zone = bench.zone(writer.ensemble[0])
    gone = [m.id for m in bench.lab.machines.values() if m.location.zone == zone]
    await bench.lose(*gone)
    assert (await bench.attempt(writer.ledger_id, *gone)).done
    after = await bench.ensemble(writer.ledger_id)
    assert zone not in {bench.zone(one) for one in after}
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_s89_an_entry_that_nobody_living_has_stays_marked_and_costs_no_bytes(
    bench: Bench,
) -> None:
    writer = await bench.written(20)
    await bench.lose(*writer.ensemble)
    attempt = await bench.attempt(writer.ledger_id, writer.ensemble[0])
    assert troubles(attempt) == [RepairTrouble.NO_SOURCE]
    assert await bench.marked(writer.ledger_id) == (writer.ensemble[0],)
    await bench.bring_back(writer.ensemble[1])
    await asyncio.sleep(15)  # until links that were refused try again
    assert (await bench.repairer.attempt(writer.ledger_id)).done


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_s90_where_too_few_bookies_are_left_the_ledger_stays_as_it_is_until_one_comes(
    bench: Bench,
) -> None:
    writer, lost = await lost_one(bench)
    attempt = await bench.attempt(writer.ledger_id, lost)
    assert troubles(attempt) == [RepairTrouble.NO_TARGET]
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    await bench.bring_back(lost)
    assert (await bench.repairer.attempt(writer.ledger_id)).done


@played()
async def test_s95_a_replacement_stands_in_as_many_zones_as_what_was_lost(bench: Bench) -> None:
    for _ in range(6):
        writer = await bench.written(3)
        lost = writer.ensemble[1]
        await bench.lose(lost)
        assert (await bench.attempt(writer.ledger_id, lost)).done
        after = await bench.ensemble(writer.ledger_id)
        assert {bench.zone(one) for one in after} == {"a", "b", "c"}
        await bench.bring_back(lost)
