"""Which copies are trusted, looked at, mended or replaced.

Numbers are those of docs/scenarios.md.
"""

import asyncio

import pytest

from tests.replication.repair_lab import (
    Bench,
    cut_short,
    go_on_elsewhere,
    lost_one,
    payload,
    played,
    spoiled,
    troubles,
    without_entry_three,
)
from zonekeeper.client.api.writer import Writer
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.wire.formats import errors

# ── digests ──


@played()
async def test_s72_a_corrupt_source_is_passed_over_for_the_next_copy(bench: Bench) -> None:
    writer = await bench.written(20)
    near = next(one for one in writer.ensemble if bench.zone(one) == "a")
    lost = next(one for one in writer.ensemble if one != near)
    bench.lab.door(near).spoil = spoiled
    await bench.lose(lost)
    assert (await bench.attempt(writer.ledger_id, lost)).done
    bench.lab.door(near).spoil = lambda reply: reply
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_where_every_source_is_corrupt_nothing_is_copied_and_the_ledger_stays_marked(
    bench: Bench,
) -> None:
    writer, lost = await lost_one(bench)
    before = writer.ensemble
    for bookie in before[1:]:
        bench.lab.door(bookie).spoil = spoiled
    attempt = await bench.attempt(writer.ledger_id, lost)
    assert troubles(attempt) == [RepairTrouble.NO_SOURCE]
    assert await bench.ensemble(writer.ledger_id) == before
    assert await bench.marked(writer.ledger_id) == (lost,)
    assert bench.metrics.all_bytes_moved == 0


@played()
async def test_copies_without_a_digest_are_copied_only_where_they_agree(bench: Bench) -> None:
    writer = await bench.written(20, digest=Digest.DUMMY)
    before, lost = writer.ensemble, writer.ensemble[0]
    await bench.lose(lost)
    bench.lab.door(before[1]).spoil = spoiled
    attempt = await bench.attempt(writer.ledger_id, lost)
    assert troubles(attempt) == [RepairTrouble.COPIES_DIFFER]
    assert await bench.ensemble(writer.ledger_id) == before
    bench.lab.door(before[1]).spoil = lambda reply: reply
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_an_entry_that_the_living_deny_may_be_on_the_lost_one_and_the_rest_is_repaired(
    bench: Bench,
) -> None:
    writer = await bench.written(10, closed=False)
    first, lost = writer.ensemble, writer.ensemble[0]
    await bench.lose(first[1])
    await go_on_elsewhere(writer, 10)
    await writer.close()
    await bench.bring_back(first[1])
    await asyncio.sleep(15)  # until links that were refused try again
    await bench.lose(lost)
    for bookie in first[1:]:
        bench.lab.door(bookie).spoil = without_entry_three
    attempt = await bench.attempt(writer.ledger_id, lost)
    assert troubles(attempt) == [RepairTrouble.NO_SOURCE]
    assert "entry 3" in attempt.obstacles[0].text
    ledger = await bench.ledger(writer.ledger_id)
    assert ledger.fragments[0].ensemble == first
    assert lost not in ledger.fragments[1].ensemble
    assert await bench.marked(writer.ledger_id) == (lost,)


@played()
async def test_s81_an_entry_that_everybody_denies_is_reported_as_lost_and_stays_marked(
    bench: Bench,
) -> None:
    writer = await bench.written(10)
    for bookie in writer.ensemble:
        bench.lab.door(bookie).spoil = without_entry_three
    attempt = await bench.attempt(writer.ledger_id, writer.ensemble[0])
    assert troubles(attempt) == [RepairTrouble.ENTRY_LOST]
    assert bench.metrics.failed == {RepairTrouble.ENTRY_LOST: 1}
    assert await bench.marked(writer.ledger_id) == (writer.ensemble[0],)


# ── the present decides ──


