"""One marked ledger at a time, on a small real cluster.

Numbers are those of the scenarios (reliability, E and F).
"""

import asyncio
import dataclasses

import pytest

from tests.replication.repair_lab import (
    STRIPED,
    Bench,
    bench,
    packet_at,
    payload,
    play_repair,
    rules,
    troubles,
)
from zonekeeper.client import errors as client_errors
from zonekeeper.client.writer import Writer
from zonekeeper.metadata import bookie_records, ledgers, underreplication
from zonekeeper.metadata.bookie_records import Mark
from zonekeeper.metadata.underreplication import Claim
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import BookieId, EntryId
from zonekeeper.placement.policy import RepairRules
from zonekeeper.placement.quorums import Quorums
from zonekeeper.replication import copying
from zonekeeper.replication.repair_metrics import Trouble
from zonekeeper.wire import entries, errors, frames, service

THREE = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
FIRST = EntryId(0)


def spoiled(reply: service.ReadReply) -> service.ReadReply:
    """Flip a bit in the payload of each entry: the frame is whole, the digests are wrong."""

    def spoil(packet: bytes) -> bytes:
        return packet[:-1] + bytes([packet[-1] ^ 1])

    bad = tuple(
        frames.build(
            frame.ledger_id,
            frame.entry_ids,
            [spoil(bytes(packet)) for _, packet in frame],
            frame.flags,
        )
        for frame in reply.frames
    )
    return dataclasses.replace(reply, frames=bad)


async def lost_one(bench: Bench, count: int = 20) -> tuple[Writer, BookieId]:
    """A closed ledger that has lost its first bookie."""
    writer = await bench.written(count)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    return writer, lost


async def go_on_elsewhere(writer: Writer, number: int) -> None:
    """Append two entries: with the first a writer finds out what it has lost, with the second it
    finds others."""
    before = writer.ensemble
    for each in (number, number + 1):
        await writer.append(payload(each))
        await writer.flush()
        await asyncio.sleep(0.5)
    assert writer.ensemble != before


# ── what a repair achieves ──


@pytest.mark.parametrize("quorums", [THREE, STRIPED])
@pytest.mark.parametrize("digest", list(Digest))
def test_s71_a_lost_bookies_copies_are_made_anew_where_the_rules_want_them(
    quorums: Quorums, digest: Digest
) -> None:
    async def scenario(bench: Bench) -> None:
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

    play_repair(scenario)


def test_a_copy_is_the_packet_as_it_was_written() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.attempt(writer.ledger_id, lost)
        for number in map(EntryId, range(20)):
            packets = [
                await packet_at(bench.lab, one, writer.ledger_id, number)
                for one in await bench.ensemble(writer.ledger_id)
            ]
            assert packets[0] is not None
            assert len({bytes(packet) for packet in packets if packet is not None}) == 1

    play_repair(scenario)


def test_all_lost_members_of_a_fragment_are_replaced_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(30, quorums=STRIPED)
        lost = writer.ensemble[:2]
        await bench.lose(*lost)
        assert (await bench.attempt(writer.ledger_id, *lost)).done
        assert await bench.lacks(writer.ledger_id) == []
        assert bench.metrics.fragments_swapped == 1

    play_repair(scenario)


def test_every_fragment_is_repaired_and_a_ledger_stays_on_few_bookies() -> None:
    async def scenario(bench: Bench) -> None:
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

    play_repair(scenario)


def test_a_ledger_without_an_entry_gets_another_member_too() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench, count=0)
        assert (await bench.attempt(writer.ledger_id, lost)).done
        assert lost not in (await bench.ledger(writer.ledger_id)).bookies
        assert bench.metrics.all_bytes_moved == 0

    play_repair(scenario)


def test_bytes_are_counted_by_zones_and_cause_and_come_from_the_own_zone() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(20)
        lost = next(one for one in writer.ensemble if bench.zone(one) != "a")
        zone = bench.zone(lost)
        await bench.lose(lost)
        await bench.attempt(writer.ledger_id, lost)
        overhead = entries.Sealer(writer.ledger_id, Digest.CRC32C, b"").overhead_bytes
        size = sum(overhead + len(payload(number)) for number in range(20))
        assert bench.moved() == {("a", zone, "lost"): size}

    play_repair(scenario)


