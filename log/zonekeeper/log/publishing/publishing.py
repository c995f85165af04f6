"""Publish a batch: bring its attempts and small partitions into the log, by one compare-and-set.

The publisher runs in a process that knows nothing but the parts, and it never claims the log:

1. It reads the record. If the log has the batch, the parts are discarded. If the claim of the parts
   is not the record's, it raises ``LogTaken``.
2. Ledgers that the writer before left open are recovered, and their ends noted.
3. It writes the manifest ledger: the opening, which names the log's last ledger with its end; the
   batches of small partitions; and the manifest as the last entry. It closes the ledger.
4. One compare-and-set adds all with their ends, and notes the batch.

Nothing is a part of the log before the last step, so each step may be done again. If the answer of
the last step is lost, the record says what became of it. A publisher that dies leaves orphans.
"""

import logging
from dataclasses import dataclass, field

from zonekeeper.client.api.client import Client
from zonekeeper.client.base import boundary
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base.errors import BadBatch, LogDamaged
from zonekeeper.log.formats import batches, manifests, openings
from zonekeeper.log.formats.manifests import Manifest, NamedAttempt
from zonekeeper.log.formats.openings import ManifestOpening, Predecessor
from zonekeeper.log.publishing import partitions, retrying
from zonekeeper.log.publishing.partitions import MANY_ATTEMPTS, AttemptEnd, WholeBatch
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import (
    IllegalLogChange,
    LogClaim,
    LogLedgerEnd,
    LogRecord,
)
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.logs import log_queries, logs
from zonekeeper.metadata.logs.log_queries import Publication, PublishedLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import LedgerId

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBatch:
    """What became of a batch."""

    #: How many messages came in; 0: none, as there was none, or the batch was known.
    messages: int = 0
    #: The sequence of the first of them; None: there is none.
    sequence: int | None = None
    #: The ledgers that came in.
    ledgers: int = 0
    #: The log had the batch before, so nothing of these parts came in.
    was_known: bool = False


@dataclass(slots=True)
class _Tries:
    """What the tries of one call have in common."""

    #: The manifest ledgers of this call.
    made: list[LedgerId] = field(default_factory=list)
    #: One for all tries: it knows since when full quorums cannot be had. None: no try needed it.
    chain: LedgerChain | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnBatches:
    """The batches that the manifest ledger has itself."""

    batches: list[bytes]
    messages: int
    first_ms: int
    last_ms: int


async def publish(client: Client, whole: WholeBatch, limit_s: float) -> PublishedBatch:
    """Publish a batch; see above. Without messages nothing is recorded.

    Raises ``LogTaken`` if another writer has the log.
    """
    name = whole.of.log
    if whole.claim is None and not whole.is_known:
        return PublishedBatch()
    if len(whole.attempts) >= MANY_ATTEMPTS:
        _logger.warning(
            "log %s: batch %d of query %s has %d ledgers; fewer partitions (coalesce) cost less",
            name,
            whole.of.batch,
            whole.of.run.query,
            len(whole.attempts),
        )
    tries = _Tries()

    async def once() -> PublishedBatch:
        with boundary.translated(f"publishing into log {name}"):
            try:
                return await _published(client, whole, tries)
            except (LogDamaged, IllegalLogChange, client_errors.NoSuchLedger):
                # Once the batch is known, or the log is taken, its ledgers may be collected. And
                # the ledger that this publisher settles may be in a page.
                record = await logs.find(client.cluster, name)
                if log_queries.is_known(record, whole.of.run.query, whole.of.batch):
                    return await _result(client, whole, record, tries.made)
                if whole.claim is not None:
                    log_record.check_claim(record, whole.claim)
                raise

    return await retrying.until_done(once, name, limit_s)


async def _published(client: Client, whole: WholeBatch, tries: _Tries) -> PublishedBatch:
    """Publish once."""
    of, cluster = whole.of, client.cluster
    record = await logs.find(cluster, of.log)
    if log_queries.is_known(record, of.run.query, of.batch) and _is_same(record, whole.claim):
        return await _result(client, whole, record, tries.made)
    if whole.claim is None or whole.is_known:
        raise BadBatch(
            f"log {of.log}: a task found batch {of.batch} of query {of.run.query} in it and wrote "
            "nothing, and the log knows nothing of that batch any more: it was made anew, or more "
            f"than {log_record.QUERIES_MAX} queries wrote it since; nothing was changed; run the "
            "batch again"
        )
    log_record.check_claim(record, whole.claim)
    partitions.check_copy(of, record)
    # An older record may name this claim, and lack batches that came in under it.
    await logs.check_unrestored(cluster, of.log)
    await together(_check_attempt(client, one) for one in whole.attempts)
    _check_ids(whole, record)
    if tries.chain is None:
        named = (of.run.query, of.batch)
        tries.chain = LedgerChain(client, of.log, record, whole.claim, batch=named)
    chain = tries.chain
    await chain.settle()
    manifest = await _manifest_ledger(chain, whole, whole.claim, tries.made)
    publication = Publication(
        run=of.run,
        batch=of.batch,
        before=chain.record.ledgers[-1].id if chain.record.ledgers else None,
        ledgers=(*(one.published for one in whole.attempts), manifest),
        is_job=of.is_job,
    )
    record = await logs.publish(cluster, of.log, whole.claim, publication)
    return await _result(client, whole, record, tries.made)


