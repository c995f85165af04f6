"""What ``zonekeeper log`` does on a cluster: it appends, reads, looks, trims and deletes."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeVar

from zonekeeper.client.base.errors import NoSuchLedger, TooLarge, Unauthorized
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_reader import LogReader, ReadMessage, ReadMessages
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.log.keeping import retention
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.log_cursor import CursorMark
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.shell.logs import log_access, log_places
from zonekeeper.shell.logs.log_places import LogPlace
from zonekeeper.shell.logs.log_text import SeenLog
from zonekeeper.shell.logs.message_io import MessageGiver

#: `log show` waits at most this long for the bookies of an open ledger.
_END_S: Final = 1.0
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class LogAppended:
    """How far an append has come."""

    name: str
    #: The sequence of the first message; None: the log was not taken yet.
    first: int | None = None
    #: Messages ``first <= sequence < sure`` are acknowledged.
    sure: int = 0
    #: The id of the last message, once all are readable.
    last_id: MessageId | None = None
    #: The writer has closed the log: it has no message behind those that are acknowledged.
    closed: bool = False

    @property
    def count(self) -> int:
        """How many messages are acknowledged."""
        return 0 if self.first is None else self.sure - self.first

    def text(self) -> str:
        """Say how far it has come."""
        if not self.count:
            said = "no message is acknowledged"
        elif self.count == 1:
            said = f"message {self.first} is acknowledged"
        else:
            said = f"messages {self.first} to {self.sure - 1} are acknowledged"
        return said if self.closed else f"{said}; later ones may be in the log or not"


async def append(
    log: LogClient,
    appended: LogAppended,
    portions: AsyncGenerator[list[LogMessage], None],
    show: Callable[[str], None],
) -> None:
    """Take a log, append all messages, and wait until they are readable.

    If the input fails, the messages before are appended and the log is closed in order.
    """
    address = log_access.address("log append")
    failed: Exception | None = None
    async with log.writer(appended.name, address=address) as writer:
        appended.first = appended.sure = writer.next_sequence
        try:
            async with aclosing(portions) as every:
                while (portion := await _beside(writer, appended, anext(every, None))) is not None:
                    await writer.append_many(portion)
                    show(f"{appended.count} messages are acknowledged")
        except (BadMessageError, TooLarge, OSError) as error:
            failed = error
        if (end := writer.next_sequence) > appended.first:
            appended.last_id = await writer.flushed(end - 1)
            appended.sure = end
    appended.closed = True
    if failed is not None:
        raise failed


async def _beside(writer: LogWriter, appended: LogAppended, more: Awaitable[T]) -> T:
    """Wait for more input, which may never come; raises at once what has ended the writer."""
    coming = asyncio.ensure_future(more)
    sure = asyncio.ensure_future(_heard(writer, appended))
    try:
        await asyncio.wait({coming, sure}, return_when=asyncio.FIRST_COMPLETED)
        if sure.done():
            sure.result()
        return await coming
    finally:
        coming.cancel()
        sure.cancel()
        await asyncio.wait({coming, sure})


async def _heard(writer: LogWriter, appended: LogAppended) -> None:
    """Wait until all that was appended so far is acknowledged."""
    end = writer.next_sequence
    if end > appended.sure:
        await writer.stored(end - 1)
        appended.sure = end


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMessages:
    """Which messages a command line asks for."""

    first: LogPlace
    #: None: there is no end.
    last: LogPlace | None = None
    #: At most so many; None: all.
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a command stops to give messages."""

    #: The sequence behind the last message; None: there is no end.
    end: int | None = None
    #: At most so many; None: all.
    most: int | None = None


async def bounds(reader: LogReader, wanted: WantedMessages) -> tuple[MessageId | None, int | None]:
    """Give the first message, and the sequence behind the last one; raises if they are wrong."""
    start = await log_places.first_of(reader, wanted.first)
    end = await log_places.end_of(reader, wanted.last)
    if end is not None and isinstance(wanted.first, int) and wanted.first >= end:
        raise RefusedCommand(f"no messages: --to is before --from {wanted.first}")
    return start, end


async def give(
    many: AsyncGenerator[ReadMessages, None],
    giver: MessageGiver,
    wanted: Limits,
    *,
    gave: Callable[[], None],
    passed: Callable[[ReadMessage], Awaitable[None]] | None = None,
) -> None:
    """Write messages to standard output; ``gave`` is called when some have come.

    ``passed`` is called with the last message of a batch once all of them are written.
    """
    left = sys.maxsize if wanted.most is None else wanted.most
    end = wanted.end
    async with aclosing(many) as every:
        async for batch in every:
            first = batch.sequence + batch.first
            count = min(left, len(batch), len(batch) if end is None else max(0, end - first))
            gave()
            if count:
                shown = list(islice(batch, count))
                await giver.give(shown, batch.batch.wall_ms)
                if passed is not None:
                    await passed(shown[-1])
            left -= count
            if left == 0 or (end is not None and first + len(batch) >= end):
                return