def test_a_large_ledger_is_copied_carrier_by_carrier() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(60, size=100_000)
        lost = writer.ensemble[0]
        await bench.lose(lost)
        assert (await bench.attempt(writer.ledger_id, lost)).done
        target = (await bench.ensemble(writer.ledger_id))[0]
        sizes = [item.frame.size_bytes for item in bench.lab.door(target).appended]
        assert len(sizes) > 4
        assert max(sizes) < 1_200_000
        assert await bench.lacks(writer.ledger_id, size=100_000) == []

    play_repair(scenario)


# ── digests ──


def test_s72_a_corrupt_source_is_passed_over_for_the_next_copy() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(20)
        near = next(one for one in writer.ensemble if bench.zone(one) == "a")
        lost = next(one for one in writer.ensemble if one != near)
        bench.lab.door(near).spoil = spoiled
        await bench.lose(lost)
        assert (await bench.attempt(writer.ledger_id, lost)).done
        bench.lab.door(near).spoil = lambda reply: reply
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_where_every_source_is_corrupt_nothing_is_copied_and_the_ledger_stays_marked() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        before = writer.ensemble
        for bookie in before[1:]:
            bench.lab.door(bookie).spoil = spoiled
        attempt = await bench.attempt(writer.ledger_id, lost)
        assert troubles(attempt) == [Trouble.NO_SOURCE]
        assert await bench.ensemble(writer.ledger_id) == before
        assert await bench.marked(writer.ledger_id) == (lost,)
        assert bench.metrics.all_bytes_moved == 0

    play_repair(scenario)


def test_copies_without_a_digest_are_copied_only_where_they_agree() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(20, digest=Digest.DUMMY)
        before, lost = writer.ensemble, writer.ensemble[0]
        await bench.lose(lost)
        bench.lab.door(before[1]).spoil = spoiled
        attempt = await bench.attempt(writer.ledger_id, lost)
        assert troubles(attempt) == [Trouble.COPIES_DIFFER]
        assert await bench.ensemble(writer.ledger_id) == before
        bench.lab.door(before[1]).spoil = lambda reply: reply
        assert (await bench.repairer.attempt(writer.ledger_id)).done
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def without_entry_three(reply: service.ReadReply) -> service.ReadReply:
    parts = [frame.subset(frozenset(frame.entry_ids) - {EntryId(3)}) for frame in reply.frames]
    return dataclasses.replace(reply, frames=tuple(part for part in parts if part is not None))


def test_an_entry_that_the_living_deny_may_be_on_the_lost_one_and_the_rest_is_repaired() -> None:
    async def scenario(bench: Bench) -> None:
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
        assert troubles(attempt) == [Trouble.NO_SOURCE]
        assert "entry 3" in attempt.obstacles[0].text
        ledger = await bench.ledger(writer.ledger_id)
        assert ledger.fragments[0].ensemble == first
        assert lost not in ledger.fragments[1].ensemble
        assert await bench.marked(writer.ledger_id) == (lost,)

    play_repair(scenario)


def test_s81_an_entry_that_everybody_denies_is_reported_as_lost_and_stays_marked() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(10)
        for bookie in writer.ensemble:
            bench.lab.door(bookie).spoil = without_entry_three
        attempt = await bench.attempt(writer.ledger_id, writer.ensemble[0])
        assert troubles(attempt) == [Trouble.ENTRY_LOST]
        assert bench.metrics.failed == {Trouble.ENTRY_LOST: 1}
        assert await bench.marked(writer.ledger_id) == (writer.ensemble[0],)

    play_repair(scenario)


# ── the order: copies first, the swap last ──


def test_the_swap_waits_until_the_last_entry_is_on_the_targets_disk() -> None:
    async def scenario(bench: Bench) -> None:
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

    play_repair(scenario)


