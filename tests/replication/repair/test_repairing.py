"""One marked ledger at a time, on a small real cluster: what a repair achieves, and in which order.

Numbers are those of docs/scenarios.md.
"""

import asyncio

import pytest

from tests.replication.repair_lab import (
    STRIPED,
    Bench,
    bench,
    go_on_elsewhere,
    lost_one,
    packet_at,
    payload,
    played,
    rules,
    troubles,
)
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.replication.repair import copying
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.wire.formats import entries, errors

THREE = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)


# ── what a repair achieves ──


@pytest.mark.parametrize("quorums", [THREE, STRIPED])
@pytest.mark.parametrize("digest", list(Digest))
@played()
async def test_s71_a_lost_bookies_copies_are_made_anew_where_the_rules_want_them(
    bench: Bench, quorums: Quorums, digest: Digest
) -> None:
    writer = await bench.written(30, quorums=quorums, digest=digest)
    before = writer.ensemble
    await bench.lose(before[0])
    attempt = await bench.attempt(writer.ledger_id, before[0])
    assert attempt.done
    after = await bench.ensemble(writer.ledger_id)
    assert before[0] not in after
    assert after[1:] == before[1:]
    assert {bench.zone(one) for one in after[:3]} == {"a", "b", "c"}
    assert await bench.lacks(writer.ledger_id) == []
    assert await bench.marked(writer.ledger_id) is None
    assert await bench.claimed() == []
    assert bench.metrics.ledgers_repaired == 1


