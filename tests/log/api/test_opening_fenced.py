"""A writer whose first ledger is recovered before its opening entry is there."""

import asyncio
from collections.abc import Callable

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NAME, check_whole, create, message, numbers, record_of, writing
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.formats.log_record import LogRecord, LogTaken
from zonekeeper.metadata.logs import logs


def hold(lab: Lab, *, holding: bool) -> None:
    """Let bookies take no entry, or all that they were sent."""
    for machine in lab.machines.values():
        machine.doorway.holding = holding
        if not holding:
            machine.doorway.release()


async def until(lab: Lab, seen: Callable[[LogRecord], bool]) -> LogRecord:
    async with logs.watch(await lab.cluster(), NAME) as records:
        async for record in records:
            if record is not None and seen(record):
                return record
    raise AssertionError("a watch has no end")


async def write(client: Client, token: str, first: int, count: int) -> None:
    async with writing(client, token) as writer:
        await writer.append_many(numbers(first, count))


@played()
async def test_a_replicator_that_recovers_it_does_not_take_the_log(lab: Lab) -> None:
    await create(lab)
    hold(lab, holding=True)
    async with (
        lab.client() as client,
        lab.client("replicator") as replicator,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(write(client, "first", 0, 5))
        record = await until(lab, lambda one: bool(one.ledgers))
        await replicator.open(record.ledgers[0].id, recover=True)
        hold(lab, holding=False)
    await check_whole(lab, 5)
    assert (await record_of(lab)).epoch == 1


@played()
async def test_a_contender_that_recovers_it_takes_the_log_and_the_writer_hears_so(
    lab: Lab,
) -> None:
    await create(lab)
    hold(lab, holding=True)

    async def loses(client: Client) -> None:
        with pytest.raises(LogTaken):
            await write(client, "first", 1_000, 5)

    async with (
        lab.client() as client,
        lab.client("second") as second,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(loses(client))
        await until(lab, lambda one: bool(one.ledgers))
        tasks.create_task(write(second, "second", 0, 5))
        await until(lab, lambda one: one.ledgers[-1:] != () and one.ledgers[-1].epoch == 2)
        hold(lab, holding=False)
    found = await check_whole(lab, 5)
    assert found[0].message == message(0)