def test_s78_a_target_that_loses_power_after_the_swap_has_everything() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.attempt(writer.ledger_id, lost)
        target = (await bench.ensemble(writer.ledger_id))[0]
        await bench.lose(target)
        await bench.bring_back(target)
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_s73_a_replicator_that_dies_before_the_swap_has_changed_nothing_and_another_goes_on() -> (
    None
):
    async def scenario(bench: Bench) -> None:
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
            door.release()  # the copy arrives, and nobody hears of it
        attempt.cancel()
        await asyncio.wait([attempt])
        assert await bench.ensemble(writer.ledger_id) == before
        assert await bench.claimed() == []
        assert (await bench.repairer.attempt(writer.ledger_id)).done
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_s74_a_replicator_that_dies_after_the_swap_leaves_nothing_to_be_copied() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.attempt(writer.ledger_id, lost)
        after, moved = await bench.ensemble(writer.ledger_id), bench.metrics.all_bytes_moved
        assert (await bench.attempt(writer.ledger_id, lost)).done
        assert await bench.ensemble(writer.ledger_id) == after
        assert bench.metrics.all_bytes_moved == moved
        assert bench.metrics.marks_stale == 1

    play_repair(scenario)


def test_s76_two_replicators_with_the_same_claim_replace_a_copy_once() -> None:
    async def scenario(one: Bench) -> None:
        async with bench(one.lab, "other", zone="b") as two:
            writer, lost = await lost_one(one)
            await two.until(lambda: lost in two.view.missing)
            await one.mark(writer.ledger_id, lost)
            claim = await underreplication.claim(one.cluster, writer.ledger_id, one.repairer.name)
            assert claim is not None

            async def work(who: Bench, mine: Claim) -> None:
                await who.repairer._repair(mine)

            await asyncio.gather(work(one, claim), work(two, claim))
            swaps = one.metrics.fragments_swapped + two.metrics.fragments_swapped
            assert swaps == 1
            assert await one.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_a_ledger_that_somebody_else_repairs_is_left_to_him() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.mark(writer.ledger_id, lost)
        other = BookieId("somebody")
        assert await underreplication.claim(bench.cluster, writer.ledger_id, other) is not None
        attempt = await bench.repairer.attempt(writer.ledger_id)
        assert attempt.again
        assert bench.metrics.all_bytes_moved == 0

    play_repair(scenario)


def test_a_target_that_refuses_is_passed_over_and_one_that_holds_something_else_too() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        zone = bench.zone(lost)
        others = [
            m for m in bench.lab.machines.values() if m.location.zone == zone and m.id != lost
        ]
        others[0].doorway.append_error = errors.EntryMismatch("the test's")
        for _ in range(3):
            await bench.attempt(writer.ledger_id, lost)
        after = await bench.ensemble(writer.ledger_id)
        assert after[0] == others[1].id
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_a_good_copy_is_not_given_up_for_one_whose_bookie_went_away_after_it_was_made() -> None:
    async def scenario(bench: Bench) -> None:
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
        assert troubles(await attempt) == [Trouble.OVERTAKEN]
        assert await bench.ensemble(writer.ledger_id) == before

    play_repair(scenario)


def test_a_connection_that_breaks_is_made_again_and_nothing_is_lost_by_it() -> None:
    async def scenario(bench: Bench) -> None:
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

    play_repair(scenario)


def test_a_ledger_that_is_deleted_meanwhile_is_done() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.mark(writer.ledger_id, lost)
        await ledgers.delete(bench.cluster, writer.ledger_id)
        assert (await bench.repairer.attempt(writer.ledger_id)).done
        assert await bench.marked(writer.ledger_id) is None

    play_repair(scenario)


# ── the present decides ──


def test_s84_a_bookie_that_is_back_keeps_its_copies_and_the_mark_goes() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.mark(writer.ledger_id, lost)
        await bench.bring_back(lost)
        assert (await bench.repairer.attempt(writer.ledger_id)).done
        assert await bench.ensemble(writer.ledger_id) == writer.ensemble
        assert bench.metrics.all_bytes_moved == 0
        assert await bench.marked(writer.ledger_id) is None

    play_repair(scenario)


