"""Logs of one client share one byte budget, and none stands still because of another."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.client.lab import Lab, played
from tests.log.logging_lab import NEW, create, message, numbers, writing
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.sessions.writing_state import TURN_BYTES
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.metadata.logs import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zonekeeper.client.api.client import Client
    from zonekeeper.log.api.log_writer import LogWriter

#: Uses up a turn of the event loop.
LARGE = LogMessage(payload=bytes(TURN_BYTES))


@asynccontextmanager
async def opened(client: "Client", name: str, budget: LogBudget) -> "AsyncIterator[LogWriter]":
    await logs.create(client.cluster, name, replace(NEW))
    async with writing(client, name=name, budget=budget) as writer:
        yield writer


async def appended(writer: "LogWriter") -> int:
    """Append until an append has to wait; the number of messages."""
    count = 0
    try:
        async with asyncio.timeout(1):
            while True:
                await writer.append(message(count))
                count += 1
    except TimeoutError:
        return count


@played()
async def test_a_log_that_has_spent_the_budget_leaves_one_message_to_each_other(lab: Lab) -> None:
    budget = LogBudget(1_000)
    async with (
        lab.client() as client,
        opened(client, "one", budget) as one,
        opened(client, "two", budget) as two,
    ):
        doors = [machine.doorway for machine in lab.machines.values()]
        for door in doors:
            door.holding = True
        assert await appended(one) > 10
        assert await appended(two) == 1
        assert not budget.is_short, "no call waits any more"
        for door in doors:
            door.release()
        await one.append_many(numbers(0, 100))
        await two.append_many(numbers(0, 100))
    assert budget.used_bytes == 0


@played()
async def test_an_append_goes_on_when_another_call_used_up_its_turn_of_the_loop(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client, writing(client) as writer:
        await writer.append(LARGE)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(writer.append(message(1)))
            group.create_task(writer.append(LARGE))
        assert writer.next_sequence == 3


@played()
async def test_all_appends_that_wait_for_room_get_some(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client, writing(client, budget=LogBudget(2 * TURN_BYTES)) as writer:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(7):
                group.create_task(writer.append(LARGE))
        assert writer.next_sequence == 7


@played()
async def test_a_list_takes_no_more_of_the_budget_than_its_messages_one_by_one(lab: Lab) -> None:
    budget = LogBudget(1_000)
    doors = [machine.doorway for machine in lab.machines.values()]
    async with lab.client() as client, opened(client, "one", budget) as one:
        for door in doors:
            door.holding = True
        async with asyncio.TaskGroup() as group:
            group.create_task(one.append_many(list(numbers(0, 200))))
            await asyncio.sleep(1)
            held, count = budget.used_bytes, one.next_sequence
            for door in doors:
                door.holding = False
                door.release()
    assert held <= budget.limit_bytes
    assert 10 < count < 100
    assert (one.next_sequence, budget.used_bytes) == (200, 0)