@played()
async def test_s84_a_bookie_that_is_back_keeps_its_copies_and_the_mark_goes(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    await bench.mark(writer.ledger_id, lost)
    await bench.bring_back(lost)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    assert bench.metrics.all_bytes_moved == 0
    assert await bench.marked(writer.ledger_id) is None


@played()
async def test_s77_a_bookie_that_comes_back_during_the_copying_is_not_replaced(
    bench: Bench,
) -> None:
    writer, lost = await lost_one(bench)
    before = writer.ensemble
    await bench.mark(writer.ledger_id, lost)
    held = [m.doorway for m in bench.lab.machines.values() if m.door and m.id not in before]
    for door in held:
        door.holding = True
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await asyncio.sleep(1)
    await bench.bring_back(lost)
    for door in held:
        door.release()
    assert troubles(await attempt) == [RepairTrouble.OVERTAKEN]
    assert await bench.ensemble(writer.ledger_id) == before


async def one_behind(bench: Bench) -> tuple[Writer, BookieId]:
    """Give a writer with 15 entries, and a bookie whose door holds the last five."""
    writer = await bench.written(10, closed=False)
    behind = writer.ensemble[2]
    bench.lab.door(behind).holding = True
    for number in range(10, 15):
        await writer.append(payload(number))
    await writer.flush()
    return writer, behind


@played()
async def test_s82_an_entry_that_reached_too_few_is_put_where_it_is_missing(bench: Bench) -> None:
    writer, behind = await one_behind(bench)
    await writer.close()
    bench.lab.door(behind).held.clear()
    bench.lab.door(behind).holding = False
    ledger = await bench.ledger(writer.ledger_id)
    assert ledger.last_fragment.ensemble == writer.ensemble
    assert [who for who, _ in await bench.lacks(writer.ledger_id)] == [behind] * 5
    assert (await bench.attempt(writer.ledger_id, behind)).done
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    assert await bench.lacks(writer.ledger_id) == []
    assert {cause for _, _, cause in bench.moved()} == {"holes"}


@pytest.mark.parametrize("which", ["the one that is looked at", "the sources", "all"])
@played()
async def test_replies_that_are_cut_short_hide_no_hole(bench: Bench, which: str) -> None:
    writer, behind = await one_behind(bench)
    await writer.close()
    bench.lab.door(behind).held.clear()
    bench.lab.door(behind).holding = False
    for bookie in writer.ensemble:
        if which == "all" or (bookie == behind) == (which == "the one that is looked at"):
            bench.lab.door(bookie).spoil = cut_short
    assert [who for who, _ in await bench.lacks(writer.ledger_id)] == [behind] * 5
    assert (await bench.attempt(writer.ledger_id, behind)).done
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_holes_are_filled_at_bookies_that_a_recovery_has_fenced(bench: Bench) -> None:
    writer, behind = await one_behind(bench)
    await asyncio.sleep(0.5)  # the others hear of the last one, so no recovery has to write it back
    writer.halt()
    bench.lab.door(behind).held.clear()
    bench.lab.door(behind).holding = False
    reader = await bench.client.open(writer.ledger_id, password=b"secret", recover=True)
    assert reader.metadata.last_entry == 14
    await asyncio.sleep(0.5)
    assert len(await bench.lacks(writer.ledger_id)) == 5
    assert (await bench.attempt(writer.ledger_id, *writer.ensemble)).done
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_s46_a_bad_copy_is_replaced_though_its_bookie_is_there(bench: Bench) -> None:
    writer = await bench.written(20)
    bad = writer.ensemble[1]
    bench.lab.door(bad).spoil = spoiled
    assert (await bench.attempt(writer.ledger_id, bad)).done
    assert bad not in await bench.ensemble(writer.ledger_id)
    assert await bench.lacks(writer.ledger_id) == []
    assert {cause for _, _, cause in bench.moved()} == {"bad"}


@pytest.mark.parametrize("takes", ["recovery only", "nothing"])
@played()
async def test_a_bookie_with_holes_is_replaced_only_if_it_takes_nothing(
    bench: Bench, takes: str
) -> None:
    writer = await bench.written(10, closed=False)
    behind = writer.ensemble[2]
    door = bench.lab.door(behind)
    door.holding = True
    await writer.append(payload(10))
    await writer.close()
    door.held.clear()
    door.holding = False
    await door.set_read_only(read_only=True)
    if takes == "nothing":
        door.append_error = errors.InsufficientSpace("the test's")
    assert (await bench.attempt(writer.ledger_id, behind)).done
    assert (behind in await bench.ensemble(writer.ledger_id)) == (takes == "recovery only")
    assert await bench.lacks(writer.ledger_id) == []
