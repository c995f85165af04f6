"""What is wrong is refused in words by the API; nothing is half-done, and a retry is judged right.

The commands' words for the same are in `tests/shell/logs`.
"""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill, ledgers, sequences
from tests.log.api.test_store_away import drained
from tests.log.logging_lab import NAME, SHORT, WallClock, overwrite
from tests.log.sessions.test_positions import NEWER, with_open_ledger
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import MetadataFailed, Unauthorized
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.log.base.errors import BadLogRules, LogDamaged, LogNewer, NotInLog
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.formats.log_record import LogRules, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.log_cursor import BadCursorNameError, CursorGoesBack
from zonekeeper.metadata.logs.log_cursors import NoCursorError
from zonekeeper.metadata.logs.logs import LogExistsError, NoLogError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats.entries import PAYLOAD_BYTES_MAX

OTHER, HOLED, NEW_RECORD, NEW_BATCH = "orders/other", "holed", "new/record", "new/batch"
LOCAL: Final = LogRules(quorums=Quorums(ensemble=1, write=1, ack=1))


@dataclass(frozen=True, kw_only=True)
class World:
    """Logs, and what a call may name that is not there, or not there any more."""

    log: LogClient
    #: A client with another password.
    stranger: LogClient
    #: Of a log of ``NAME`` that was deleted.
    old_cursor: LogCursor
    own: MessageId
    foreign: MessageId
    gone: LedgerId


async def too_large(world: World) -> None:
    async with world.log.writer(NAME) as writer:
        await writer.append(LogMessage(payload=bytes(PAYLOAD_BYTES_MAX)))


async def written(log: LogClient, name: str) -> None:
    async with log.writer(name):
        pass


async def moved_back(world: World) -> None:
    cursor = await world.log.cursor(NAME, "billing")
    batches = [many async for many in cursor.read()]
    await cursor.move(batches[1])
    await cursor.move(batches[0])


Call: TypeAlias = Callable[[World], Awaitable[object]]
AHEAD: Final = MessageId(LedgerId(1 << 40), EntryId(1), 0)

CASES: dict[str, tuple[Call, type[Trouble], str]] = {
    "an unknown log is read": (
        lambda world: drained(world.log.reader("none").read()), NoLogError, "no log none"),
    "an unknown log is written": (
        lambda world: written(world.log, "none"), NoLogError, "no log none"),
    "an unknown log is trimmed": (lambda world: world.log.trim("none", 1), NoLogError, "no log"),
    "an unknown log is deleted": (lambda world: world.log.delete("none"), NoLogError, "no log"),
    "an unknown log is rebuilt": (
        lambda world: world.log.rebuild("none"), NoLogError, "nothing to rebuild it from"),
    "an unknown log gets a cursor": (
        lambda world: world.log.cursor("none", "a"), NoLogError, "no log none"),
    "an unknown log gets rules": (
        lambda world: world.log.set_rules("none", SHORT), NoLogError, "no log none"),
    "a log that exists": (
        lambda world: world.log.create(NAME), LogExistsError, "nothing was changed"),
    "a bad name": (
        lambda world: world.log.create("a//b"), BadLogNameError, "cannot be a log's name"),
    "a bad name of a cursor": (
        lambda world: world.log.cursor(NAME, "a/b"), BadCursorNameError, "cursor's name"),
    "an unknown cursor": (
        lambda world: world.log.delete_cursor(NAME, "nobody"), NoCursorError, "no cursor nobody"),
    "a move back": (moved_back, CursorGoesBack, "seek to go back"),
    "a wrong password": (
        lambda world: written(world.stranger, NAME), Unauthorized, "another password"),
    "another incarnation": (
        lambda world: world.old_cursor.seek_earliest(), OtherIncarnation, "made anew"),
    "an id of another log": (
        lambda world: world.log.trim_to_id(NAME, world.foreign), NotInLog, "not one of its ledgers"
    ),
    "an id that is ahead of the end": (
        lambda world: world.log.trim_to_id(NAME, AHEAD), NotInLog, "not one of its ledgers"),
    "an entry that is ahead of the end": (
        lambda world: world.log.reader(NAME).sequence_of(
            MessageId(world.own.ledger, EntryId(99), 0)),
        NotInLog, "no such message, or not yet"),
    "a reading from ahead of the end": (
        lambda world: drained(world.log.reader(NAME).read(AHEAD)), NotInLog, "ahead of its end"),
    "a sequence that is ahead of the end": (
        lambda world: world.log.trim(NAME, 99), NotInLog, "ahead of its end"),
    "a message that is too large": (too_large, BadMessageError, "split it"),
    "quorums that placement refuses": (
        lambda world: world.log.create("new", LOCAL), BadLogRules, "quorums"),
    "a minimum that placement refuses": (
        lambda world: world.log.change_rules(NAME, lambda _: LogRules(minimum=LOCAL.quorums)),
        BadLogRules, "minimum"),
    "a ledger that somebody deleted": (
        lambda world: drained(world.log.reader(HOLED).read()), LogDamaged, "deleted by another"),
    "a newer record": (
        lambda world: drained(world.log.reader(NEW_RECORD).read()), MetadataFailed, "format"),
    "a newer record is written": (
        lambda world: written(world.log, NEW_RECORD), MetadataFailed, "format"),
    "a newer batch": (
        lambda world: drained(world.log.reader(NEW_BATCH).read()), LogNewer, "newer program"),
}  # fmt: skip


