"""Auto-replication whole: auditor, gate and replicators over real bookies, without orders.

Numbers in comments are those of docs/scenarios.md.
"""

import asyncio
import dataclasses
import itertools
from collections.abc import Callable

import pytest

from tests.replication import recovery_lab
from tests.replication.recovery_lab import QUICK, Recovering, store_of
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.units import MINUTE_MS
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.policy.rules import OnZoneLoss
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.replication.run.autorecovery import Autorecovery

pytestmark = pytest.mark.simulation

PLAIN = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)


async def concerned(world: Recovering, bookie: BookieId, count: int = 8) -> list[Writer]:
    """Write ledgers; give those that a bookie is in."""
    written = [await world.written(10) for _ in range(count)]
    found = [one for one in written if bookie in one.ensemble]
    assert found
    return found


async def all_left(world: Recovering, bookie: BookieId, writers: list[Writer]) -> bool:
    named = [await world.ledger(one.ledger_id) for one in writers]
    return all(bookie not in ledger.bookies for ledger in named)


def losing_every_seventh_write(loss: ExchangeLoss) -> Callable[[RequestKind], Passage]:
    numbers = itertools.count(1)

    def weather(kind: RequestKind) -> Passage:
        hit = kind is RequestKind.WRITE and next(numbers) % 7 == 0
        return Passage(loss=loss if hit else ExchangeLoss.NOTHING)

    return weather


async def is_written_off(world: Recovering, bookie: BookieId) -> bool:
    return (await bookie_records.read(world.cluster, bookie)).written_off is not None


def level(world: Recovering, process: Autorecovery, ledger: LedgerMetadata) -> Level:
    view = process.view
    ensemble = ledger.last_fragment.ensemble
    return adherence.judge(ensemble, PLAIN, view.policy.placement, view.topology).level


@pytest.mark.parametrize("loss", [ExchangeLoss.NOTHING, ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("lag_ms", [0, 2_000])
@recovery_lab.played()
async def test_a_lost_bookie_is_published_repaired_written_off_and_counts_when_it_is_back(
    world: Recovering, loss: ExchangeLoss, lag_ms: int
) -> None:
    # S71, with a store whose answers and requests are lost now and then, and that lags behind.
    lost = BookieId("bk-b-0")
    writers = await concerned(world, lost)
    async with world.process("auto-0") as first, world.process("auto-1", "b") as second:
        for process in (first, second):
            store_of(process).weather = losing_every_seventh_write(loss)
            store_of(process).read_lag_ms = lag_ms
        await world.lab.machines[lost].crash()
        await asyncio.sleep(45)
        assert await world.marks() == [], "nothing before the delay"
        await world.until(lambda: all_left(world, lost, writers), 900)
        await world.until(lambda: is_written_off(world, lost), 600)
        assert await world.marks() == []
        for writer in writers:
            assert await world.readable(writer.ledger_id) == 10
        await world.lab.machines[lost].start()

        async def counts_again() -> bool:
            return not await is_written_off(world, lost)

        await world.until(counts_again, 120)


SOON_LET_GO = dataclasses.replace(
    QUICK, on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=2 * MINUTE_MS
)


@recovery_lab.played(given=recovery_lab.rules(SOON_LET_GO))
async def test_s94_two_zones_of_three_go_on_degraded_and_are_spread_again_when_the_third_is_back(
    world: Recovering,
) -> None:
    async with world.process("auto-0") as process:
        before = await world.written(10)
        await world.lab.crash_zone("c")

        async def given_up() -> bool:
            record = await zone_store.read_zone(world.cluster, ZoneName("c"))
            return record is not None and record.gate.permission is Permission.RELEASED

        await world.until(given_up, 900)
        meanwhile = await world.written(10)
        assert {one[3] for one in meanwhile.ensemble} == {"a", "b"}

        async def repaired() -> bool:
            members = (await world.ledger(before.ledger_id)).last_fragment.ensemble
            return all(one[3] in "ab" for one in members)

        await world.until(repaired, 900)
        for writer in (before, meanwhile):
            ledger = await world.ledger(writer.ledger_id)
            assert level(world, process, ledger) is Level.SOFT, "degraded, and said to be"
        assert process.replicator.metrics.ledgers_respread == 0
        for machine in world.lab.machines.values():
            if machine.door is None:
                await machine.start()

        async def spread() -> bool:
            found = [await world.ledger(one.ledger_id) for one in (before, meanwhile)]
            return all(level(world, process, one) is Level.STRICT for one in found)

        await world.until(spread, 1_800)
        assert process.replicator.metrics.ledgers_respread == 2
        for writer in (before, meanwhile):
            assert await world.readable(writer.ledger_id) == 10


NEEDS_THREE_ZONES = dataclasses.replace(recovery_lab.rules().placement, min_zones=3)


@recovery_lab.played(given=dataclasses.replace(recovery_lab.rules(), placement=NEEDS_THREE_ZONES))
async def test_s94_rules_that_one_lost_zone_would_bring_to_a_stop_are_refused_with_the_reason(
    world: Recovering,
) -> None:
    with pytest.raises(errors.ClientError, match=r"placement\.minZones: 3: .* loss of one zone"):
        await world.client.create()


@recovery_lab.played()
async def test_no_spreading_is_marked_or_done_while_anything_is_held(world: Recovering) -> None:
    await world.lab.crash_zone("c")
    await asyncio.sleep(20)
    meanwhile = await world.written(10)
    for machine in world.lab.machines.values():
        if machine.door is None:
            await machine.start()
    async with world.process("auto-0") as process:
        await world.lab.crash_zone("b")
        auditor = process.auditor.metrics

        async def checked() -> bool:
            return auditor.ledgers_by_placement[Level.SOFT.name] == 1

        await world.until(checked, 1_200)
        await asyncio.sleep(600)
        assert auditor.respread_marked_total == 0
        assert await world.marks() == []
        for machine in world.lab.machines.values():
            if machine.door is None:
                await machine.start()

        async def spread() -> bool:
            ledger = await world.ledger(meanwhile.ledger_id)
            return level(world, process, ledger) is Level.STRICT

        await world.until(spread, 1_500)


@recovery_lab.played()
async def test_s96_a_whole_zones_or_clusters_loss_of_power_loses_nothing_that_was_acknowledged(
    world: Recovering,
) -> None:
    for gone in (["c"], ["a", "b", "c"]):
        closed = await world.written(10)
        tail = await world.client.create(password=b"secret")
        for number in range(40):
            tail.append_nowait(b"%d" % number)
        await tail.flushed(EntryId(20))
        acked = tail.last_confirmed
        for zone in gone:
            await world.lab.crash_zone(zone)
        for machine in world.lab.machines.values():
            if machine.door is None:
                await machine.start()
        await asyncio.sleep(15)
        assert await world.readable(closed.ledger_id) == 10
        reader = await world.client.open(tail.ledger_id, password=b"secret", recover=True)
        assert reader.metadata.last_entry >= acked >= 20
        number = 0
        async for batch in reader.read(0, reader.metadata.last_entry):
            for entry in batch:
                assert bytes(entry.payload) == b"%d" % number
                number += 1
        assert number == reader.metadata.last_entry + 1
        tail.halt()
