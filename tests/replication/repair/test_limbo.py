"""A bookie with a new disk under its old name: it denies nothing until all is there again.

Numbers in comments are those of docs/scenarios.md.
"""

import asyncio
from collections.abc import Iterable

import pytest

from tests.client.lab import Door
from tests.replication import recovery_lab
from tests.replication.recovery_lab import Recovering
from tests.replication.repair_lab import (
    KEY,
    STRIPED,
    Bench,
    go_on_elsewhere,
    played,
    troubles,
)
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.ledgers import underreplication, vouchers
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.repair import limbo
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors
from zonekeeper.wire.host.serving import Host


async def says(door: Door, ledger_id: LedgerId, number: int) -> str:
    """Ask a bookie for one entry: ``yes``, ``no``, or ``unknown``."""
    request = service.ReadRequest(
        ledger_id=ledger_id,
        first_entry_id=EntryId(number),
        last_entry_id=EntryId(number),
        bytes_max=1,
        key=KEY,
    )
    try:
        reply = await door.bookie.read(request)
    except errors.Negative:
        return "no"
    except errors.ProtocolError:
        return "unknown"
    if reply.frames:
        return "yes"
    return "no" if reply.next_entry_id > number else "unknown"


async def forgets(bench: Bench, bookie: BookieId) -> None:
    """Lose a bookie's disk for good, and start it on an empty one."""
    await bench.lose(bookie)
    await bench.lab.machines[bookie].replace_disk()
    await bench.bring_back(bookie)


@pytest.mark.parametrize("quorums", [None, STRIPED])
@played(bookies_in={"a": 3, "b": 3, "c": 3})
async def test_a_lost_disk_is_filled_in_place_and_then_the_bookie_answers(
    bench: Bench, quorums: Quorums | None
) -> None:
    writer = await bench.written(40, quorums=quorums)
    forgetful, before = writer.ensemble[0], await bench.ensemble(writer.ledger_id)
    await forgets(bench, forgetful)
    door = bench.lab.door(forgetful)
    assert await says(door, writer.ledger_id, 0) == "unknown"
    assert (await bench.attempt(writer.ledger_id, forgetful)).done
    assert await bench.ensemble(writer.ledger_id) == before, "nobody was replaced"
    assert await bench.lacks(writer.ledger_id) == []
    assert await says(door, writer.ledger_id, 40) == "no", "it answers for all of it again"
    assert bench.metrics.limbos_ended == 1
    assert await bench.marked(writer.ledger_id) is None


@played()
async def test_limbo_ends_only_after_every_copy_is_on_the_disk(bench: Bench) -> None:
    writer = await bench.written(10)
    forgetful = writer.ensemble[0]
    await forgets(bench, forgetful)
    door = bench.lab.door(forgetful)
    door.holding = True
    attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, forgetful))
    for _ in range(20):
        await asyncio.sleep(0.1)
        assert await says(door, writer.ledger_id, 3) == "unknown"
        assert await says(door, writer.ledger_id, 10) == "unknown"
    door.release()
    assert (await attempt).done
    assert await says(door, writer.ledger_id, 3) == "yes"
    assert await says(door, writer.ledger_id, 10) == "no"


@played()
async def test_limbo_stays_where_one_entry_has_no_source(bench: Bench) -> None:
    writer = await bench.written(10)
    forgetful, *others = writer.ensemble
    await forgets(bench, forgetful)
    for one in others:
        bench.lab.door(one).read_error = errors.IoFailed("the test's")
    attempt = await bench.attempt(writer.ledger_id, forgetful)
    assert troubles(attempt) == [RepairTrouble.NO_SOURCE]
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 0) == "unknown"
    assert await bench.marked(writer.ledger_id) == (forgetful,)


@played()
async def test_nothing_is_filled_in_while_the_bookies_zone_is_held(bench: Bench) -> None:
    writer = await bench.written(10)
    forgetful = writer.ensemble[0]
    await forgets(bench, forgetful)
    zone = bench.zone(forgetful)
    await bench.hold(zone)
    attempt = await bench.attempt(writer.ledger_id, forgetful)
    assert troubles(attempt) == [RepairTrouble.HELD]
    assert bench.metrics.all_bytes_moved == 0
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 0) == "unknown"
    await bench.open(zone)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 0) == "yes"


@played()
async def test_an_open_ledger_whose_writer_is_gone_is_recovered_before_limbo_ends(
    bench: Bench,
) -> None:
    writer = await bench.written(10, closed=False)
    forgetful = writer.ensemble[0]
    await forgets(bench, forgetful)
    assert troubles(await bench.attempt(writer.ledger_id, forgetful)) == [RepairTrouble.OPEN]
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 10) == "unknown"
    await asyncio.sleep(31)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert (await bench.ledger(writer.ledger_id)).last_entry == 9
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_writer_that_went_on_elsewhere_is_not_disturbed(bench: Bench) -> None:
    writer = await bench.written(10, closed=False)
    forgetful = writer.ensemble[0]
    await bench.lose(forgetful)
    await go_on_elsewhere(writer, 10)
    await bench.lab.machines[forgetful].replace_disk()
    await bench.bring_back(forgetful)
    assert (await bench.attempt(writer.ledger_id, forgetful)).done
    assert not (await bench.ledger(writer.ledger_id)).is_closed
    await writer.append(b"goes on")
    await writer.flush()