def _is_same(record: LogRecord, claim: LogClaim | None) -> bool:
    """Is the record of the incarnation that the parts were written for?"""
    return claim is None or claim.log_id == record.id


async def _result(
    client: Client, whole: WholeBatch, record: LogRecord, made: list[LedgerId]
) -> PublishedBatch:
    """Say whether it was this call that brought the batch in."""
    for ledger_id in made:
        async for one in logs.ledgers(client.cluster, whole.of.log, record, ledger_id):
            if one.id == ledger_id:
                assert one.sequence is not None, "it came in with its end"
                return PublishedBatch(
                    messages=whole.messages,
                    sequence=one.sequence - whole.of_attempts,
                    ledgers=len(whole.attempts) + 1,
                )
            break
    return PublishedBatch(was_known=True)


async def _check_attempt(client: Client, one: AttemptEnd) -> None:
    """Hold that an attempt's ledger is there, and closed where its task closed it."""
    try:
        ledger = await client.metadata(one.ledger)
    except client_errors.NoSuchLedger as error:
        raise LogDamaged(
            f"ledger {one.ledger}, which has partition {one.partition} of batch {one.of.batch}, is "
            "gone; nothing was changed; run the batch again"
        ) from error
    if not ledger.is_closed or ledger.last_entry != one.last_entry:
        raise LogDamaged(
            f"ledger {one.ledger}, which has partition {one.partition} of batch {one.of.batch}, is "
            f"not closed at entry {one.last_entry}; nothing was changed; run the batch again"
        )


def _check_ids(whole: WholeBatch, record: LogRecord) -> None:
    """Refuse attempts that were made before the log's last ledger: none comes in below it."""
    lowest = whole.attempts[0].ledger if whole.attempts else None
    if lowest is not None and record.last_ledger is not None and lowest <= record.last_ledger:
        raise BadBatch(
            f"ledger {lowest} of batch {whole.of.batch} of query {whole.of.run.query} is not above "
            f"ledger {record.last_ledger}, the highest that log {whole.of.log} ever had; nothing "
            "was changed; write the batch again"
        )


async def _manifest_ledger(
    chain: LedgerChain, whole: WholeBatch, claim: LogClaim, made: list[LedgerId]
) -> PublishedLedger:
    """Write the manifest ledger, and close it."""
    last = chain.record.ledgers[-1] if chain.record.ledgers else None
    before = None
    if last is not None:
        assert last.end is not None, "the ledgers were settled"
        before = Predecessor(ledger=last.id, last_entry=last.end.last_entry)
    raw = openings.build(
        ManifestOpening(
            log_id=bytes.fromhex(claim.log_id),
            epoch=claim.epoch,
            name=whole.of.log,
            sequence=chain.next_sequence + whole.of_attempts,
            before=before,
            query=whole.of.run.query,
            batch=whole.of.batch,
        )
    )
    own = _own_batches(whole)
    entries = [raw, *own.batches, _manifest(whole, own.messages)]
    highest = max((one.ledger for one in whole.attempts), default=None)
    writer = await chain.apart(above=highest)
    made.append(writer.ledger_id)
    try:
        await writer.append_many(entries)
        await writer.close()
    except BaseException:
        writer.halt()  # it has no manifest, or no record has it: an orphan
        raise
    end = LogLedgerEnd(
        last_entry=writer.last_appended,
        size_bytes=sum(map(len, entries)),
        messages=own.messages,
        first_ms=own.first_ms,
        last_ms=own.last_ms,
    )
    return PublishedLedger(id=writer.ledger_id, end=end)


def _own_batches(whole: WholeBatch) -> _OwnBatches:
    """Put the batches of small partitions behind each other, as those of one ledger."""
    own: list[bytes] = []
    place, first_ms, last_ms = 0, 0, 0
    for part in whole.small:
        for raw in part.batches:
            try:
                batch, count, last_ms = batches.moved(raw, place=place, not_before_ms=last_ms)
            except UnreadableError as error:
                raise BadBatch(
                    f"partition {part.partition} of batch {part.of.batch} was damaged on its way: "
                    f"{error}; nothing was changed; run the batch again"
                ) from error
            first_ms = last_ms if not own else first_ms
            place += count
            own.append(batch)
    if place != sum(part.messages for part in whole.small):
        raise BadBatch(
            f"batch {whole.of.batch}: small partitions say that they have "
            f"{sum(part.messages for part in whole.small)} messages, and have {place}; nothing "
            "was changed; run the batch again"
        )
    return _OwnBatches(batches=own, messages=place, first_ms=first_ms, last_ms=last_ms)


def _manifest(whole: WholeBatch, messages: int) -> bytes:
    named = tuple(
        NamedAttempt(
            ledger=one.ledger,
            last_entry=one.last_entry,
            messages=one.messages,
            size_bytes=one.size_bytes,
        )
        for one in whole.attempts
    )
    return manifests.build(
        Manifest(
            query=whole.of.run.query,
            run=whole.of.run.run,
            batch=whole.of.batch,
            is_job=whole.of.is_job,
            messages=messages,
            attempts=named,
        )
    )
