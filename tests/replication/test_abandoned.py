"""Ledgers whose writers are gone, with autorecovery at work over real bookies."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

from tests.replication import recovery_lab
from tests.replication.recovery_lab import QUICK, Recovering
from tests.replication.repair_lab import payload
from tests.support import playing
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.cluster import policy_store, repair_controls, timeline
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers, presences, set_back
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.units import MINUTE_MS
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.wire.formats import errors as wire_errors

AFTER_S = 180
#: A look each minute, and a second look at the end of each ledger.
LOOKS_S = 130
PASSWORD = b"secret"

RULES = recovery_lab.rules(dataclasses.replace(QUICK, abandoned_after_ms=AFTER_S * 1_000))


class Dying:
    """A process that writes, and that a test ends as a power loss does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def store(self) -> MemoryStore:
        store = self.client.cluster.store
        assert isinstance(store, MemoryStore)
        return store

    async def written(self, count: int = 5) -> Writer:
        writer = await self.client.create(password=PASSWORD)
        for number in range(count):
            await writer.append(payload(number))
        await writer.flush()
        await asyncio.sleep(0.5)
        return writer

    async def die(self, *writers: Writer) -> None:
        self.store.cut()
        for writer in writers:
            writer.halt()
        await asyncio.sleep(20)  # its session runs out


async def is_open(world: Recovering, writer: Writer) -> bool:
    return not (await world.ledger(writer.ledger_id)).is_closed


def play(
    scenario: Callable[[Recovering, Dying], Awaitable[None]], *, given: Policy = RULES
) -> None:
    """Play a scenario with a process that is to die."""

    async def staged(world: Recovering) -> None:
        async with world.lab.client("dying") as client:
            await scenario(world, Dying(client))

    recovery_lab.play(staged, given=given)


played = playing.by(play, parts=2)


@played()
async def test_s145_the_ledger_of_a_dead_writer_is_closed_and_keeps_what_was_acknowledged(
    world: Recovering, process: Dying
) -> None:
    writer, other = await process.written(), await world.written(closed=False)
    async with world.process("auto-0") as auto, world.process("auto-1", "b") as second:
        await process.die(writer)
        await asyncio.sleep(AFTER_S - 80)
        assert await is_open(world, writer)
        await asyncio.sleep(80 + LOOKS_S)
        assert await world.readable(writer.ledger_id) == 5
        assert await is_open(world, other)
        counted = [each.auditor.metrics.abandoned_closed_total for each in (auto, second)]
        assert sorted(counted) == [0, 1]
        await asyncio.sleep(70)
        assert [each.auditor.metrics.abandoned_ledgers for each in (auto, second)] == [0, 0]
        (told,) = [one for one in await timeline.newest(world.cluster) if one.kind == "closed"]
        assert told.reason.startswith(f"ledgers were closed: {writer.ledger_id};")
    await other.append_and_wait(payload(10))


@played(given=recovery_lab.rules())
async def test_without_the_rule_no_ledger_is_closed(world: Recovering, process: Dying) -> None:
    writer = await process.written()
    async with world.process("auto-0"):
        await process.die(writer)
        await asyncio.sleep(AFTER_S * 4)
        assert await is_open(world, writer)
        await policy_store.write(world.cluster, RULES, replaces=1)
        await asyncio.sleep(AFTER_S + 2 * LOOKS_S)
        assert await world.readable(writer.ledger_id) == 5


@played(
    given=recovery_lab.rules(
        dataclasses.replace(
            QUICK,
            abandoned_after_ms=AFTER_S * 1_000,
            checks=dataclasses.replace(QUICK.checks, bookies_ms=2 * MINUTE_MS),
        )
    )
)
async def test_listings_that_come_more_often_than_the_time_is_long_begin_nothing_anew(
    world: Recovering, process: Dying
) -> None:
    writer = await process.written()
    async with world.process("auto-0"):
        await process.die(writer)
        await asyncio.sleep(AFTER_S + LOOKS_S)
        assert not await is_open(world, writer)


