"""Logs in the store: create, read, change, search, delete.

Every change is a compare-and-set of the record; pages that it seals or removes are of the same
transaction. A change is decided by a function of ``log_record`` on the record as it stands. It is
decided again if another client was faster or an answer was lost, and recognises its own work.

A change reads the record and no page, and writes at most one page; only a publication writes as
many as its ledgers fill. So it costs the same for a log of ten ledgers and of 100,000. A search
reads O(log n) pages.

A record of another instance is neither a log nor none: reading it raises ``ForeignRecordError``,
because a log that was made over it would have the pages of the other one.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_names, log_record, log_record_format
from zonekeeper.metadata.formats.log_record import (
    IllegalLogChange,
    LogChange,
    LogClaim,
    LogLedger,
    LogLedgerEnd,
    LogPage,
    LogRecord,
    LogRules,
    LogWriterMark,
    OtherIncarnation,
)
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import deleted_logs, log_candidates, log_queries
from zonekeeper.metadata.logs.log_queries import Publication, QueryRun
from zonekeeper.metadata.store import pruning, update
from zonekeeper.metadata.store.errors import NoNodeError
from zonekeeper.metadata.store.store import Check, Create, Delete, Versioned, Write, parent_of
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.placement.base.troubles import Refusal, Trouble

#: Another client may prune empty folders while a log is created in them.
_CREATIONS_MAX: Final = 10

_Decide: TypeAlias = Callable[[LogRecord], LogChange]


class NoLogError(Trouble):
    """There is no such log: it was deleted, or never created."""


class LogExistsError(Refusal):
    """Another log has this name."""


class RestoredRootError(Trouble):
    """The root was set back, so it may name ledgers that are older than what bookies hold."""

    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaiming:
    """The next ledgers of a log that may be deleted, lowest first."""

    ledgers: tuple[LedgerId, ...]
    #: When those are deleted, all ledgers of the log up to this one are.
    up_to: LedgerId


def top(cluster: Cluster) -> str:
    """Give the path of the node of all logs."""
    return cluster.root.beside("logs")


def path(cluster: Cluster, name: str) -> str:
    """Give the path of a log's record; raises ``BadLogNameError``."""
    return top(cluster) + log_names.path(name)


async def create(cluster: Cluster, name: str, record: LogRecord) -> LogRecord:
    """Create a log; ``record.id`` was drawn for this call.

    Raises ``LogExistsError`` or ``BadLogRulesError``.
    """
    log_record.check_rules(record.rules)
    where = path(cluster, name)

    def decide(node: Versioned | None) -> update.Decision:
        if node is None:
            return update.Store(log_record_format.render(record, cluster.instance))
        if _read(cluster, where, node.value).id != record.id:
            raise LogExistsError(f"there is a log {name} in {cluster}; nothing was changed")
        return update.Keep()

    for attempts_left in reversed(range(_CREATIONS_MAX)):
        made = False
        try:
            await make_folder(cluster, parent_of(where))
            made = True
            standing = await update.update(cluster.store, where, decide)
        except NoNodeError as error:
            # A record in doubt may have been there, and deleted: its id must not come again.
            if attempts_left == 0 or (made and error.maybe_applied):
                raise
        else:
            assert standing is not None, "it was created, or was there"
            return _read(cluster, where, standing.value)
    raise AssertionError("the last attempt raises")


def no_log(cluster: Cluster, name: str, then: str = "") -> NoLogError:
    """Give the error for a log that is not there; ``then`` says what follows from that."""
    missing = f"there is no log {name} in {cluster}: it was deleted, or never created"
    return NoLogError("; ".join(filter(None, (missing, then))))


async def find(cluster: Cluster, name: str, *, sync: bool = True) -> LogRecord:
    """Read the record of a log; raises ``NoLogError``, or ``UnreadableError`` for damage."""
    where = path(cluster, name)
    node = await cluster.store.get(where, sync=sync)
    if node is None:
        raise no_log(cluster, name)
    return _read(cluster, where, node.value)


