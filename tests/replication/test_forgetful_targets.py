"""A bookie that gets a copy, loses its disk and comes back under its name before a ledger names it.

It is not in limbo for that ledger, and denies what it took: nobody may count it in.
"""

import asyncio
from collections.abc import Sequence

import pytest

from tests.client.lab import Machine
from tests.replication.repair_lab import Bench, packet_at, play_repair, rules, troubles
from zonekeeper.metadata import ledgers
from zonekeeper.metadata.stores.memory import Kind, MemoryStore, Passage, calm
from zonekeeper.placement.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.policy import RepairRules
from zonekeeper.replication.delivery import Delivery, TargetFailedError
from zonekeeper.replication.repair_metrics import Trouble
from zonekeeper.wire import digests, errors, frames
from zonekeeper.wire.entries import Sealer
from zonekeeper.wire.openings import FragmentOpening

SLOW = RepairRules(bytes_per_second=256 * 1024)
SIZE, COUNT = 100_000, 40
LAST = EntryId(COUNT - 1)
WIDE = {"a": 3, "b": 3, "c": 3}


async def _anew(machine: Machine) -> None:
    """A bookie loses its disk, and starts with an empty one."""
    await machine.crash()
    await machine.replace_disk()
    await machine.start()


async def _who_has(
    bench: Bench, ledger_id: LedgerId, entry_id: EntryId, members: Sequence[BookieId]
) -> Machine:
    """Wait until somebody who is no member has an entry."""
    for _ in range(1_000):
        for machine in bench.lab.machines.values():
            if machine.id not in members and await packet_at(
                bench.lab, machine.id, ledger_id, entry_id
            ):
                return machine
        await asyncio.sleep(0.05)
    raise AssertionError("nobody got it within 50 s")


def test_a_target_that_loses_its_disk_between_two_carriers_is_not_the_one() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(COUNT, size=SIZE)
        lost = writer.ensemble[0]
        await bench.lose(lost)
        attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, lost))
        await _anew(await _who_has(bench, writer.ledger_id, EntryId(0), writer.ensemble))
        assert (await attempt).done
        assert await bench.lacks(writer.ledger_id, size=SIZE) == []

    play_repair(scenario, given=rules(repair=SLOW), bookies_in=WIDE)


def test_a_target_that_loses_its_disk_while_the_swap_is_on_its_way_is_looked_at_again() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(COUNT, size=SIZE)
        lost = writer.ensemble[0]
        await bench.lose(lost)
        store = bench.cluster.store
        assert isinstance(store, MemoryStore)
        attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, lost))
        await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
        store.weather = lambda kind: Passage(there_ms=3_000 if kind is Kind.WRITE else 0)
        target = await _who_has(bench, writer.ledger_id, LAST, writer.ensemble)
        await asyncio.sleep(0.5)
        stored = await ledgers.read(await bench.lab.cluster(), writer.ledger_id, sync=True)
        assert stored is not None
        assert target.id not in stored.metadata.bookies
        await _anew(target)
        store.weather = calm
        assert (await attempt).again
        assert await bench.ensemble(writer.ledger_id) == (target.id, *writer.ensemble[1:])
        assert target.id in (await bench.marked(writer.ledger_id) or ())
        assert (await bench.repairer.attempt(writer.ledger_id)).done
        assert await bench.lacks(writer.ledger_id, size=SIZE) == []

    play_repair(scenario, given=rules(repair=SLOW), bookies_in=WIDE)


def test_what_was_acknowledged_in_another_start_is_not_taken_for_a_copy() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(1)
        target = next(m for m in bench.lab.machines.values() if m.id not in writer.ensemble)
        ledger = await bench.ledger(writer.ledger_id)
        opening = FragmentOpening(
            ledger_id=writer.ledger_id,
            master_key=digests.master_key(ledger.password),
            quorums=bench.client.reading(writer.ledger_id, ledger).quorums,
            digest=ledger.digest,
            first_entry_id=EntryId(0),
            ensemble=(target.id, *writer.ensemble[1:]),
        )
        packet = Sealer(writer.ledger_id, ledger.digest, ledger.password).seal(
            EntryId(0), EntryId(-1), 1, b"x"
        )
        delivery = Delivery(bench.client.bookies, target.id, opening)
        await delivery.check_start()  # nothing was delivered, so that nothing can be missing
        await delivery.put(
            frames.build(writer.ledger_id, [EntryId(0)], [packet], frames.Flags.RECOVERY)
        )
        await delivery.check_start()
        await _anew(target)
        with pytest.raises(TargetFailedError) as failed:
            await delivery.check_start()
        assert isinstance(failed.value.error, errors.StartedAgain)
        await target.crash()
        with pytest.raises(TargetFailedError):
            await delivery.check_start()  # nobody can tell

    play_repair(scenario)


def test_a_member_that_is_started_again_while_its_holes_are_filled_stays_a_member() -> None:
    async def scenario(bench: Bench) -> None:
        writer = await bench.written(COUNT, size=SIZE)
        doubted = bench.lab.machines[writer.ensemble[0]]
        doubted.doorway.read_error = errors.NoSuchEntry("the test's")
        attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, doubted.id))
        await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
        await doubted.crash()
        await doubted.start()
        assert troubles(await attempt) == [Trouble.NO_SOURCE]
        assert await bench.ensemble(writer.ledger_id) == writer.ensemble
        assert (await bench.repairer.attempt(writer.ledger_id)).done

    play_repair(scenario, given=rules(repair=SLOW))
