"""Decide how a ledger that has no end in the record ended, and whether it is part of the log. Pure.

A ledger is part of the log if its opening names the log, and continues the ledger before it exactly
as that one ended. A ledger in which nothing was ever written is none; nor is one that does not
continue: it is dropped, and with it all behind it. So at an opening the ledgers without an end are
judged in order.
"""

from dataclasses import dataclass, replace

from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats import openings
from zonekeeper.log.formats.batches import MessageBatch
from zonekeeper.log.formats.openings import ChainedOpening, LogOpening, Predecessor
from zonekeeper.metadata.formats.log_record import LogLedger, LogLedgerEnd, LogRecord
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLedger:
    """What stands in a ledger that was closed. ``opening`` None: the ledger is empty."""

    last_entry: EntryId
    size_bytes: int
    opening: LogOpening | None = None
    #: The first and the last batch; None: there is none behind the opening.
    first: MessageBatch | None = None
    last: MessageBatch | None = None


def predecessor(record: LogRecord, ledger: LogLedger) -> Predecessor | None:
    """Give the ledger before one, as the record says that it ended; None: the record has none."""
    at = record.ledgers.index(ledger)
    before = record.ledgers[at - 1] if at else None
    if before is None or before.end is None:
        return None
    return Predecessor(ledger=before.id, last_entry=before.end.last_entry)


def continues(record: LogRecord, ledger: LogLedger, opening: LogOpening) -> bool:
    """Does a ledger's opening continue what the record has before the ledger?

    If the record does not have the ledger before any more, that one was trimmed: the start of the
    log is in this ledger or behind it, and nothing is left to compare.
    """
    if opening.log_id.hex() != record.id or not isinstance(opening, ChainedOpening):
        return False
    if record.ledgers[0] == ledger and record.gone is not None:
        return True
    return openings.continues(opening, predecessor(record, ledger))


def with_end(record: LogRecord, ledger: LogLedger, end: LogLedgerEnd) -> LogRecord:
    """Give the record as it will be with the end of a ledger, to judge the one behind it."""
    ledgers = list(record.ledgers)
    ledgers[ledgers.index(ledger)] = replace(ledger, end=end)
    return replace(record, ledgers=tuple(ledgers))


def judged(record: LogRecord, ledger: LogLedger, closed: ClosedLedger) -> LogLedgerEnd | None:
    """Give the end of the first ledger that has none; None: it is no part of the log."""
    if closed.last_entry == NO_ENTRY:
        return None
    if closed.opening is None or closed.opening.log_id.hex() != record.id:
        raise LogDamaged(
            f"ledger {ledger.id} is in the record of log {record.id}, and its first entry is not "
            "the opening of a ledger of that log; nothing was changed; look at the ledger"
        )
    if not continues(record, ledger, closed.opening):
        return None
    if closed.first is None or closed.last is None:
        at = record.ledgers.index(ledger)
        before = record.ledgers[at - 1].end if at else None
        at_ms = 0 if before is None else before.last_ms
        return LogLedgerEnd(
            last_entry=closed.last_entry,
            size_bytes=closed.size_bytes,
            messages=0,
            first_ms=at_ms,
            last_ms=at_ms,
        )
    return LogLedgerEnd(
        last_entry=closed.last_entry,
        size_bytes=closed.size_bytes,
        messages=closed.last.place + len(closed.last),
        first_ms=closed.first.wall_ms,
        last_ms=closed.last.wall_ms,
    )
