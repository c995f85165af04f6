"""Records of logs for tests: small ones step by step, long ones in one go."""

from dataclasses import replace
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_names, log_record, log_record_format
from zonekeeper.metadata.formats.log_record import (
    PAGE_LEDGERS,
    LogClaim,
    LogLedger,
    LogLedgerEnd,
    LogPage,
    LogRecord,
    LogWriterMark,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.store.store import Create, Write
from zonekeeper.placement.base.ids import EntryId, LedgerId, ZoneName

LOG_ID: Final = "0f" * 16
NAME: Final = "orders/eu-1"
NEW: Final = LogRecord(id=LOG_ID, created_ms=1_700_000_000_000)
FIRST: Final = LogWriterMark(token="first", zone=ZoneName("a"))
SECOND: Final = LogWriterMark(token="second", zone=ZoneName("b"))
CLAIM: Final = LogClaim(log_id=LOG_ID, epoch=1, token="first")
LATER: Final = LogClaim(log_id=LOG_ID, epoch=2, token="second")
#: The messages, and the bytes, of each ledger that tests end.
MESSAGES, BYTES = 10, 1_000


def ending(number: int, last_ms: int | None = None) -> LogLedgerEnd:
    """Give the end of the ledger with a number, from 0; times ascend unless one is given."""
    at_ms = number * 1_000 if last_ms is None else last_ms
    return LogLedgerEnd(
        last_entry=EntryId(9), size_bytes=BYTES, messages=MESSAGES, first_ms=at_ms, last_ms=at_ms
    )


def claimed(record: LogRecord = NEW) -> LogRecord:
    return log_record.claimed(record, LOG_ID, FIRST, record.epoch).record


def ledger(number: int, *, step: int = 2) -> LogLedger:
    """Give a ledger that has ended; ids are ``step`` apart, so that there are some between."""
    end = replace(ending(number), latest_ms=number * 1_000, total_bytes=(number + 1) * BYTES)
    return LogLedger(id=LedgerId(number * step + 1), epoch=1, sequence=number * MESSAGES, end=end)


def at_start_of(number: int) -> tuple[MessageId, int]:
    """Give the first message of the ledger with a number, and its sequence."""
    return MessageId(LedgerId(number * 2 + 1), EntryId(1), 0), number * MESSAGES


def long(ledgers: int) -> tuple[LogRecord, list[LogPage]]:
    """Give a log of so many ledgers, all ended, as a writer would have made it."""
    pages = max(0, (ledgers - log_record.NEWEST_MAX + PAGE_LEDGERS - 1) // PAGE_LEDGERS)
    sealed = [
        LogPage(
            number=page,
            log_id=LOG_ID,
            ledgers=tuple(map(ledger, range(page * PAGE_LEDGERS, (page + 1) * PAGE_LEDGERS))),
        )
        for page in range(pages)
    ]
    newest = tuple(map(ledger, range(pages * PAGE_LEDGERS, ledgers)))
    record = replace(claimed(), ledgers=newest, next_page=pages, last_ledger=newest[-1].id)
    return record, sealed


async def put_long(cluster: Cluster, ledgers: int, name: str = NAME) -> LogRecord:
    """Put a log of so many ledgers into a store, in few transactions."""
    record, sealed = long(ledgers)
    await logs.create(cluster, name, record)
    where = logs.path(cluster, name)
    writes: list[Write] = []
    for page in sealed:
        if log_names.begins_folder(page.number):
            writes.append(Create(path=where + log_names.page_folder(page.number)))
        value = log_record_format.render_page(page, cluster.instance)
        writes.append(Create(path=where + log_names.page_path(page.number), value=value))
        if len(writes) >= 100:
            await cluster.store.commit(writes)
            writes.clear()
    await cluster.store.commit(writes)
    return record