@played()
async def test_a_copy_is_the_packet_as_it_was_written(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    await bench.attempt(writer.ledger_id, lost)
    for number in map(EntryId, range(20)):
        packets = [
            await packet_at(bench.lab, one, writer.ledger_id, number)
            for one in await bench.ensemble(writer.ledger_id)
        ]
        assert packets[0] is not None
        assert len({bytes(packet) for packet in packets if packet is not None}) == 1


@played()
async def test_all_lost_members_of_a_fragment_are_replaced_at_once(bench: Bench) -> None:
    writer = await bench.written(30, quorums=STRIPED)
    lost = writer.ensemble[:2]
    await bench.lose(*lost)
    assert (await bench.attempt(writer.ledger_id, *lost)).done
    assert await bench.lacks(writer.ledger_id) == []
    assert bench.metrics.fragments_swapped == 1


@played()
async def test_every_fragment_is_repaired_and_a_ledger_stays_on_few_bookies(bench: Bench) -> None:
    writer = await bench.written(10, closed=False)
    first = writer.ensemble
    await bench.lose(first[1])
    await go_on_elsewhere(writer, 10)
    await writer.close()
    ledger = await bench.ledger(writer.ledger_id)
    assert len(ledger.fragments) == 2
    await bench.lose(first[0])
    assert (await bench.attempt(writer.ledger_id, first[0], first[1])).done
    ledger = await bench.ledger(writer.ledger_id)
    assert len(ledger.bookies) <= 4
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_ledger_without_an_entry_gets_another_member_too(bench: Bench) -> None:
    writer, lost = await lost_one(bench, count=0)
    assert (await bench.attempt(writer.ledger_id, lost)).done
    assert lost not in (await bench.ledger(writer.ledger_id)).bookies
    assert bench.metrics.all_bytes_moved == 0


@played()
async def test_bytes_are_counted_by_zones_and_cause_and_come_from_the_own_zone(
    bench: Bench,
) -> None:
    writer = await bench.written(20)
    lost = next(one for one in writer.ensemble if bench.zone(one) != "a")
    zone = bench.zone(lost)
    await bench.lose(lost)
    await bench.attempt(writer.ledger_id, lost)
    overhead = entries.Sealer(writer.ledger_id, Digest.CRC32C, b"").overhead_bytes
    size = sum(overhead + len(payload(number)) for number in range(20))
    assert bench.moved() == {("a", zone, "lost"): size}


@played()
async def test_a_large_ledger_is_copied_carrier_by_carrier(bench: Bench) -> None:
    writer = await bench.written(100, size=100_000)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    assert (await bench.attempt(writer.ledger_id, lost)).done
    target = (await bench.ensemble(writer.ledger_id))[0]
    sizes = [item.frame.size_bytes for item in bench.lab.door(target).appended]
    assert len(sizes) > 4
    assert max(sizes) <= ClientConfig().read_bytes
    assert await bench.lacks(writer.ledger_id, size=100_000) == []


# ── the order: copies first, the swap last ──


@played()
async def test_the_swap_waits_until_the_last_entry_is_on_the_targets_disk(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    before = writer.ensemble
    for machine in bench.lab.machines.values():
        if machine.door is not None and machine.id not in before:
            machine.door.holding = True
    await bench.mark(writer.ledger_id, lost)
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await asyncio.sleep(3)
    assert await bench.ensemble(writer.ledger_id) == before
    for machine in bench.lab.machines.values():
        if machine.door is not None:
            machine.door.release()
    assert (await attempt).done
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_s78_a_target_that_loses_power_after_the_swap_has_everything(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    await bench.attempt(writer.ledger_id, lost)
    target = (await bench.ensemble(writer.ledger_id))[0]
    await bench.lose(target)
    await bench.bring_back(target)
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_s73_a_replicator_that_dies_before_the_swap_has_changed_nothing_and_another_goes_on(
    bench: Bench,
) -> None:
    writer, lost = await lost_one(bench)
    before = writer.ensemble
    await bench.mark(writer.ledger_id, lost)
    held = [m.door for m in bench.lab.machines.values() if m.door and m.id not in before]
    for door in held:
        door.holding = True
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await asyncio.sleep(1)
    assert await bench.claimed() == [writer.ledger_id]
    for door in held:
        door.release()  # the copy arrives, and its answer is lost
    attempt.cancel()
    await asyncio.wait([attempt])
    assert await bench.ensemble(writer.ledger_id) == before
    assert await bench.claimed() == []
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_s74_a_replicator_that_dies_after_the_swap_leaves_nothing_to_be_copied(
    bench: Bench,
) -> None:
    writer, lost = await lost_one(bench)
    await bench.attempt(writer.ledger_id, lost)
    after, moved = await bench.ensemble(writer.ledger_id), bench.metrics.all_bytes_moved
    assert (await bench.attempt(writer.ledger_id, lost)).done
    assert await bench.ensemble(writer.ledger_id) == after
    assert bench.metrics.all_bytes_moved == moved
    assert bench.metrics.marks_stale == 1


@played()
async def test_s76_two_replicators_with_the_same_claim_replace_a_copy_once(one: Bench) -> None:
    async with bench(one.lab, "other", zone="b") as two:
        writer, lost = await lost_one(one)
        await two.until(lambda: lost in two.view.missing)
        await one.mark(writer.ledger_id, lost)
        claim = await underreplication.claim(one.cluster, writer.ledger_id, one.repairer.name)
        assert claim is not None

        async def work(who: Bench, mine: Claim) -> None:
            await who.repairer._repair(mine, {})

        await asyncio.gather(work(one, claim), work(two, claim))
        swaps = one.metrics.fragments_swapped + two.metrics.fragments_swapped
        assert swaps == 1
        assert await one.lacks(writer.ledger_id) == []


@played()
async def test_a_ledger_that_somebody_else_repairs_is_left_to_him(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    await bench.mark(writer.ledger_id, lost)
    other = BookieId("somebody")
    assert await underreplication.claim(bench.cluster, writer.ledger_id, other) is not None
    attempt = await bench.repairer.attempt(writer.ledger_id)
    assert attempt.again
    assert bench.metrics.all_bytes_moved == 0


@played()
async def test_a_target_that_refuses_is_passed_over_and_one_that_holds_something_else_too(
    bench: Bench,
) -> None:
    writer, lost = await lost_one(bench)
    zone = bench.zone(lost)
    others = [m for m in bench.lab.machines.values() if m.location.zone == zone and m.id != lost]
    others[0].doorway.append_error = errors.EntryMismatch("the test's")
    for _ in range(3):
        await bench.attempt(writer.ledger_id, lost)
    after = await bench.ensemble(writer.ledger_id)
    assert after[0] == others[1].id
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_good_copy_is_not_given_up_for_one_whose_bookie_went_away_after_it_was_made(
    bench: Bench,
) -> None:
    writer = await bench.written(20)
    before, leaving = writer.ensemble, writer.ensemble[0]
    order = Mark(at_ms=0, by="anna", reason="the test's")
    await bookie_records.drain(bench.cluster, leaving, order)
    await bench.mark(writer.ledger_id, leaving)
    await asyncio.sleep(1)
    others = [m for m in bench.lab.machines.values() if m.id not in before]
    for machine in others:
        machine.doorway.holding = True
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await bench.until(lambda: any(machine.doorway.held for machine in others))
    target = next(machine for machine in others if machine.doorway.held)
    await bench.cluster.store.delete(bench.cluster.root.writable(target.id), version=None)
    await bench.until(lambda: target.id in bench.view.missing)
    for machine in others:
        machine.doorway.release()
    assert troubles(await attempt) == [RepairTrouble.OVERTAKEN]
    assert await bench.ensemble(writer.ledger_id) == before


@played()
async def test_a_connection_that_breaks_is_made_again_and_nothing_is_lost_by_it(
    bench: Bench,
) -> None:
    writer = await bench.written(60, size=100_000)
    before, lost = writer.ensemble, writer.ensemble[0]
    await bench.lose(lost)
    await bench.mark(writer.ledger_id, lost)
    held = [m for m in bench.lab.machines.values() if m.door and m.id not in before]
    for machine in held:
        machine.doorway.holding = True
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
    await asyncio.sleep(1)
    target = next(m for m in held if m.doorway.held)
    bench.lab.network.disconnect("repairer", target.id)
    for machine in held:
        machine.doorway.release()
    assert (await attempt).done
    assert target.id in await bench.ensemble(writer.ledger_id)
    assert await bench.lacks(writer.ledger_id, size=100_000) == []


@played()
async def test_a_ledger_that_is_deleted_meanwhile_is_done(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    await bench.mark(writer.ledger_id, lost)
    await ledgers.delete(bench.cluster, writer.ledger_id, Deleter(by="test", at_ms=1))
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.marked(writer.ledger_id) is None


# ── the pace ──


@played(given=rules(repair=RepairRules(bytes_per_second=1 << 20)))
async def test_the_policys_bytes_a_second_are_kept_and_a_new_rate_is_obeyed(bench: Bench) -> None:
    writer = await bench.written(30, size=100_000)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    began_s = asyncio.get_running_loop().time()
    assert (await bench.attempt(writer.ledger_id, lost)).done
    took_s = asyncio.get_running_loop().time() - began_s
    # The first carrier is free, the last second is not over when the last one is sent.
    assert took_s >= 1.8


@played()
async def test_a_window_is_never_more_than_the_loop_can_bear(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "WINDOW_ENTRIES", 8)
    writer, lost = await lost_one(bench, count=50)
    assert (await bench.attempt(writer.ledger_id, lost)).done
    target = (await bench.ensemble(writer.ledger_id))[0]
    assert max(len(item.frame) for item in bench.lab.door(target).appended) == 8
    assert await bench.lacks(writer.ledger_id) == []