def test_s77_a_bookie_that_comes_back_during_the_copying_is_not_replaced() -> None:
    async def scenario(bench: Bench) -> None:
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
        assert troubles(await attempt) == [Trouble.OVERTAKEN]
        assert await bench.ensemble(writer.ledger_id) == before

    play_repair(scenario)


def test_s82_an_entry_that_reached_too_few_is_put_where_it_is_missing() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(10, closed=False)
        behind = writer.ensemble[2]
        bench.lab.door(behind).holding = True
        for number in range(10, 15):
            await writer.append(payload(number))
        await writer.flush()
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

    play_repair(scenario)


def test_holes_are_filled_at_bookies_that_a_recovery_has_fenced() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(10, closed=False)
        behind = writer.ensemble[2]
        bench.lab.door(behind).holding = True
        for number in range(10, 15):
            await writer.append(payload(number))
        await writer.flush()
        writer.halt()
        bench.lab.door(behind).held.clear()
        bench.lab.door(behind).holding = False
        reader = await bench.client.open(writer.ledger_id, password=b"secret")
        assert reader.metadata.last_entry == 14
        assert (await bench.attempt(writer.ledger_id, *writer.ensemble)).done
        assert await bench.ensemble(writer.ledger_id) == writer.ensemble
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_s46_a_bad_copy_is_replaced_though_its_bookie_is_there() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(20)
        bad = writer.ensemble[1]
        bench.lab.door(bad).spoil = spoiled
        assert (await bench.attempt(writer.ledger_id, bad)).done
        assert bad not in await bench.ensemble(writer.ledger_id)
        assert await bench.lacks(writer.ledger_id) == []
        assert {cause for _, _, cause in bench.moved()} == {"bad"}

    play_repair(scenario)


def test_a_bookie_with_holes_that_takes_nothing_is_replaced() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(10, closed=False)
        behind = writer.ensemble[2]
        bench.lab.door(behind).holding = True
        await writer.append(payload(10))
        await writer.close()
        bench.lab.door(behind).held.clear()
        bench.lab.door(behind).holding = False
        await bench.lab.door(behind).set_read_only(read_only=True)
        assert (await bench.attempt(writer.ledger_id, behind)).done
        assert behind not in await bench.ensemble(writer.ledger_id)
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


# ── open ledgers ──


def test_s75_a_writer_that_changes_its_ensemble_within_the_grace_is_left_alone() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(10, closed=False)
        lost = writer.ensemble[0]
        await bench.lose(lost)
        assert troubles(await bench.attempt(writer.ledger_id, lost)) == [Trouble.OPEN]
        await go_on_elsewhere(writer, 10)
        await asyncio.sleep(40)
        assert (await bench.repairer.attempt(writer.ledger_id)).done
        await writer.append(payload(12))
        await writer.close()
        assert bench.metrics.ledgers_recovered == 0
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_s75_a_ledger_whose_writer_does_nothing_is_fenced_after_the_grace_and_repaired() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(10, closed=False)
        lost = writer.ensemble[0]
        await bench.lose(lost)
        assert troubles(await bench.attempt(writer.ledger_id, lost)) == [Trouble.OPEN]
        await asyncio.sleep(29)
        assert troubles(await bench.repairer.attempt(writer.ledger_id)) == [Trouble.OPEN]
        assert not (await bench.ledger(writer.ledger_id)).is_closed
        await asyncio.sleep(2)
        assert (await bench.repairer.attempt(writer.ledger_id)).done
        ledger = await bench.ledger(writer.ledger_id)
        assert (ledger.is_closed, ledger.last_entry) == (True, 9)
        assert await bench.lacks(writer.ledger_id) == []
        with pytest.raises(client_errors.WriterStopped):
            await writer.append_and_wait(b"too late")

    play_repair(scenario)


def test_the_grace_begins_anew_with_another_last_fragment() -> None:
    async def scenario(bench: Bench) -> None:
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
        assert troubles(attempt) == [Trouble.OPEN]
        assert not (await bench.ledger(writer.ledger_id)).is_closed

    play_repair(scenario)


# ── the gate ──


