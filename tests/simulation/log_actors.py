"""Contenders for one log, its readers, a person who trims it, and somebody who fences its ledgers.

A writer takes the log over whenever it likes to, appends in bursts, and is taken over. So at any
step of an opening or a rotation another one may come. The fencer recovers ledgers that are open, as
a replicator does for quiet writers: that is no takeover.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from tests.simulation import history as seen
from tests.simulation import log_cast, log_sights
from tests.simulation.actors import Doing, Life
from tests.simulation.log_sights import LogSight
from tests.simulation.surroundings import Surroundings
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs.logs import LogExistsError
from zonekeeper.placement.base.troubles import Trouble

NAME: Final = "simulated/log"
#: So long before everything heals nobody takes the log any more, so that a stranger can.
_LAST_MS: Final = 300
#: Ledgers are as short as this, or shorter than all that is written.
_ROTATIONS: Final = (2, 3, 5, 1_000)


def cast(writers: int) -> Mapping[str, Doing]:
    """Give what each actor of the log does."""
    doings = {
        "log-writer": write_log,
        "log-reader": read_log,
        "log-trimmer": trim_log,
        "log-fencer": fence_ledgers,
    }
    return {name: doings[name.rpartition("-")[0]] for name in log_cast.names(writers)}


def _note(around: Surroundings, sight: LogSight) -> None:
    around.note(seen.OfLog(sight=sight))


def _note_failed(around: Surroundings, who: str, error: Trouble) -> None:
    kind = type(error).__name__
    _note(around, log_sights.LogFailed(who=who, error=kind, retryable=error.retryable))


def _logs(life: Life) -> LogClient:
    return LogClient(life.the_client, clients.Surroundings(life.chance, life.around.now_ms))


def _is_late(life: Life) -> bool:
    return life.around.now_ms() >= life.around.scenario.chaos_ms - _LAST_MS


async def write_log(life: Life) -> None:
    """Take the log again and again, and write it until another one has it."""
    rules = LogRules(rotate_messages=life.around.scenario.chance("log").choice(_ROTATIONS))
    while not _is_late(life):
        handle = life.handle()
        try:
            with suppress(LogExistsError):
                await _logs(life).create(NAME, rules)
            async with _logs(life).writer(NAME) as writer:
                life.observer.board.writer = life.name
                first = writer.next_sequence
                _note(life.around, log_sights.LogOpened(who=handle, first=first))
                await _append(life, handle, writer)
            if writer.next_sequence > first:
                upto = writer.next_sequence - 1
                _note(life.around, log_sights.LogStored(who=handle, upto=upto))
        except Trouble as error:
            _note_failed(life.around, handle, error)
        await asyncio.sleep(life.chance.random() ** 2)
    await asyncio.sleep(3_600)


async def _append(life: Life, handle: str, writer: LogWriter) -> None:
    habits, chance = life.around.scenario.habits, life.chance
    for _ in range(chance.randrange(1, 3 * habits.bursts_max)):
        if _is_late(life):
            return
        sequence = -1
        for _ in range(chance.randrange(1, habits.entries_max + 2)):
            value = f"{handle}/{writer.next_sequence}".encode()
            sequence = await writer.append(LogMessage(payload=value))
            sight = log_sights.LogAppended(who=handle, sequence=sequence, value=value)
            _note(life.around, sight)
        kind = chance.random()
        if kind < 0.3:
            await writer.stored(sequence)
            _note(life.around, log_sights.LogStored(who=handle, upto=sequence))
        elif kind < 0.6:
            await _flush(life.around, handle, writer, sequence)
        await asyncio.sleep(chance.random() * habits.pause_max_ms / 1_000)


async def _flush(around: Surroundings, handle: str, writer: LogWriter, sequence: int) -> None:
    known = bytes(await writer.flushed(sequence)).hex()
    _note(around, log_sights.LogFlushed(who=handle, sequence=sequence, id=known))


async def read_log(life: Life) -> None:
    """Read the log: to its present end, or for a while as it grows."""
    while True:
        handle = life.handle()
        try:
            await _read(life.around, _logs(life), handle, follows=life.chance.random() < 0.4)
        except TimeoutError:
            pass
        except Trouble as error:
            if type(error).__name__ != "NoLogError":
                _note_failed(life.around, handle, error)
        await asyncio.sleep(life.chance.random() / 2)


async def _read(around: Surroundings, logs: LogClient, handle: str, *, follows: bool) -> None:
    reader = logs.reader(NAME)
    _note(around, log_sights.LogAsked(handle=handle))
    if follows:
        async with asyncio.timeout(1):
            async for many in reader.follow():
                for one in many:
                    _note_got(around, handle, one.sequence, one.id, one.message)
    async for many in reader.read():
        for one in many:
            _note_got(around, handle, one.sequence, one.id, one.message)
    _note(around, log_sights.LogEndSeen(handle=handle))


def _note_got(
    around: Surroundings, handle: str, sequence: int, known: MessageId, message: LogMessage
) -> None:
    got = log_sights.LogGot(
        handle=handle, sequence=sequence, id=bytes(known), value=bytes(message.payload)
    )
    _note(around, got)


async def trim_log(life: Life) -> None:
    """Trim the log now and then, to a message that is there."""
    while not _is_late(life):
        await asyncio.sleep(life.chance.random())
        try:
            record = await _logs(life).record(NAME)
            ended = [one for one in record.ledgers if one.end is not None]
            if not ended:
                continue
            last = ended[-1]
            assert last.sequence is not None
            first = record.start_sequence
            sequence = life.chance.randrange(first, max(last.sequence, first) + 1)
            _note(life.around, log_sights.LogTrimWanted(sequence=sequence))
            await _logs(life).trim(NAME, sequence)
        except Trouble as error:
            if type(error).__name__ not in ("NoLogError", "NotInLog"):
                _note_failed(life.around, life.process.name, error)
    await asyncio.sleep(3_600)


async def fence_ledgers(life: Life) -> None:
    """Recover open ledgers of the log, as if their writers were gone."""
    while not _is_late(life):
        await asyncio.sleep(life.chance.random() * 1.5)
        opened = [one for one, stands in life.observer.ledgers.items() if not stands.is_closed]
        if opened:
            with suppress(Trouble):
                await life.the_client.open(life.chance.choice(opened[-2:]), recover=True)
    await asyncio.sleep(3_600)


async def visit(around: Surroundings, client: Client) -> None:
    """Take the log over as a stranger, write to it, and read it from its beginning."""
    logs = LogClient(client, clients.Surroundings(around.scenario.chance("visit"), around.now_ms))
    handle = f"stranger/{around.now_ms()}"
    with suppress(LogExistsError):
        await logs.create(NAME)
    async with logs.writer(NAME) as writer:
        _note(around, log_sights.LogOpened(who=handle, first=writer.next_sequence))
        sequence = -1
        for number in range(3):
            value = f"{handle}/{number}".encode()
            sequence = await writer.append(LogMessage(payload=value))
            _note(around, log_sights.LogAppended(who=handle, sequence=sequence, value=value))
        await _flush(around, handle, writer, sequence)
    await _read(around, logs, handle, follows=False)