@asynccontextmanager
async def world_of(lab: Lab) -> AsyncIterator[World]:
    secret = ClientConfig(password=b"another")
    async with connected(lab) as log, lab.client("stranger", secret) as strange:
        await log.create(NAME)
        old = await log.cursor(NAME, "old")
        await log.delete(NAME)
        for name, count in ((NAME, 15), (OTHER, 2), (HOLED, 25), (NEW_RECORD, 2), (NEW_BATCH, 2)):
            await log.create(name, SHORT)
            await fill(log, count, name)
        holed = (await log.record(HOLED)).ledgers[1].id
        await log.client.delete(holed)
        cluster = log.client.cluster
        where = logs.path(cluster, NEW_RECORD)
        node = await cluster.store.get(where)
        assert node is not None
        data = json.loads(node.value)
        await overwrite(cluster, where, json.dumps({**data, "format": 99}).encode())
        await with_open_ledger(log, [NEWER], name=NEW_BATCH)
        yield World(
            log=log,
            stranger=LogClient(strange, Surroundings(random.Random(1), WallClock())),
            old_cursor=old,
            own=await log.reader(NAME).at_sequence(3),
            foreign=await log.reader(OTHER).at_sequence(0),
            gone=holed,
        )


async def state(world: World) -> object:
    """Give what no refused call may change; a claim of a writer may."""
    log, cluster = world.log, world.log.client.cluster
    records = {one: (await cluster.store.get(logs.path(cluster, one))) for one in (OTHER, HOLED)}
    record = await log.record(NAME)
    spaces = [one async for one in log.namespaces()]
    names = [(one, [name async for name in log.names(one)]) for one in spaces]
    return records, names, await sequences(log), record.rules, record.start


@played()
@pytest.mark.parametrize("name", CASES)
async def test_what_is_wrong_is_refused_in_words_and_nothing_is_half_done(
    lab: Lab, name: str
) -> None:
    call, kind, words = CASES[name]
    async with world_of(lab) as world:
        before = await state(world)
        with pytest.raises(kind, match=words) as caught:
            await call(world)
        assert not caught.value.retryable, "the same call would fail again"
        assert not caught.value.maybe_applied
        assert await state(world) == before
        if kind is LogDamaged:
            assert f"ledger {world.gone} " in str(caught.value)
        if kind is Unauthorized:
            assert (await world.log.record(NAME)).epoch == 1, "its writer was not taken away"


@played()
async def test_a_deleted_ledger_is_no_gap_and_a_newer_batch_is_not_passed_over(lab: Lab) -> None:
    async with world_of(lab) as world:
        for name, count, kind in ((HOLED, 10, LogDamaged), (NEW_BATCH, 2, LogNewer)):
            found = list[int]()
            with pytest.raises(kind):
                await gathered(world.log, name, found)
            assert found == list(range(count))
        before = await ledgers(world.log.client)
        with pytest.raises(MetadataFailed):
            await world.log.delete(NEW_RECORD)
        assert await ledgers(world.log.client) == before


async def gathered(log: LogClient, name: str, found: list[int]) -> None:
    async for many in log.reader(name).read():
        found += [one.sequence for one in many]