@played()
async def test_a_ledger_that_was_never_in_limbo_is_not_recovered_for_a_doubt(bench: Bench) -> None:
    writer = await bench.written(10, closed=False)
    await bench.attempt(writer.ledger_id, writer.ensemble[0])
    await asyncio.sleep(60)
    assert (await bench.attempt(writer.ledger_id, writer.ensemble[0])).done
    assert not (await bench.ledger(writer.ledger_id)).is_closed


@played()
async def test_a_start_in_between_leaves_it_in_limbo(bench: Bench) -> None:
    writer = await bench.written(10)
    forgetful, pool = writer.ensemble[0], bench.client.bookies.pool
    await forgets(bench, forgetful)
    found = await limbo.find(pool, writer.ledger_id, KEY, [forgetful])
    assert found.boots == {forgetful: 2}
    await forgets(bench, forgetful)
    cluster, worker = bench.client.cluster, BookieId("worker")
    await underreplication.mark(cluster, writer.ledger_id, [forgetful], at_ms=0)
    claim = await underreplication.claim(cluster, writer.ledger_id, worker)
    assert claim is not None
    with pytest.raises(errors.StartedAgain, match="start 2 and is in 3 now"):
        await limbo.end(cluster, pool, claim, forgetful, 2)
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 0) == "unknown"
    assert await vouchers.read(cluster, writer.ledger_id, forgetful) is None, "it is taken back"


@played()
async def test_s117_nobody_but_a_repair_ends_a_limbo(bench: Bench) -> None:
    """Else a stranger and one more lost disk make a recovery deny what was acknowledged."""
    writer = await bench.written(10, closed=False)
    forgetful, pool = writer.ensemble[0], bench.client.bookies.pool
    await forgets(bench, forgetful)
    link = await pool.link(forgetful)
    boot_epoch = (await link.info()).boot_epoch
    with pytest.raises(errors.NotVouched, match="no repair vouches for ledger"):
        await link.end_limbo(writer.ledger_id, boot_epoch)
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 0) == "unknown"
    await bench.attempt(writer.ledger_id, forgetful)
    await asyncio.sleep(31)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await says(bench.lab.door(forgetful), writer.ledger_id, 9) == "yes"
    directory = bench.client.cluster.root.beside("vouchers")
    assert await bench.client.cluster.store.children(directory) == ()


@played()
async def test_who_does_not_say_whether_it_is_in_limbo_is_left_for_later(bench: Bench) -> None:
    writer = await bench.written(10)
    silent = writer.ensemble[0]
    bench.lab.network.take_down(silent)
    attempt = await bench.attempt(writer.ledger_id, silent)
    assert troubles(attempt) == [RepairTrouble.NO_SOURCE]
    assert await bench.marked(writer.ledger_id) == (silent,)
    bench.lab.network.put_up(silent, Host(bench.lab.door(silent)))


# ── the auditor, and all of it together ──


async def never_denied(door: Door, written: Iterable[Writer], counts: int) -> None:
    while True:
        for writer in written:
            for number in range(counts):
                assert await says(door, writer.ledger_id, number) != "no"
        await asyncio.sleep(0.5)


@recovery_lab.played()
async def test_a_bookie_that_forgot_is_whole_again_without_anybodys_order(
    world: Recovering,
) -> None:
    closed = [await world.written(10) for _ in range(12)]
    open_one = await world.written(10, closed=False)
    forgetful = max(open_one.ensemble, key=lambda who: sum(who in one.ensemble for one in closed))
    concerned = [one for one in (*closed, open_one) if forgetful in one.ensemble]
    assert len(concerned) > 3
    async with world.process("auto-0") as process, world.process("auto-1", "b"):
        machine = world.lab.machines[forgetful]
        await machine.crash()
        await machine.replace_disk()
        await machine.start()
        watching = world.tasks.create_task(never_denied(machine.doorway, concerned, 10))

        async def remembers() -> bool:
            record = await bookie_records.read(world.cluster, forgetful)
            return record.lost_data is None

        await world.until(remembers, 600)
        watching.cancel()
        assert await world.marks() == []
        for writer in concerned:
            assert await says(machine.doorway, writer.ledger_id, 9) == "yes"
            assert await says(machine.doorway, writer.ledger_id, 10) == "no"
            assert forgetful in (await world.ledger(writer.ledger_id)).bookies
        assert (await world.ledger(open_one.ledger_id)).is_closed
        for writer in (*closed, open_one):
            assert await world.readable(writer.ledger_id) == 10
        assert process.view.forgetful == {}


@recovery_lab.played()
async def test_a_bookie_that_forgets_again_says_so_again(world: Recovering) -> None:
    writer = await world.written(10)
    forgetful = writer.ensemble[0]
    machine = world.lab.machines[forgetful]
    async with world.process("auto-0"):
        for boot in (2, 3):
            await machine.crash()
            await machine.replace_disk()
            await machine.start()
            assert machine.boots == boot
            await bookie_records.has_all_again(world.cluster, forgetful, boot - 1)
            record = await bookie_records.read(world.cluster, forgetful)
            assert record.lost_data == boot, "what was said of another start takes nothing back"

            async def answers() -> bool:
                return await says(machine.doorway, writer.ledger_id, 10) == "no"

            await world.until(answers, 600)
            assert await says(machine.doorway, writer.ledger_id, 9) == "yes"