@asynccontextmanager
async def watch(cluster: Cluster, name: str) -> AsyncIterator[AsyncIterator[LogRecord | None]]:
    """Follow the record of a log; None: there is no such log."""
    where = path(cluster, name)

    async def states(nodes: AsyncIterator[Versioned | None]) -> AsyncIterator[LogRecord | None]:
        async for node in nodes:
            yield None if node is None else _read(cluster, where, node.value)

    async with cluster.store.watch(where) as nodes:
        yield states(nodes)


async def claim(cluster: Cluster, name: str, seen: LogRecord, writer: LogWriterMark) -> LogRecord:
    """Give a log to a writer that saw its record; raises ``LogTaken`` if another one was faster.

    While the root is marked as restored no log is given to a writer.
    """
    return await _change(
        cluster,
        name,
        lambda record: log_record.claimed(record, seen.id, writer, seen.epoch),
        alongside=partial(_unrestored, cluster, name),
    )


async def claim_for_query(
    cluster: Cluster, name: str, seen: LogRecord, run: QueryRun, zone: ZoneName | None
) -> LogRecord:
    """Give a log to a run of a query that saw its record, or find that the run has it.

    Raises ``LogTaken`` if another writer was faster, or the run held the log and lost it.
    """
    return await _change(
        cluster,
        name,
        lambda record: log_queries.claimed(record, seen.id, run, seen.epoch, zone),
        alongside=partial(_unrestored, cluster, name),
    )


async def publish(
    cluster: Cluster, name: str, claim: LogClaim, publication: Publication
) -> LogRecord:
    """Bring a batch of a query into a log; a batch that is known already changes nothing.

    While the root is marked as restored no batch comes in (``check_unrestored``).
    """
    return await _change(
        cluster,
        name,
        lambda record: log_queries.published(record, claim, publication),
        alongside=partial(_unrestored, cluster, name),
    )


async def end_query(cluster: Cluster, name: str, log_id: str, query: str) -> LogRecord:
    """Note that a job is over: nothing of it comes into the log any more."""
    return await _change(cluster, name, lambda record: log_queries.ended(record, log_id, query))


async def add(cluster: Cluster, name: str, claim: LogClaim, ledger_id: LedgerId) -> LogRecord:
    """Add a ledger, before anything is written to it."""
    return await _change(cluster, name, lambda record: log_record.added(record, claim, ledger_id))


async def end(
    cluster: Cluster, name: str, claim: LogClaim, ledger_id: LedgerId, how: LogLedgerEnd
) -> LogRecord:
    """Note how a ledger has ended."""
    return await _change(
        cluster, name, lambda record: log_record.ended(record, claim, ledger_id, how)
    )


async def release(cluster: Cluster, name: str, claim: LogClaim) -> LogRecord:
    """Note that a candidate has closed the log, and that another one may open it."""
    return await _change(cluster, name, lambda record: log_record.released(record, claim))


async def drop(cluster: Cluster, name: str, claim: LogClaim, ledger_id: LedgerId) -> LogRecord:
    """Take the last ledger out again."""
    return await _change(cluster, name, lambda record: log_record.dropped(record, claim, ledger_id))


async def trim(
    cluster: Cluster, name: str, log_id: str, start: MessageId, sequence: int
) -> LogRecord:
    """Move the start of a log forward; ledgers below it may then be deleted (``reclaiming``)."""
    return await _change(
        cluster, name, lambda record: log_record.trimmed(record, log_id, start, sequence)
    )


async def rule(
    cluster: Cluster, name: str, log_id: str, change: Callable[[LogRules], LogRules]
) -> LogRecord:
    """Change the rules of a log; ``change`` is asked again if another client was faster.

    It must give the same rules if it is asked with what it gave: an answer may be lost.
    """
    return await _change(
        cluster, name, lambda record: log_record.ruled(record, log_id, change(record.rules))
    )


