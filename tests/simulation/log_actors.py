"""Contenders for one log, a reader, consumers, its owner, its keeper, and a fencer of its ledgers.

A writer takes the log over whenever it likes to, appends in bursts, and is taken over. So at any
step of an opening or a rotation another one may come. The fencer recovers ledgers that are open, as
a replicator does for quiet writers: that is no takeover.

The consumers (``log_consumers``) have one cursor, and take it from each other. The owner trims the
log, and in some worlds deletes it; a writer makes it anew under the same name. The keeper is the
real one, with short pauses: it trims by the log's rules, goes on where the owner died, and collects
orphans.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from tests.simulation import log_cast, log_consumers, log_sights, query_actors
from tests.simulation.actors import Doing, Life
from tests.simulation.log_cast import NAME
from tests.simulation.log_consumers import is_late, logs_of, note, note_failed, noted
from tests.simulation.log_sights import LogAsked
from tests.simulation.patching import Patch, patched
from tests.simulation.surroundings import Surroundings
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.errors import MetadataFailed
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_reader import ReadMessage
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.errors import NotInLog
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.publishing import attempt_writing
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.logs import log_stamp
from zonekeeper.metadata.logs.logs import LogExistsError
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.replication.logs import log_keeper
from zonekeeper.replication.logs.log_keeper import LogKeeper

#: Ledgers that the keeper deleted, by trims, half-done deletions, and as orphans.
SWEPT: Final = "ledgers of logs deleted by the keeper"
#: Ledgers are as short as this, or shorter than all that is written.
_ROTATIONS: Final = (2, 3, 5, 1_000)
#: Rules may keep so few bytes: what a few short ledgers have. None: no rule says so.
_KEPT_BYTES: Final = (None, None, 600, 2_000)
#: How long a cursor is waited for, in bytes; None: as long as the product waits by itself.
_WAITED_BYTES: Final = (None, 0, 400)
#: In so many worlds the log is deleted, now and then.
_DELETED: Final = 0.4

#: The pauses of the keeper, for the time that a world has; and partitions that are small.
KEPT: Final[tuple[Patch, ...]] = (
    (log_keeper, "ROUND_EVERY_MS", 250),
    (log_keeper, "ORPHANS_EVERY_MS", 400),
    (attempt_writing, "SMALL_BYTES_MAX", 150),
)


def cast(writers: int, queries: int) -> Mapping[str, Doing]:
    """Give what each actor of the log does."""
    doings = {
        "log-writer": write_log,
        "log-query": query_actors.run_query,
        "log-reader": read_log,
        "log-consumer": log_consumers.consume_log,
        "log-owner": own_log,
        "log-fencer": fence_ledgers,
        "log-keeper": keep_log,
    }
    return {name: doings[name.rpartition("-")[0]] for name in log_cast.names(writers, queries)}


async def write_log(life: Life) -> None:
    """Take the log again and again, and write it until another one has it."""
    drawn = life.around.scenario.chance("log")
    rules = LogRules(
        rotate_messages=drawn.choice(_ROTATIONS),
        keep_bytes=drawn.choice(_KEPT_BYTES),
        cursor_wait_bytes=drawn.choice(_WAITED_BYTES),
    )
    while not is_late(life):
        handle = life.handle()
        try:
            await _create(life, rules)
            async with logs_of(life).writer(NAME, address=handle) as writer:
                life.observer.board.writer = life.name
                first = writer.next_sequence
                note(life.around, log_sights.LogOpened(who=handle, first=first))
                await _append(life, handle, writer)
            if writer.next_sequence > first:
                upto = writer.next_sequence - 1
                note(life.around, log_sights.LogStored(who=handle, upto=upto))
        except Trouble as error:
            note_failed(life.around, handle, error)
        await asyncio.sleep(life.chance.random() ** 2)
    await asyncio.sleep(3_600)


async def _create(life: Life, rules: LogRules) -> None:
    """Create the log if there is none; one in doubt may be there, or may be deleted already."""
    try:
        await logs_of(life).create(NAME, rules)
    except LogExistsError:
        pass
    except MetadataFailed as error:
        if not error.maybe_applied:
            raise


async def _append(life: Life, handle: str, writer: LogWriter) -> None:
    habits, chance = life.around.scenario.habits, life.chance
    for _ in range(chance.randrange(1, 3 * habits.bursts_max)):
        if is_late(life):
            return
        sequence = -1
        for _ in range(chance.randrange(1, habits.entries_max + 2)):
            value = f"{handle}/{writer.next_sequence}".encode()
            sequence = await writer.append(LogMessage(payload=value))
            sight = log_sights.LogAppended(who=handle, sequence=sequence, value=value)
            note(life.around, sight)
        kind = chance.random()
        if kind < 0.3:
            await writer.stored(sequence)
            note(life.around, log_sights.LogStored(who=handle, upto=sequence))
        elif kind < 0.6:
            await _flush(life.around, handle, writer, sequence)
        await asyncio.sleep(chance.random() * habits.pause_max_ms / 1_000)


async def _flush(around: Surroundings, handle: str, writer: LogWriter, sequence: int) -> None:
    known = bytes(await writer.flushed(sequence)).hex()
    note(around, log_sights.LogFlushed(who=handle, sequence=sequence, id=known))


async def read_log(life: Life) -> None:
    """Read the log: from any message on, to its present end or for a while as it grows."""
    known: list[ReadMessage] = []
    while True:
        handle = life.handle()
        start = life.chance.choice(known) if known and life.chance.random() < 0.4 else None
        try:
            reader = logs_of(life).reader(NAME)
            sequence, at = (None, None) if start is None else (start.sequence, start.id)
            note(life.around, LogAsked(handle=handle, sequence=sequence))
            many = reader.follow(at) if life.chance.random() < 0.4 else reader.read(at)
            async with asyncio.timeout(1):
                known = [one async for one in noted(life.around, handle, many)] or known
        except TimeoutError:
            pass
        except Trouble as error:
            known.clear()
            note_failed(life.around, handle, error)
        await asyncio.sleep(life.chance.random() / 2)


async def own_log(life: Life) -> None:
    """Trim the log now and then, in each way that there is, or delete it."""
    deletes = life.around.scenario.chance("owner").random() < _DELETED
    while not is_late(life):
        await asyncio.sleep(life.chance.random())
        try:
            if deletes and life.chance.random() < 0.3:
                await logs_of(life).delete(NAME)
            else:
                await _trim(life, logs_of(life))
        except NotInLog:
            pass  # the last ledger has nothing yet
        except Trouble as error:
            note_failed(life.around, life.process.name, error)
    await asyncio.sleep(3_600)


async def _trim(life: Life, logs: LogClient) -> None:
    record = await logs.record(NAME)
    ended = [one for one in record.ledgers if one.sequence is not None]
    if not ended:
        return
    first, kind = record.start_sequence, life.chance.randrange(4)
    last = ended[-1].sequence or 0
    sequence = life.chance.randrange(first, max(last, first) + 1)
    if kind == 0:
        note(life.around, log_sights.LogTrimWanted(sequence=None))
        await logs.trim_to_bytes(NAME, life.chance.randrange(1, 1_000))
    elif kind == 1:
        message = await logs.reader(NAME).at_sequence(sequence)
        note(life.around, log_sights.LogTrimWanted(sequence=sequence))
        await logs.trim_to_id(NAME, message)
    else:
        note(life.around, log_sights.LogTrimWanted(sequence=sequence))
        await logs.trim(NAME, sequence)


async def keep_log(life: Life) -> None:
    """Be the log keeper, if elected; what it deletes is noted before."""
    client, around = life.the_client, life.around
    delete = client.delete

    async def noting(ledger_id: int, *, by: str = "client", timeout: float | None = None) -> None:  # noqa: ASYNC109 as in the product
        metadata = life.observer.ledgers.get(LedgerId(ledger_id))
        stamp = None if metadata is None else log_stamp.of(metadata)
        if stamp is not None:
            around.did(SWEPT)
            swept = log_sights.LogLedgerSwept(
                ledger=LedgerId(ledger_id),
                log=stamp.log_id,
                epoch=stamp.epoch,
                batch=stamp.batch,
            )
            note(around, swept)
        await delete(ledger_id, by=by, timeout=timeout)

    with patched([(client, "delete", noting)]):
        await LogKeeper(
            client,
            name=BookieId(life.process.name),
            surroundings=clients.Surroundings(life.chance, around.now_ms),
        ).run()


async def fence_ledgers(life: Life) -> None:
    """Recover open ledgers of the log, as if their writers were gone."""
    while not is_late(life):
        await asyncio.sleep(life.chance.random() * 1.5)
        opened = [one for one, stands in life.observer.ledgers.items() if not stands.is_closed]
        if opened:
            with suppress(Trouble):
                await life.the_client.open(life.chance.choice(opened[-2:]), recover=True)
    await asyncio.sleep(3_600)


async def visit(around: Surroundings, client: Client) -> None:
    """Take the log over as a stranger, write to it, and read it from its beginning."""
    handle = f"stranger/{around.now_ms()}"
    # A visit draws a token of its own: a claim with that of an earlier one would be no claim.
    chance = around.scenario.chance(f"visit of {handle}")
    logs = LogClient(client, clients.Surroundings(chance, around.now_ms))
    with suppress(LogExistsError):
        await logs.create(NAME)
    async with logs.writer(NAME, address=handle) as writer:
        note(around, log_sights.LogOpened(who=handle, first=writer.next_sequence))
        sequence = -1
        for number in range(3):
            value = f"{handle}/{number}".encode()
            sequence = await writer.append(LogMessage(payload=value))
            note(around, log_sights.LogAppended(who=handle, sequence=sequence, value=value))
        await _flush(around, handle, writer, sequence)
    note(around, LogAsked(handle=handle))
    async for _ in noted(around, handle, logs.reader(NAME).read()):
        pass
