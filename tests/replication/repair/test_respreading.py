"""Ledgers that were written while a zone was away go back over all zones."""

import asyncio

from tests.replication.repair.test_replicator import replicating
from tests.replication.repair_lab import Bench, played, rules, troubles
from zonekeeper.client.api.writer import Writer
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.replication.repair.repair_metrics import RepairTrouble


async def level(bench: Bench, ledger_id: LedgerId) -> Level:
    policy = bench.view.policy
    ensemble = await bench.ensemble(ledger_id)
    return adherence.judge(ensemble, policy.quorums, policy.placement, bench.view.topology).level


async def written_without_zone_b(
    bench: Bench, count: int = 20, *, size: int = 100, closed: bool = True
) -> Writer:
    """A ledger on two zones, whose third is back."""
    gone = [m.id for m in bench.lab.machines.values() if m.location.zone == "b"]
    await bench.lose(*gone)
    writer = await bench.written(count, size=size, closed=closed)
    assert await level(bench, writer.ledger_id) is Level.SOFT
    for bookie in gone:
        await bench.bring_back(bookie)
    await asyncio.sleep(15)  # until links that were refused try again
    return writer


@played()
async def test_a_soft_ledger_becomes_strict_by_one_copy_and_the_mark_goes(bench: Bench) -> None:
    writer = await written_without_zone_b(bench)
    before = set(writer.ensemble)
    await bench.mark(writer.ledger_id)
    assert (await bench.repairer.attempt(writer.ledger_id, respread=True)).done
    assert await level(bench, writer.ledger_id) is Level.STRICT
    assert len(before - set(await bench.ensemble(writer.ledger_id))) == 1
    assert await bench.lacks(writer.ledger_id) == []
    assert {(target, cause) for _, target, cause in bench.moved()} == {("b", "respread")}
    assert bench.metrics.ledgers_respread == 1
    assert await bench.marked(writer.ledger_id) is None


@played()
async def test_a_ledger_that_nothing_can_better_is_left_as_it_is_and_the_mark_goes(
    bench: Bench,
) -> None:
    writer = await bench.written()
    await bench.mark(writer.ledger_id)
    assert (await bench.repairer.attempt(writer.ledger_id, respread=True)).done
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    assert bench.metrics.all_bytes_moved == 0
    assert bench.metrics.marks_stale == 1


@played()
async def test_the_fragment_that_may_grow_is_left_to_its_writer(bench: Bench) -> None:
    writer = await written_without_zone_b(bench, closed=False)
    await bench.mark(writer.ledger_id)
    assert (await bench.repairer.attempt(writer.ledger_id, respread=True)).done
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble


@played()
async def test_nothing_is_spread_while_any_zone_is_held(bench: Bench) -> None:
    writer = await written_without_zone_b(bench)
    await bench.mark(writer.ledger_id)
    await bench.hold("c")
    assert (await bench.repairer.attempt(writer.ledger_id, respread=True)).spread
    assert await bench.claimed() == []
    assert bench.metrics.all_bytes_moved == 0


@played()
async def test_a_hold_anywhere_ends_a_spreading_before_its_swap(bench: Bench) -> None:
    writer = await written_without_zone_b(bench)
    before = writer.ensemble
    await bench.mark(writer.ledger_id)
    doors = [m.doorway for m in bench.lab.machines.values() if m.location.zone == "b"]
    for door in doors:
        door.holding = True
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id, respread=True))
    await bench.until(lambda: any(door.held for door in doors))
    await bench.hold("c")
    for door in doors:
        door.release()
    assert troubles(await attempt) == [RepairTrouble.HELD]
    assert await bench.ensemble(writer.ledger_id) == before


@played(given=rules(repair=RepairRules(respread=False, bytes_per_second=0)))
async def test_the_owner_may_not_want_it(bench: Bench) -> None:
    writer = await written_without_zone_b(bench)
    await bench.mark(writer.ledger_id)
    async with replicating(bench) as replicator:
        await asyncio.sleep(60)
        assert replicator.metrics.all_bytes_moved == 0
    assert await bench.marked(writer.ledger_id) == ()


SLOW = RepairRules(bytes_per_second=0, respread_bytes_per_second=1_024)


@played(given=rules(repair=SLOW))
async def test_repairs_go_before_and_spreading_follows_within_its_own_rate(bench: Bench) -> None:
    soft = [await written_without_zone_b(bench, 8, size=1_000) for _ in range(2)]
    for writer in soft:
        await bench.mark(writer.ledger_id)
    async with replicating(bench) as replicator:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await bench.until(lambda: replicator.metrics.ledgers_respread == 2)
        took_s = loop.time() - began_s
        assert replicator.metrics.all_bytes_moved <= 1_024 * took_s + 9_000
    for writer in soft:
        assert await level(bench, writer.ledger_id) is Level.STRICT
        assert await bench.lacks(writer.ledger_id, size=1_000) == []
