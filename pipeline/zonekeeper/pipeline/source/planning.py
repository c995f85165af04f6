"""Plan a read: ask the store and the log what there is, and let ``slices`` decide.

It runs beside the driver, on the loop of the process's client. It reads metadata, and of a log the
few entries that say where a place is. A wrong password, a missing log or an open ledger is refused
here once, and not in every attempt of every task.
"""

import hmac
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, assert_never

from zonekeeper.client.api.client import Client
from zonekeeper.client.base import boundary
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.log.base.errors import NotInLog
from zonekeeper.log.sessions import locating, positions
from zonekeeper.metadata.formats.log_record import LogDeleting, LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledger_listing import UnreadableLedger
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.logs import logs
from zonekeeper.pipeline.reading import slices
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.pipeline.reading.slices import LogSpan, NotReadable, ReadTask, SizedSlice
from zonekeeper.pipeline.reading.wanted import (
    AtSequence,
    AtTime,
    LedgersInRange,
    LedgersWith,
    OneLedger,
    OneLog,
    ReadEdge,
    ReadPlace,
)
from zonekeeper.pipeline.source import entry_looks
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: A read of more ledgers is refused: its plan would not fit into a driver.
LEDGERS_MAX: Final = 1_000_000


async def planned(opened: LogClient, options: ReadOptions) -> list[ReadTask]:
    """Give the tasks of a read, at least one."""
    client = opened.client
    match options.wanted:
        case OneLedger() as one:
            ledger = await client.metadata(one.ledger)
            parts = slices.of_ledger(ledger, one)
            await client.open(one.ledger, recover=False)  # refuses a wrong password
        case LedgersInRange() | LedgersWith() as several:
            with boundary.translated("listing the ledgers that are read"):
                parts = await _several(client, several)
        case OneLog() as log:
            return await of_span(opened, await span_of(opened, log), options.partitions)
        case never:
            assert_never(never)
    return [ReadTask(slices=task) for task in slices.tasks(parts, options.partitions)]


async def _several(client: Client, wanted: LedgersInRange | LedgersWith) -> list[SizedSlice]:
    parts: list[SizedSlice] = []
    count = 0
    async with aclosing(_listed(client, wanted)) as found:
        async for ledger in found:
            parts += slices.whole(ledger.id, ledger.metadata)
            if not hmac.compare_digest(client.config.password, ledger.metadata.password):
                raise client_errors.Unauthorized(
                    f"ledger {ledger.id} has another password; nothing was read"
                )
            count += 1
            if count > LEDGERS_MAX:
                raise NotReadable(
                    f"more than {LEDGERS_MAX} ledgers are asked for: read them in several ranges"
                )
    if not count:
        raise NotReadable(
            f"there is no ledger {_shown(wanted)} in {client.cluster}: `zonekeeper ledger list` "
            "shows those that are there"
        )
    return parts


async def _listed(
    client: Client, wanted: LedgersInRange | LedgersWith
) -> AsyncGenerator[StoredLedger, None]:
    first = wanted.first if isinstance(wanted, LedgersInRange) else LedgerId(0)
    async with aclosing(ledger_listing.all_of(client.cluster, first=first)) as every:
        async for listed in every:
            if isinstance(wanted, LedgersInRange) and listed.id > wanted.last:
                return
            if isinstance(listed, UnreadableLedger):
                raise NotReadable(
                    f"ledger {listed.id} cannot be told to be wanted or not: {listed.error}; "
                    "repair its metadata, or leave it out of the range"
                )
            if (
                isinstance(wanted, LedgersInRange)
                or listed.metadata.custom_value(wanted.key) == wanted.value
            ):
                yield listed


def _shown(wanted: LedgersInRange | LedgersWith) -> str:
    if isinstance(wanted, LedgersInRange):
        return f"from {wanted.first} to {wanted.last}"
    return f"with {wanted.key}={wanted.value.decode()} in its custom metadata"


async def record_of(opened: LogClient, name: str) -> LogRecord:
    """Give the record of a log that can be read with this client's password."""
    record = await opened.record(name)
    if record.deleting:
        raise LogDeleting(f"log {name} is being deleted; nothing was read")
    with boundary.translated(f"reading log {name}"):
        await locating.check_password(opened.client, name, record)
    return record


