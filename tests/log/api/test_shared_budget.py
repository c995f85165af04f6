"""Logs of one client share one byte budget, and none stands still because of another."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.client.lab import Lab, played
from tests.log.logging_lab import NEW, WallClock, message, numbers
from zonekeeper.log.api import log_writer
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.metadata.formats.log_record import LogWriterMark
from zonekeeper.metadata.logs import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zonekeeper.client.api.client import Client
    from zonekeeper.log.api.log_writer import LogWriter


@asynccontextmanager
async def opened(client: "Client", name: str, budget: LogBudget) -> "AsyncIterator[LogWriter]":
    await logs.create(client.cluster, name, replace(NEW))
    mark = LogWriterMark(token=name)
    async with log_writer.opened(client, name, mark, WallClock(), budget=budget) as writer:
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