async def look(log: LogClient, name: str, now_ms: int, *, every: bool) -> SeenLog:
    """Look at a log; ``every``: with the ledgers in pages, else with the newest ones."""
    record = await log.record(name)
    end, wrong_password, confirmed = None, False, dict[LedgerId, EntryId]()
    deleted = frozenset[LedgerId]()
    try:
        async with asyncio.timeout(_END_S):
            if not record.deleting:
                deleted = await _deleted(log, name, record)
                if not deleted:
                    end = await log.reader(name).end()
                confirmed = await _confirmed(log, record, deleted)
    except Unauthorized:
        end, wrong_password = None, True
    except (Trouble, TimeoutError):
        end = None
    ledgers = [one async for one in _ledgers(log, name, record)] if every else record.ledgers
    kept = [one for one in ledgers if record.gone is None or one.id > record.gone]
    cursors = await log.cursors(name)
    return SeenLog(
        name=name,
        record=record,
        end=end,
        ledgers=kept,
        confirmed=confirmed,
        wrong_password=wrong_password,
        deleted=deleted,
        marked=await _marked(log, kept),
        cursors=cursors,
        waited_for=await _waited_for(log, name, record, cursors, now_ms),
    )


async def _deleted(log: LogClient, name: str, record: LogRecord) -> frozenset[LedgerId]:
    """Give the ledgers without an end that are gone, although the log has them.

    One that the writer has dropped since the record was read is none.
    """
    gone = set[LedgerId]()
    for one in record.unended:
        try:
            await log.client.metadata(one.id)
        except NoSuchLedger:
            gone.add(one.id)
    if not gone:
        return frozenset()
    return frozenset(gone & {one.id for one in (await log.record(name)).unended})


async def _confirmed(
    log: LogClient, record: LogRecord, deleted: Collection[LedgerId]
) -> dict[LedgerId, EntryId]:
    """Give the last confirmed entry of each ledger without an end, as bookies tell it."""
    found = dict[LedgerId, EntryId]()
    for one in record.unended:
        if one.id in deleted:
            continue
        reader = await log.client.open(one.id, recover=False)
        found[one.id] = reader.last_confirmed
    return found


async def _marked(log: LogClient, ledgers: Sequence[LogLedger]) -> frozenset[LedgerId]:
    """Give those of some ledgers that are marked as under-replicated."""
    if not ledgers:
        return frozenset()
    marks = underreplication.ids(log.client.cluster, first=ledgers[0].id, last=ledgers[-1].id)
    ids = {one.id for one in ledgers}
    async with aclosing(marks) as every:
        return frozenset([one async for one in every if one in ids])


async def _waited_for(
    log: LogClient, name: str, record: LogRecord, cursors: Mapping[str, CursorMark], now_ms: int
) -> frozenset[str]:
    """Give the cursors without which retention would trim more now."""
    limits = retention.of(record, [], now_ms)
    if limits is None or record.deleting:
        return frozenset()
    found = await logs.search(log.client.cluster, name, record, limits.may_go)
    start = retention.new_start(record, found)
    if start is None:
        return frozenset()
    return frozenset(one for one, mark in cursors.items() if mark.position.sequence < start[1])


async def trimmed(log: LogClient, name: str, place: LogPlace) -> tuple[int, int, list[LedgerId]]:
    """Say what a trim does: the start, the new start, and the ledgers that go."""
    record = await log.record(name)
    reader = log.reader(name)
    sequence = await log_places.sequence_of(reader, place)
    if sequence <= record.start_sequence:
        return record.start_sequence, record.start_sequence, []
    start = await reader.at_sequence(sequence)
    gone = [one.id async for one in _ledgers(log, name, record) if one.id < start.ledger]
    return record.start_sequence, sequence, gone


async def all_ledgers(log: LogClient, name: str, record: LogRecord) -> list[LedgerId]:
    """Give the ledgers of a log that are not deleted yet."""
    return [one.id async for one in _ledgers(log, name, record)]


async def _ledgers(log: LogClient, name: str, record: LogRecord) -> AsyncGenerator[LogLedger, None]:
    first = LedgerId(0 if record.gone is None else record.gone + 1)
    async for one in logs.ledgers(log.client.cluster, name, record, first):
        yield one


async def messages(
    payloads: AsyncGenerator[list[bytes], None], template: LogMessage
) -> AsyncGenerator[list[LogMessage], None]:
    """Make messages of payloads, with the key and the headers of a template."""
    async with aclosing(payloads) as portions:
        async for portion in portions:
            yield [replace(template, payload=payload) for payload in portion]


async def one(message: LogMessage) -> AsyncGenerator[list[LogMessage], None]:
    """Give one message."""
    yield [message]


async def listed(
    log: LogClient, namespace: str | None, *, is_long: bool
) -> AsyncGenerator[tuple[str, LogRecord | None], None]:
    """List the logs of a namespace, or (None) of all; with their records if it is long."""
    namespaces = [namespace] if namespace is not None else None
    if namespaces is None:
        namespaces = sorted([one async for one in log.namespaces()])
    for each in namespaces:
        async for name in log.names(each):
            record = None
            if is_long:
                try:
                    record = await log.record(name)
                except logs.NoLogError:
                    continue  # deleted meanwhile
            yield name, record
