"""A log with deferred sync: acknowledged in memory, and lasting once it was forced."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import (
    SHORT,
    SILENT,
    check_whole,
    create,
    message,
    numbers,
    read_all,
    record_of,
    writing,
)
from zonekeeper.client.api.client import Client
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.metadata.formats.log_record import LogRules, LogTaken
from zonekeeper.placement.base.quorums import Quorums

ALL: Final = Quorums(ensemble=3, write=3, ack=3)


class Dies(Exception):
    """What ends a writer here, as a kill would."""


deferring = partial(writing, deferred_sync=True)


async def lose_power(lab: Lab) -> None:
    """Take what no bookie has synced, and start all of them again."""
    for machine in lab.machines.values():
        await machine.crash()
    for machine in lab.machines.values():
        await machine.start()


async def sequences(client: Client) -> list[int]:
    return [one.sequence for one in await read_all(client)]


@played()
async def test_stored_is_not_shown_before_a_force_and_all_is_after_it(lab: Lab) -> None:
    await create(lab)
    async with (
        lab.client("writer", SILENT) as client,
        lab.client("reader") as other,
        deferring(client) as writer,
    ):
        await writer.append_many(numbers(0, 10))
        await writer.stored(9)
        assert writer.first_unstored == 10
        await asyncio.sleep(60)
        assert await sequences(other) == [], "nothing was forced"
        await writer.force()
        await asyncio.sleep(1)
        assert await sequences(other) == list(range(10))
        await lose_power(lab)
        await writer.append_and_wait(message(10))
        assert await sequences(other) == list(range(11)), "flushed has it forced"
    await check_whole(lab, 11)


@played()
async def test_what_was_forced_outlives_the_writer_and_a_loss_of_power(lab: Lab) -> None:
    """Nothing was sent yet when the force is called: it waits for all that was appended."""
    await create(lab)

    async def write(client: Client) -> None:
        async with deferring(client, "dies") as writer:
            await writer.append_many(numbers(0, 100))
            await writer.force()
            assert writer.first_unstored == 100
            raise Dies

    async with lab.client("dies", SILENT) as client:
        with suppress(Dies):
            await write(client)
        await lose_power(lab)
    async with lab.client("next") as client, deferring(client, "next") as writer:
        assert writer.next_sequence == 100
    await check_whole(lab, 100)


@played()
async def test_without_deferred_sync_a_force_waits_until_all_is_stored(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client, writing(client) as writer:
        await writer.force()
        await writer.append_many(numbers(0, 10))
        await writer.force()
        assert writer.first_unstored == 10


@played()
async def test_what_a_loss_of_power_took_is_sent_again_while_the_writer_lives(lab: Lab) -> None:
    """The ledger is recovered meanwhile, and has lost what was stored."""
    await create(lab)
    async with (
        lab.client("writer", SILENT) as client,
        lab.client("replicator") as replicator,
        deferring(client) as writer,
    ):
        await writer.append_many(numbers(0, 5))
        await writer.force()
        await writer.append_many(numbers(5, 5))
        await writer.stored(9)
        ledger = (await record_of(lab)).ledgers[-1].id
        await lose_power(lab)
        await asyncio.sleep(5)
        recovered = await replicator.open(ledger, recover=True)
        assert recovered.last_confirmed <= 2, "an opening, and the batch that was forced"
        await writer.append_many(numbers(10, 5))
        await writer.force()
    await check_whole(lab, 15)


@played()
async def test_a_ledger_is_forced_before_its_end_is_noted(lab: Lab) -> None:
    """The writer dies, and power is lost: ledgers that have an end lack nothing."""
    await create(lab, SHORT)

    async def write(client: Client) -> None:
        async with deferring(client, "dies") as writer:
            for number in range(35):
                await writer.append_and_wait(message(number), stored=True)
            raise Dies

    async with lab.client("dies", SILENT) as client:
        with suppress(Dies):
            await write(client)
    ended = sum(one.end.messages for one in (await record_of(lab)).ledgers if one.end is not None)
    assert ended >= 20
    await lose_power(lab)
    async with lab.client("next") as client, deferring(client, "next") as writer:
        assert writer.next_sequence >= ended
        first = writer.next_sequence
        await writer.append_many(numbers(first, 10))
    await check_whole(lab, first + 10)


@played()
async def test_a_deferred_log_forces_when_the_budget_is_spent(lab: Lab) -> None:
    await create(lab)
    budget = LogBudget(1_000)
    async with lab.client("writer", SILENT) as client, deferring(client, budget=budget) as writer:
        async with asyncio.timeout(60):
            for number in range(200):
                await writer.append(message(number))
                await asyncio.sleep(0.01)
        await writer.force()
        assert budget.used_bytes == 0
    await check_whole(lab, 200)


async def overtaken(client: Client, other: Client) -> None:
    async with deferring(client) as writer:
        await writer.append_many(numbers(0, 10))
        await writer.stored(9)
        async with deferring(other, "second") as second:
            assert second.next_sequence == 10, "an ack quorum has it in memory"
            await second.append_many(numbers(10, 5))
        await writer.append(message(999))
        await writer.force()


@played()
async def test_a_deferred_writer_that_is_taken_over_yields(lab: Lab) -> None:
    await create(lab)
    async with lab.client("first") as client, lab.client("second") as other:
        with pytest.raises(LogTaken):
            await overtaken(client, other)
    await check_whole(lab, 15)


@played(bookies_in={"a": 1, "b": 1, "c": 2})
async def test_a_member_that_writes_and_does_not_force_is_replaced(lab: Lab) -> None:
    """It is behind in nothing that it was sent, so no rule of the log speaks of it."""
    await create(lab, LogRules(quorums=ALL, downgrade_lag_ms=1_000))
    async with lab.client("writer", SILENT) as client, deferring(client) as writer:
        await writer.append_many(numbers(0, 10))
        await writer.force()
        ledger = (await record_of(lab)).ledgers[-1].id
        stuck = (await client.metadata(ledger)).last_fragment.ensemble[2]
        lab.door(stuck).hold_forces = asyncio.Event()
        await writer.append_many(numbers(10, 10))
        async with asyncio.timeout(10):
            await writer.force()
        assert stuck not in (await client.metadata(ledger)).last_fragment.ensemble
    await check_whole(lab, 20)


@played()
async def test_a_deferred_ledger_is_rotated_by_its_age_though_nothing_comes(lab: Lab) -> None:
    await create(lab, LogRules(rotate_after_ms=60_000))
    async with lab.client("writer", SILENT) as client, deferring(client) as writer:
        await writer.append_many(numbers(0, 5))
        await writer.stored(4)
        await asyncio.sleep(61)
        first, second = (await record_of(lab)).ledgers
        assert first.end is not None
        assert first.end.messages == 5
        assert second.end is None
    await check_whole(lab, 5)
