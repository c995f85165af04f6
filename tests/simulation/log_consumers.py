"""Consumers of a log that share one cursor; and what all who have to do with a log note."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from tests.simulation import history as seen
from tests.simulation import log_sights
from tests.simulation.actors import Life
from tests.simulation.log_cast import CURSOR, NAME
from tests.simulation.log_sights import LogSight
from tests.simulation.surroundings import Surroundings
from zonekeeper.client.api import client as clients
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.log.api.log_reader import ReadMessage, ReadMessages
from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.placement.base.troubles import Trouble

#: So long before everything heals nobody takes the log any more, so that a stranger can.
_LAST_MS: Final = 300


def note(around: Surroundings, sight: LogSight) -> None:
    """Write down what was seen of the log."""
    around.note(seen.OfLog(sight=sight))


def note_failed(around: Surroundings, who: str, error: Trouble) -> None:
    """Write an error down: the checker knows which of them the state of the world allows."""
    kind = type(error).__name__
    note(around, log_sights.LogFailed(who=who, error=kind, retryable=error.retryable))


def logs_of(life: Life) -> LogClient:
    """Give an actor its client of logs."""
    return LogClient(life.the_client, clients.Surroundings(life.chance, life.around.now_ms))


def is_late(life: Life) -> bool:
    """Is everything about to heal?"""
    return life.around.now_ms() >= life.around.scenario.chaos_ms - _LAST_MS


async def noted(
    around: Surroundings, handle: str, many: AsyncGenerator[ReadMessages, None]
) -> AsyncGenerator[ReadMessage, None]:
    """Give the messages of a look, and write them down, and its end."""
    async with aclosing(many) as batches:
        async for some in batches:
            for one in some:
                got = log_sights.LogGot(
                    handle=handle,
                    sequence=one.sequence,
                    id=bytes(one.id),
                    value=bytes(one.message.payload),
                )
                note(around, got)
                yield one
    note(around, log_sights.LogEndSeen(handle=handle))


async def consume_log(life: Life) -> None:
    """Take the cursor again and again, read from it, move it, and seek."""
    while True:
        handle = life.handle()
        try:
            cursor = await logs_of(life).cursor(NAME, CURSOR, address=handle)
            for _ in range(life.chance.randrange(1, 6)):
                await _consume(life, handle, cursor)
                await asyncio.sleep(life.chance.random() * 0.2)
        except Trouble as error:
            note_failed(life.around, handle, error)
        await asyncio.sleep(life.chance.random() ** 2)


async def _consume(life: Life, who: str, cursor: LogCursor) -> None:
    """Read from the cursor on, and move behind some of it, or back."""
    look = life.handle()
    note(life.around, log_sights.LogAsked(handle=look, sequence=cursor.sequence))
    try:
        got = [one async for one in noted(life.around, look, cursor.read())]
    except LogTrimmed:
        note(life.around, log_sights.CursorWanted(who=who, sequence=None, seeks=True))
        await cursor.seek_earliest()
        return
    if not got:
        return
    chosen = life.chance.choice(got)
    if life.chance.random() < 0.3:
        note(life.around, log_sights.CursorWanted(who=who, sequence=chosen.sequence, seeks=True))
        await cursor.seek(chosen.id)
    else:
        behind = chosen.sequence + 1
        note(life.around, log_sights.CursorWanted(who=who, sequence=behind, seeks=False))
        await cursor.move(chosen)