async def begin_deletion(cluster: Cluster, name: str, log_id: str) -> LogRecord:
    """Mark a log, so that nobody opens it any more, and all its ledgers may be deleted."""
    return await _change(cluster, name, lambda record: log_record.marked_deleting(record, log_id))


async def reclaiming(cluster: Cluster, name: str, record: LogRecord) -> Reclaiming | None:
    """Give the next ledgers that may be deleted, at most those of a page; None: there are none."""
    oldest = await _oldest(cluster, name, record)
    ledgers = record.ledgers if oldest is None else oldest.ledgers
    ids = log_record.to_delete(record, ledgers)
    if ids:
        return Reclaiming(ledgers=ids, up_to=ids[-1])
    if record.gone is not None and any(ledger.id <= record.gone for ledger in ledgers[-1:]):
        return Reclaiming(ledgers=(), up_to=record.gone)  # a page that is still to be removed
    return None


async def reclaimed(cluster: Cluster, name: str, log_id: str, up_to: LedgerId) -> LogRecord:
    """Note that all ledgers of a log up to one are deleted."""
    seen = await find(cluster, name)
    oldest = await _oldest(cluster, name, seen)
    return await _change(
        cluster, name, lambda record: log_record.reclaimed(record, log_id, up_to, oldest)
    )


async def remove(cluster: Cluster, name: str, log_id: str, *, now_ms: int) -> None:
    """Remove the record of a log whose ledgers are all deleted; no error if it is gone already.

    A note of the deletion stays for some time (``deleted_logs``).
    """
    where = path(cluster, name)
    note = deleted_logs.DeletedLog(log_id=log_id, name=name, at_ms=now_ms)
    also: list[Write] = []
    if await deleted_logs.find(cluster, log_id) is None:
        await make_folder(cluster, parent_of(deleted_logs.path(cluster, log_id)))
        also.append(deleted_logs.noted(cluster, note))

    def decide(node: Versioned | None) -> update.Decision:
        if node is None:
            return update.Keep()
        record = _read(cluster, where, node.value)
        if record.id != log_id:
            return update.Keep()  # it is gone, and another log has its name
        if not record.deleting or not log_record.is_empty(record):
            raise IllegalLogChange(f"log {name} still has ledgers: its record stays")
        if record.next_page == 0 or log_names.begins_folder(record.next_page):
            return update.RemoveNode(also)
        folder = where + log_names.page_folder(record.next_page)
        return update.RemoveNode([*also, Delete(path=folder, version=None)])

    await update.update(cluster.store, where, decide)
    await pruning.prune(cluster.store, where, below=top(cluster))
    await log_candidates.forget(cluster, name)


async def page(cluster: Cluster, name: str, record: LogRecord, number: int) -> LogPage | None:
    """Read a page of a log; None: it was removed since the record was read."""
    where = path(cluster, name) + log_names.page_path(number)
    node = await cluster.store.get(where)
    if node is None:
        # A follower that is behind may show the record and not yet the page: one transaction wrote
        # both, so what is no older than this call has the page, or has lost it again.
        node = await cluster.store.get(where, sync=True)
    if node is None:
        return None
    with stored_at(where, cluster.store.name):
        found = log_record_format.parse_page(node.value, cluster.instance)
    if found.log_id != record.id:
        raise OtherIncarnation(
            f"log {name} was deleted, and made anew: its record was {record.id}, and its pages are "
            f"those of {found.log_id}; open it again"
        )
    return found


async def search(
    cluster: Cluster, name: str, record: LogRecord, is_before: Callable[[LogLedger], bool]
) -> LogLedger | None:
    """Give the first ledger of a log for which ``is_before`` is false; None: it is true for all.

    In the order of ledgers, ``is_before`` must be true first and then false.
    """
    if record.ledgers and is_before(record.ledgers[0]):
        return next((one for one in record.ledgers if not is_before(one)), None)
    low, high = record.first_page, record.next_page
    found = record.ledgers[0] if record.ledgers else None
    while low < high:
        middle = (low + high) // 2
        read = await page(cluster, name, record, middle)
        if read is None or is_before(read.ledgers[-1]):
            low = middle + 1
        else:
            found = next(one for one in read.ledgers if not is_before(one))
            high = middle
    return found