async def span_of(opened: LogClient, wanted: OneLog) -> LogSpan:
    """Look up from where to where a log is read. Its end is fixed by this."""
    record = await record_of(opened, wanted.name)
    reader = opened.reader(wanted.name)
    start, first = await place_of(opened, record, reader, wanted.first or ReadEdge.EARLIEST)
    stop, end = await _stop(opened, record, reader, wanted.last or ReadEdge.LATEST)
    await check_incarnation(opened, wanted.name, record.id)
    if end < first and not _moves(wanted.first) and not _moves(wanted.last):
        raise NotInLog(
            f"log {wanted.name}: to stands before from: message {end - 1} before message {first}; "
            "nothing was read; swap them"
        )
    return LogSpan(
        name=wanted.name,
        log_id=record.id,
        start=start,
        first=first,
        stop=stop,
        end=max(first, end),
    )


def _moves(place: ReadPlace | None) -> bool:
    """Does a place follow the clock or the log, so that nothing may be between two of them?"""
    return place is None or isinstance(place, ReadEdge | AtTime)


async def place_of(
    opened: LogClient, record: LogRecord, reader: LogReader, place: ReadPlace
) -> tuple[MessageId | None, int]:
    """Give the id from which on messages are read, and the sequence of the first one."""
    match place:
        case ReadEdge.EARLIEST:
            return record.start, record.start_sequence
        case ReadEdge.LATEST:
            return await end_of(opened, reader.name, record)
        case AtTime(wall_ms=wall_ms):
            found = await reader.at_time(wall_ms)
        case AtSequence(sequence=sequence):
            at, end = await end_of(opened, reader.name, record)
            if sequence == end:
                return at, end  # the next message that comes
            found = await reader.at_sequence(sequence)
        case _:
            found = place
    if found is None:
        return await end_of(opened, reader.name, record)
    return found, await reader.sequence_of(found)


async def _stop(
    opened: LogClient, record: LogRecord, reader: LogReader, place: ReadPlace
) -> tuple[MessageId | None, int]:
    """Give the place behind the last message that is wanted, and the sequence that follows it."""
    match place:
        case ReadEdge():
            return await end_of(opened, reader.name, record)
        case AtTime(wall_ms=wall_ms):
            return await place_of(opened, record, reader, AtTime(wall_ms + 1))
        case AtSequence(sequence=sequence):
            return _behind(await reader.at_sequence(sequence)), sequence + 1
        case _:
            return _behind(place), await reader.sequence_of(place) + 1


def _behind(message: MessageId) -> MessageId:
    return MessageId(message.ledger, message.entry, message.index + 1)


async def end_of(opened: LogClient, name: str, record: LogRecord) -> tuple[MessageId | None, int]:
    """Give the place behind the last message that a reader sees now, and its sequence."""
    with boundary.translated(f"reading log {name}"):
        return await positions.end_of(opened.client, name, record)


async def check_incarnation(opened: LogClient, name: str, log_id: str) -> None:
    """Raise ``OtherIncarnation`` if the log was deleted, and made anew."""
    now = await opened.record(name)
    if now.id != log_id:
        raise OtherIncarnation(
            f"log {name} was deleted, and made anew: its id was {log_id}, and is {now.id}; nothing "
            "was read; begin to read the new one"
        )


async def of_span(opened: LogClient, span: LogSpan, partitions: int | None) -> list[ReadTask]:
    """Give the tasks that read a span of a log, at least one."""
    parts: list[SizedSlice] = []
    if span.first < span.end:
        with boundary.translated(f"reading log {span.name}"):
            parts = await _parts(opened, span)
    return [ReadTask(slices=task, span=span) for task in slices.tasks(parts, partitions)]


async def _parts(opened: LogClient, span: LogSpan) -> list[SizedSlice]:
    assert span.stop is not None, "a span that has messages has an end"
    client = opened.client
    record = await logs.find(client.cluster, span.name)
    if record.id != span.log_id:
        await check_incarnation(opened, span.name, span.log_id)
    if record.start_sequence > span.first:
        raise locating.trimmed(span.name, record, f"message {span.first}")
    found, open_bytes = [], 0
    first = LedgerId(0) if span.start is None else span.start.ledger
    async with aclosing(logs.ledgers(client.cluster, span.name, record, first)) as every:
        async for ledger in every:
            if ledger.id > span.stop.ledger:
                break
            found.append(ledger)
            if ledger.end is None and ledger.id == span.stop.ledger:
                open_bytes = await _length(client, span, ledger.id)
    return slices.of_log(found, span, open_bytes=open_bytes)


async def _length(client: Client, span: LogSpan, ledger_id: LedgerId) -> int:
    """Give the bytes of a ledger without an end, up to the end of a span: an entry says it."""
    assert span.stop is not None, "a span that has messages has an end"
    last = EntryId(span.stop.entry if span.stop.index else span.stop.entry - 1)
    if last < slices.FIRST_OF_LOG:
        return 0
    async with locating.reading(client, span.name, ledger_id, span.log_id) as reader:
        return (await entry_looks.entry_at(reader, last)).length