@played()
async def test_a_writer_that_lost_its_session_and_goes_on_is_not_fenced(
    world: Recovering, process: Dying
) -> None:
    writer = await process.written()
    process.store.cut()
    async with world.process("auto-0"):
        for number in range(5, 5 + (AFTER_S + LOOKS_S) // 20):
            await writer.append_and_wait(payload(number))
            await asyncio.sleep(20)
        assert await is_open(world, writer)
        process.store.mend()
        await asyncio.sleep(AFTER_S + LOOKS_S)  # quiet, and with a session
        await writer.append_and_wait(payload(99))
        await writer.close()


@played()
async def test_nothing_is_closed_while_repair_is_off_and_then_what_is_due(
    world: Recovering, process: Dying
) -> None:
    writer = await process.written()
    async with world.process("auto-0"):
        await repair_controls.set_enabled(world.cluster, enabled=False)
        await process.die(writer)
        await asyncio.sleep(AFTER_S + 2 * LOOKS_S)
        assert await is_open(world, writer)
        await repair_controls.set_enabled(world.cluster, enabled=True)
        await asyncio.sleep(LOOKS_S)
        assert not await is_open(world, writer)


@played()
async def test_nothing_is_closed_where_the_metadata_was_set_back(
    world: Recovering, process: Dying
) -> None:
    writer = await process.written()
    seen = StoreEvidence(bookie=BookieId("bk-a-0"), kind=EvidenceKind.STARTS, known=9, found=1)
    assert await set_back.mark(world.cluster, (seen,), now_ms=0)
    async with world.process("auto-0"):
        await process.die(writer)
        await asyncio.sleep(AFTER_S + 2 * LOOKS_S)
        assert await is_open(world, writer)


@played()
async def test_a_ledger_whose_id_is_used_again_belongs_to_its_new_writer(
    world: Recovering, process: Dying
) -> None:
    chosen = LedgerId(1 << 40)
    writer = await process.client.create(password=PASSWORD, ledger_id=chosen)
    async with world.process("auto-0"):
        await process.die(writer)
        await asyncio.sleep(AFTER_S - 40)
        await world.client.delete(chosen)
        fresh = await world.client.create(password=PASSWORD, ledger_id=chosen)
        await asyncio.sleep(40 + 2 * LOOKS_S)
        assert await is_open(world, fresh)
        await fresh.append_and_wait(payload(0))


@played()
async def test_a_ledger_that_names_no_presence_is_left_alone(
    world: Recovering, process: Dying
) -> None:
    writer = await process.written()

    def unnamed(ledger: LedgerMetadata) -> LedgerMetadata:
        kept = tuple(pair for pair in ledger.custom if pair[0] != presences.KEY)
        return dataclasses.replace(ledger, custom=kept)

    await ledgers.change(world.cluster, writer.ledger_id, unnamed)
    async with world.process("auto-0"):
        await process.die(writer)
        await asyncio.sleep(AFTER_S + 2 * LOOKS_S)
        assert await is_open(world, writer)


@played()
async def test_a_ledger_that_no_quorum_of_bookies_answers_for_is_closed_when_they_are_back(
    world: Recovering, process: Dying
) -> None:
    writer = await process.written()
    away = [world.lab.machines[who] for who in writer.ensemble[1:]]
    async with world.process("auto-0"):
        await process.die(writer)
        await asyncio.sleep(AFTER_S - 100)
        for door in away:
            door.doorway.fence_error = wire_errors.ReadOnly("the test's")
        await asyncio.sleep(100 + LOOKS_S)
        assert await is_open(world, writer)
        for door in away:
            door.doorway.fence_error = None
        await asyncio.sleep(LOOKS_S)
        assert await world.readable(writer.ledger_id) == 5
