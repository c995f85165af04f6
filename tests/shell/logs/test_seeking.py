"""Where `log cursor seek` sets a cursor while the log grows, in virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill
from tests.log.logging_lab import NAME, SHORT
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.shell.logs import cursor_commands, log_places
from zonekeeper.shell.logs.log_places import LogEdge, LogPlace, WallTime

#: Behind every message of these tests.
LATER = WallTime(1 << 40)


@asynccontextmanager
async def grown(lab: Lab, to: LogPlace) -> AsyncIterator[tuple[LogClient, LogCursor]]:
    """Find a place in a log of 25 messages, let 15 come, and then set a cursor to the place."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 25)
        cursor, reader = await log.cursor(NAME, "billing"), log.reader(NAME)
        found = await log_places.found_at(reader, to)
        await fill(log, 15)
        await cursor_commands.set_to(cursor, reader, to, found)
        yield log, cursor


@played()
@pytest.mark.parametrize(
    ("to", "sequence"), [(LogEdge.EARLIEST, 0), (LogEdge.LATEST, 40), (3, 3), (25, 25), (LATER, 40)]
)
async def test_what_comes_while_a_place_is_looked_up_is_not_passed_over(
    lab: Lab, to: LogPlace, sequence: int
) -> None:
    async with grown(lab, to) as (log, cursor):
        assert cursor.sequence == sequence
        await fill(log, 5)
        read = [one.sequence async for many in cursor.read() for one in many]
        assert read == list(range(sequence, 45))


@played()
@pytest.mark.parametrize("to", [WallTime(0), LATER, 25, LogEdge.LATEST, LogEdge.EARLIEST])
async def test_in_a_log_of_which_all_was_trimmed_every_place_is_its_end(
    lab: Lab, to: LogPlace
) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 25)
        await log.trim_to_time(NAME, 1 << 40)
        cursor, reader = await log.cursor(NAME, "billing"), log.reader(NAME)
        await cursor_commands.set_to(cursor, reader, to, await log_places.found_at(reader, to))
        assert cursor.sequence == 25