def test_s83_a_held_loss_is_not_even_claimed() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.hold(bench.zone(lost))
        attempt = await bench.attempt(writer.ledger_id, lost)
        assert troubles(attempt) == [Trouble.HELD]
        assert bench.metrics.all_bytes_moved == 0
        await bench.open(bench.zone(lost))
        assert (await bench.repairer.attempt(writer.ledger_id)).done

    play_repair(scenario)


def test_work_in_flight_stops_before_its_next_carrier_and_never_swaps() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(60, size=100_000)
        before, lost = writer.ensemble, writer.ensemble[0]
        await bench.lose(lost)
        await bench.mark(writer.ledger_id, lost)
        doors = [m.doorway for m in bench.lab.machines.values() if m.door and m.id not in before]
        for door in doors:
            door.holding = True
        attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
        await bench.until(lambda: any(door.held for door in doors))
        in_flight = bench.metrics.all_bytes_moved
        await bench.hold(bench.zone(lost))
        for door in doors:
            door.release()
        assert troubles(await attempt) == [Trouble.HELD]
        assert bench.metrics.all_bytes_moved == in_flight
        assert sum(len(door.appended) for door in doors) == 1
        assert await bench.ensemble(writer.ledger_id) == before
        assert await bench.claimed() == []

    play_repair(scenario)


def test_after_a_hold_nothing_more_is_read_and_what_was_being_read_is_not_written() -> None:
    async def scenario(bench: Bench) -> None:
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
        assert troubles(await attempt) == [Trouble.HELD]
        assert len([request for door in doors for request in door.reads]) == before + 1
        assert sum(len(door.appended) for door in doors) == appended
        assert bench.metrics.all_bytes_moved == 0

    play_repair(scenario)


def test_after_a_hold_nothing_is_read_behind_the_carrier_in_flight() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(60, size=100_000)
        lost, before = writer.ensemble[0], writer.ensemble
        await bench.lose(lost)
        await bench.mark(writer.ledger_id, lost)
        doors = [m.doorway for m in bench.lab.machines.values() if m.door and m.id not in before]
        for door in doors:
            door.holding = True
        attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
        await bench.until(lambda: any(door.held for door in doors))
        reads = sum(len(bench.lab.door(one).reads) for one in before[1:])
        await bench.hold(bench.zone(lost))
        for door in doors:
            door.release()
        assert troubles(await attempt) == [Trouble.HELD]
        assert sum(len(bench.lab.door(one).reads) for one in before[1:]) == reads

    play_repair(scenario)


def test_a_held_loss_is_held_whoever_has_its_claim() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        await bench.hold(bench.zone(lost))
        await bench.mark(writer.ledger_id, lost)
        await underreplication.claim(bench.cluster, writer.ledger_id, BookieId("somebody"))
        attempt = await bench.repairer.attempt(writer.ledger_id)
        assert troubles(attempt) == [Trouble.HELD]
        assert not attempt.again

    play_repair(scenario)


def test_a_hold_between_the_last_carrier_and_the_swap_prevents_the_swap() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        before = writer.ensemble
        await bench.mark(writer.ledger_id, lost)
        doors = [m.doorway for m in bench.lab.machines.values() if m.door and m.id not in before]
        for door in doors:
            door.holding = True
        attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id))
        await bench.until(lambda: any(door.held for door in doors))
        await bench.hold(bench.zone(lost))
        for door in doors:
            door.release()
        assert troubles(await attempt) == [Trouble.HELD]
        assert await bench.ensemble(writer.ledger_id) == before

    play_repair(scenario)


def test_a_hold_during_a_recovery_ends_it() -> None:
    async def scenario(bench: Bench) -> None:
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
        assert troubles(await attempt) == [Trouble.HELD]
        assert not (await bench.ledger(writer.ledger_id)).is_closed
        assert await bench.claimed() == []

    play_repair(scenario)


def test_s87_s92_a_loss_outside_the_held_zone_is_repaired_and_the_held_one_stays_marked() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(30, quorums=STRIPED)
        held = next(one for one in writer.ensemble if bench.zone(one) == "b")
        other = next(one for one in writer.ensemble if bench.zone(one) == "c")
        await bench.lose(held, other)
        await bench.hold("b")
        attempt = await bench.attempt(writer.ledger_id, held, other)
        assert troubles(attempt) == [Trouble.HELD]
        after = await bench.ensemble(writer.ledger_id)
        assert held in after
        assert other not in after
        assert await bench.marked(writer.ledger_id) == (held,)
        assert {target for _, target, _ in bench.moved()} == {"c"}

    play_repair(scenario)


