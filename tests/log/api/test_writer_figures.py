"""What the writers of a client count."""

import asyncio
import random
from contextlib import suppress

import pytest

from tests.client.lab import Lab, played, policy
from tests.log.api.test_downgrade import RULES
from tests.log.logging_lab import (
    NAME,
    SHORT,
    WallClock,
    append_each,
    message,
    numbers,
    until_begins,
)
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.errors import LogEnded
from zonekeeper.metadata.formats.log_record import LogTaken


class Dies(Exception):
    """What ends a writer here, as a kill would."""


def logs_of(client: Client, seed: int = 1) -> LogClient:
    return LogClient(client, Surroundings(random.Random(seed), WallClock()))


@played()
async def test_messages_batches_and_rotations_are_counted_when_acknowledged(lab: Lab) -> None:
    async with lab.client() as client:
        logs = logs_of(client)
        await logs.create(NAME, SHORT)
        async with logs.writer(NAME) as writer:
            figures = logs.figures.writers
            assert figures.open_now == 1
            for door in (machine.doorway for machine in lab.machines.values()):
                door.holding = True
            await writer.append_many(list(numbers(0, 5)))
            held = logs.figures.writers.unsent_bytes_now
            assert held > 0
            assert figures.messages_total == 0
            for door in (machine.doorway for machine in lab.machines.values()):
                door.holding = False
                door.release()
            await writer.stored(4)
            assert (figures.messages_total, figures.batches_total) == (5, 1)
            assert figures.bytes_total == held
            assert logs.figures.writers.unsent_bytes_now == 0
            cluster = await lab.cluster()
            await append_each(cluster, writer, numbers(5, 5), every=10)
            await until_begins(cluster, 10)
            await append_each(cluster, writer, numbers(10, 25), every=10)
        assert figures.rotations_total == 3
        assert (figures.open_now, figures.takeovers_total, figures.lost_total) == (0, 0, 0)
        assert "zonekeeper_log_writers_messages_total 35" in logs.figures.render()


async def dies(logs: LogClient) -> None:
    async with logs.writer(NAME) as writer:
        await writer.append_and_wait(message(0), stored=True)
        raise Dies


async def overtaken(logs: LogClient, other: LogClient) -> None:
    async with logs.writer(NAME) as writer:
        await writer.append_and_wait(message(1), stored=True)
        async with other.writer(NAME) as second:
            await second.append_and_wait(message(2), stored=True)
        await writer.append_and_wait(message(3), stored=True)


@played()
async def test_takeovers_are_counted_by_both_sides(lab: Lab) -> None:
    async with lab.client("one") as client, lab.client("other") as another:
        logs, other = logs_of(client), logs_of(another, 2)
        await logs.create(NAME)
        with suppress(Dies):
            await dies(logs)
        assert logs.figures.writers.open_now == 0
        with pytest.raises(LogTaken):
            await overtaken(logs, other)
        assert logs.figures.writers.takeovers_total == 1, "the writer before had died"
        assert logs.figures.writers.lost_total == 1
        assert logs.figures.writers.settlings_total >= 1
        assert other.figures.writers.takeovers_total == 1
        assert other.figures.writers.lost_total == 0


@played()
async def test_a_writer_whose_block_raises_at_once_has_ended(lab: Lab) -> None:
    async with lab.client() as client:
        logs = logs_of(client)
        await logs.create(NAME)
        with pytest.raises(Dies):
            async with logs.writer(NAME) as writer:
                raise Dies
        assert logs.figures.writers.open_now == 0
        with pytest.raises(LogEnded):
            await writer.append(message(0))


@played(bookies_in={"a": 1, "b": 1, "c": 1}, rules=policy(strict=False))
async def test_downgraded_logs_are_counted_while_they_are_open(lab: Lab) -> None:
    async def until_downgraded(writer: LogWriter) -> None:
        number = 0
        while not writer.is_downgraded:
            await writer.append_and_wait(message(number), stored=True)
            await asyncio.sleep(1)
            number += 1

    async with lab.client() as client:
        logs = logs_of(client)
        await logs.create(NAME, RULES)
        async with logs.writer(NAME) as writer:
            await writer.append_and_wait(message(0), stored=True)
            assert logs.figures.writers.downgraded_now == 0
            await next(one for one in lab.machines.values() if one.location.zone == "c").crash()
            await until_downgraded(writer)
            await writer.append_and_wait(message(1), stored=True)
            await asyncio.sleep(1)
            assert logs.figures.writers.downgraded_now == 1
        assert logs.figures.writers.downgraded_now == 0
