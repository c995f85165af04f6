"""Put the ledgers of a log that is rebuilt into its record, each with the end that it has.

A chained ledger gets the end that its writer would have noted. An attempt, and the manifest ledger
behind it, get the ends that their publisher noted: what they hold must be what the manifest says.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from zonekeeper.client.api.client import Client
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats.batches import MessageBatch
from zonekeeper.log.formats.manifests import Manifest
from zonekeeper.log.keeping.lost_records import FoundAttempt, FoundLedger
from zonekeeper.log.sessions import locating
from zonekeeper.log.writing import joining
from zonekeeper.log.writing.joining import ClosedLedger
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import (
    LogChange,
    LogClaim,
    LogLedger,
    LogLedgerEnd,
    LogPage,
    LogRecord,
    LogWriterMark,
)
from zonekeeper.metadata.logs import log_queries
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: Gives the record with a ledger more, and the pages that it seals.
Adding: TypeAlias = Callable[[LogRecord], Awaitable[tuple[LogRecord, tuple[LogPage, ...]]]]

_FIRST_BATCH = EntryId(locating.OPENING_ENTRY + 1)


def of_chained(client: Client, name: str, one: FoundLedger) -> Adding:
    """Add a chained ledger, or a manifest ledger behind its attempts."""

    async def add(record: LogRecord) -> tuple[LogRecord, tuple[LogPage, ...]]:
        claim, change, ledger = _added(record, one.id, one.opening.epoch)
        if ledger.sequence != one.opening.sequence:
            raise LogDamaged(
                f"ledger {one.id} of log {name} says that it begins with message "
                f"{one.opening.sequence}, and the one before it ends at {ledger.sequence}; nothing "
                "was changed; look at both"
            )
        after = change.record
        if one.manifest is None:
            closed = await _closed(client, name, one)
            end = joining.judged(after, ledger, closed)
            assert end is not None, "it continues the one before it"
        else:
            last = EntryId(one.last_entry - 1)
            end = await _read_end(client, name, after, one.id, last, one.manifest.messages)
            end = replace(end, last_entry=one.last_entry)
        after = log_record.ended(after, claim, one.id, end).record
        if one.manifest is not None:
            after = _noted(after, one.manifest)
        return after, change.sealed

    return add


def of_attempt(client: Client, name: str, one: FoundAttempt, manifest: FoundLedger) -> Adding:
    """Add an attempt that a manifest ledger names."""
    assert manifest.manifest is not None
    named = next(each for each in manifest.manifest.attempts if each.ledger == one.id)

    async def add(record: LogRecord) -> tuple[LogRecord, tuple[LogPage, ...]]:
        claim, change, _ = _added(record, one.id, manifest.opening.epoch)
        end = await _read_end(client, name, change.record, one.id, one.last_entry, named.messages)
        return log_record.ended(change.record, claim, one.id, end).record, change.sealed

    return add


def _added(
    record: LogRecord, ledger_id: LedgerId, epoch: int
) -> tuple[LogClaim, LogChange, LogLedger]:
    """Add a ledger, as the writer of its epoch would have."""
    claim = LogClaim(log_id=record.id, epoch=epoch, token=record.id)
    record = replace(record, epoch=claim.epoch, writer=LogWriterMark(token=claim.token))
    change = log_record.added(record, claim, ledger_id)
    return claim, change, change.record.ledgers[-1]


def _noted(record: LogRecord, manifest: Manifest) -> LogRecord:
    run = QueryRun(query=manifest.query, run=manifest.run)
    return log_queries.found(record, run, manifest.batch, is_job=manifest.is_job)


async def _closed(client: Client, name: str, one: FoundLedger) -> ClosedLedger:
    async with locating.reading(client, name, one.id) as reader:
        closed = ClosedLedger(
            last_entry=one.last_entry, size_bytes=reader.metadata.length, opening=one.opening
        )
        if one.last_entry == locating.OPENING_ENTRY:
            return closed
        return replace(
            closed,
            first=await locating.batch_of(reader, _FIRST_BATCH),
            last=await locating.batch_of(reader, one.last_entry),
        )


async def _read_end(
    client: Client,
    name: str,
    record: LogRecord,
    ledger_id: LedgerId,
    last: EntryId,
    messages: int,
) -> LogLedgerEnd:
    """Give the end of the last ledger, whose last batch is in an entry; check its messages."""
    before = record.ledgers[-2].end if len(record.ledgers) > 1 else None
    first_ms = last_ms = 0 if before is None else before.last_ms
    held = 0
    async with locating.reading(client, name, ledger_id) as reader:
        size_bytes = reader.metadata.length
        if last >= _FIRST_BATCH:
            first: MessageBatch = await locating.batch_of(reader, _FIRST_BATCH)
            ending: MessageBatch = await locating.batch_of(reader, last)
            first_ms, last_ms, held = first.wall_ms, ending.wall_ms, ending.place + len(ending)
    if held != messages:
        raise LogDamaged(
            f"ledger {ledger_id} of log {name} has {held} messages, and the manifest of its batch "
            f"says {messages}; nothing was changed; look at it"
        )
    return LogLedgerEnd(
        last_entry=last,
        size_bytes=size_bytes,
        messages=messages,
        first_ms=first_ms,
        last_ms=last_ms,
    )