async def ledgers(
    cluster: Cluster, name: str, record: LogRecord, first: LedgerId
) -> AsyncGenerator[LogLedger, None]:
    """Give the ledgers of a log from one on, in order, page by page."""
    low, high = record.first_page, record.next_page
    if record.ledgers and record.ledgers[0].id <= first:
        low = high  # a tail asks for the newest, and reads no page
    while low < high:
        middle = (low + high) // 2
        read = await page(cluster, name, record, middle)
        if read is None or read.ledgers[-1].id < first:
            low = middle + 1
        else:
            high = middle
    for number in range(low, record.next_page):
        read = await page(cluster, name, record, number)
        for ledger in () if read is None else read.ledgers:
            if ledger.id >= first:
                yield ledger
    for ledger in record.ledgers:
        if ledger.id >= first:
            yield ledger


async def make_folder(cluster: Cluster, folder: str) -> None:
    """Make a node, and the missing nodes above it, whatever answer gets lost."""
    # In step with the store: a follower that is behind would show a folder that is gone by now.
    if await cluster.store.exists(folder, sync=True):
        return
    await make_folder(cluster, parent_of(folder))
    await update.update(
        cluster.store,
        folder,
        lambda node: update.Store(b"") if node is None else update.Keep(),
    )


async def check_unrestored(cluster: Cluster, name: str) -> None:
    """Raise ``RestoredRootError`` while the root is marked as restored.

    A writer that runs finds that the record lacks its ledger. Who knows nothing of the log's
    ledgers, as one that claims it, or publishes into it, must ask this.
    """
    if await restored.read(cluster) is not None:
        raise RestoredRootError(
            f"{cluster} was set back to an older state, so log {name} may have later ledgers "
            "than its record says, and is not opened for writing: see `zonekeeper metadata "
            "restored`; nothing was changed"
        )


async def _unrestored(cluster: Cluster, name: str) -> Sequence[Check]:
    await check_unrestored(cluster, name)
    return ()


async def _oldest(cluster: Cluster, name: str, record: LogRecord) -> LogPage | None:
    if record.first_page == record.next_page:
        return None
    return await page(cluster, name, record, record.first_page)


async def _change(
    cluster: Cluster, name: str, decide: _Decide, *, alongside: update.Alongside = update.nothing
) -> LogRecord:
    where = path(cluster, name)

    def decide_bytes(node: Versioned | None) -> update.Decision:
        if node is None:
            raise no_log(cluster, name)
        before = _read(cluster, where, node.value)
        change = decide(before)
        if change.record == before:
            return update.Keep()
        value = log_record_format.render(change.record, cluster.instance)
        return update.Store(value, _pages(cluster, where, change))

    standing = await update.update(cluster.store, where, decide_bytes, alongside=alongside)
    assert standing is not None, "an absent log raises"
    return _read(cluster, where, standing.value)


def _pages(cluster: Cluster, where: str, change: LogChange) -> list[Write]:
    """Give the writes of the pages that change with a record."""
    writes: list[Write] = []
    for sealed in change.sealed:
        if log_names.begins_folder(sealed.number):
            writes.append(Create(path=where + log_names.page_folder(sealed.number)))
        value = log_record_format.render_page(sealed, cluster.instance)
        writes.append(Create(path=where + log_names.page_path(sealed.number), value=value))
    if change.removed is not None:
        writes.append(Delete(path=where + log_names.page_path(change.removed), version=0))
        if log_names.ends_folder(change.removed):
            writes.append(Delete(path=where + log_names.page_folder(change.removed), version=None))
    return writes


def _read(cluster: Cluster, where: str, raw: bytes) -> LogRecord:
    with stored_at(where, cluster.store.name):
        return log_record_format.parse(raw, cluster.instance)