def test_s88_a_fragment_with_one_copy_left_is_held_like_others() -> None:
    """The design overrides the scenario: one live copy is an alert, and no exemption."""

    async def scenario(bench: Bench) -> None:
        writer = await bench.written(20)
        lost = [one for one in writer.ensemble if bench.zone(one) != "a"]
        await bench.lose(*lost)
        await bench.hold("b")
        await bench.hold("c")
        attempt = await bench.attempt(writer.ledger_id, *lost)
        assert set(troubles(attempt)) == {Trouble.HELD}
        assert bench.metrics.all_bytes_moved == 0

    play_repair(scenario)


def test_s86_a_zone_that_was_given_up_is_repaired_into_those_that_are_left() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(20)
        zone = bench.zone(writer.ensemble[0])
        gone = [m.id for m in bench.lab.machines.values() if m.location.zone == zone]
        await bench.lose(*gone)
        assert (await bench.attempt(writer.ledger_id, *gone)).done
        after = await bench.ensemble(writer.ledger_id)
        assert zone not in {bench.zone(one) for one in after}
        assert await bench.lacks(writer.ledger_id) == []

    play_repair(scenario)


def test_s89_an_entry_that_nobody_living_has_stays_marked_and_costs_no_bytes() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(20)
        await bench.lose(*writer.ensemble)
        attempt = await bench.attempt(writer.ledger_id, writer.ensemble[0])
        assert troubles(attempt) == [Trouble.NO_SOURCE]
        assert await bench.marked(writer.ledger_id) == (writer.ensemble[0],)
        await bench.bring_back(writer.ensemble[1])
        await asyncio.sleep(15)  # until links that were refused try again
        assert (await bench.repairer.attempt(writer.ledger_id)).done

    play_repair(scenario)


def test_s90_where_too_few_bookies_are_left_the_ledger_stays_as_it_is_until_one_comes() -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench)
        attempt = await bench.attempt(writer.ledger_id, lost)
        assert troubles(attempt) == [Trouble.NO_TARGET]
        assert await bench.ensemble(writer.ledger_id) == writer.ensemble
        await bench.bring_back(lost)
        assert (await bench.repairer.attempt(writer.ledger_id)).done

    play_repair(scenario, bookies_in={"a": 1, "b": 1, "c": 1})


def test_s95_a_replacement_stands_in_as_many_zones_as_what_was_lost() -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(6):
            writer = await bench.written(3)
            lost = writer.ensemble[1]
            await bench.lose(lost)
            assert (await bench.attempt(writer.ledger_id, lost)).done
            after = await bench.ensemble(writer.ledger_id)
            assert {bench.zone(one) for one in after} == {"a", "b", "c"}
            await bench.bring_back(lost)

    play_repair(scenario)


# ── the pace ──


def test_the_policys_bytes_a_second_are_kept_and_a_new_rate_is_obeyed() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(30, size=100_000)
        lost = writer.ensemble[0]
        await bench.lose(lost)
        began_s = asyncio.get_running_loop().time()
        assert (await bench.attempt(writer.ledger_id, lost)).done
        took_s = asyncio.get_running_loop().time() - began_s
        # The first carrier is free, the last second is not over when the last one is sent.
        assert took_s >= 1.8

    play_repair(scenario, given=rules(repair=RepairRules(bytes_per_second=1 << 20)))


def test_a_window_is_never_more_than_the_loop_can_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        writer, lost = await lost_one(bench, count=50)
        assert (await bench.attempt(writer.ledger_id, lost)).done
        target = (await bench.ensemble(writer.ledger_id))[0]
        assert max(len(item.frame) for item in bench.lab.door(target).appended) == 8
        assert await bench.lacks(writer.ledger_id) == []

    monkeypatch.setattr(copying, "WINDOW_ENTRIES", 8)
    play_repair(scenario)
