"""What a query does to the record of a log: claim it, publish a batch, be over. Pure.

A query writes a log batch by batch. Many tasks write one batch at the same time, each into ledgers
of its own (*attempts*). A batch comes into the log in one step, or not at all.

- A query writes under its id and the id of its present *run*. All tasks of a run share one claim:
  the first compare-and-set makes it, and the others find their own token.
- A run that held the log and lost it never claims it again. Its tasks hear ``LogTaken``. So a
  driver that is thought dead, or a late task of it, takes nothing back. A new run claims the log
  from every other holder, the run before it included.
- Batches of a query ascend. A batch that is not above the last published one is *known*: whatever
  is published for it again is discarded. That is looked at before the claim. So a repetition does
  no harm even when another writer has the log, and an answer that was lost is looked up.
- A publication adds attempts in the order of their ids, and behind them the *manifest* ledger,
  whose last entry names them. All of them have their ends. The manifest continues the log's last
  ledger, and the record must still end with that one.
- A job is a query of one batch. When it is published or aborted it is *over*: it claims and
  publishes nothing more.

The record remembers ``QUERIES_MAX`` queries. When there is one more, a query that is over is
forgotten first, and then the one whose last use is the longest ago. What is forgotten about a
query is its last batch and its runs. A query that goes on after that would add its last batch
again.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import (
    LOST_RUNS_MAX,
    QUERIES_MAX,
    LedgerTooLow,
    LogChange,
    LogClaim,
    LogLedger,
    LogLedgerEnd,
    LogQuery,
    LogRecord,
    LogWriterMark,
)
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.placement.base.troubles import Refusal

#: The ids of a query and of its runs.
ID_LENGTH_MAX: Final = 100

_ID: Final = re.compile(f"[A-Za-z0-9._:-]{{1,{ID_LENGTH_MAX}}}")


class BadQueryIdError(Refusal, ValueError):
    """A query, or a run, cannot have this id."""


class QueryOver(Refusal):
    """The job was aborted or is done: nothing more of it comes into the log."""


class StalePublication(Refusal):
    """The log has got another last ledger meanwhile; nothing was changed: look, and do it again."""

    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """One run of a query."""

    query: str
    run: str

    @property
    def token(self) -> str:
        """The token of the writer that this run is; no other writer draws such a one."""
        return f"query/{self.query}/{self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLedger:
    """A closed ledger that comes into the log; its end has no running numbers yet."""

    id: LedgerId
    end: LogLedgerEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One batch of a query, as it comes into the log."""

    run: QueryRun
    batch: int
    #: The ledger that the manifest continues; None: the log has none.
    before: LedgerId | None
    #: The attempts by ascending ids, and behind them the manifest's ledger.
    ledgers: tuple[PublishedLedger, ...]
    #: Is it the only batch, because the query is a job?
    is_job: bool = False


def check_id(what: str, value: str) -> None:
    """Refuse an id that is none; raises ``BadQueryIdError``."""
    if not _ID.fullmatch(value):
        raise BadQueryIdError(
            f"{value[:ID_LENGTH_MAX]!r} is not the id of a {what}: it has 1 to {ID_LENGTH_MAX} "
            "letters, digits, and the signs . _ : and -"
        )


def of(record: LogRecord, query: str) -> LogQuery | None:
    """Give what a record says of a query; None: nothing."""
    return next((one for one in record.queries if one.query == query), None)


def is_known(record: LogRecord, query: str, batch: int) -> bool:
    """Is a batch of a query in the log already, or one after it?"""
    known = of(record, query)
    return known is not None and known.published is not None and batch <= known.published


def never_comes(record: LogRecord, query: str, batch: int) -> bool:
    """Can no ledger come into the log any more for a batch of a query?"""
    known = of(record, query)
    return is_known(record, query, batch) or (known is not None and known.is_over)


def claimed(
    record: LogRecord, log_id: str, run: QueryRun, seen_epoch: int, zone: ZoneName | None = None
) -> LogChange:
    """Give the log to a run of a query that saw it at an epoch, or find that the run has it."""
    log_record.check_whole(record, log_id)
    known = of(record, run.query)
    if known is not None and known.is_over:
        raise over(run.query)
    if record.writer is not None and record.writer.token == run.token:
        return LogChange(record=record)
    if known is not None and run.run in (known.run, *known.lost_runs):
        raise log_record.taken(record)
    if record.epoch != seen_epoch:
        raise log_record.taken(record)
    if known is None:
        known = LogQuery(query=run.query, run=run.run)
    else:
        lost = (*known.lost_runs, known.run)[-LOST_RUNS_MAX:]
        known = replace(known, run=run.run, lost_runs=lost)
    mark = LogWriterMark(token=run.token, zone=zone, address=run.token)
    return LogChange(
        record=replace(record, epoch=seen_epoch + 1, writer=mark, queries=_used(record, known))
    )


def published(record: LogRecord, claim: LogClaim, publication: Publication) -> LogChange:
    """Add a batch's ledgers, or nothing if the batch is known; see above."""
    log_record.check_whole(record, claim.log_id)
    run, batch = publication.run, publication.batch
    if is_known(record, run.query, batch):
        return LogChange(record=record)
    if never_comes(record, run.query, batch):
        raise over(run.query)
    log_record.check_claim(record, claim)
    last = record.ledgers[-1] if record.ledgers else None
    if record.unended or publication.before != (None if last is None else last.id):
        raise StalePublication(
            f"batch {batch} of query {run.query} continues ledger {publication.before}, and the "
            f"log ends with ledger {None if last is None else last.id}; nothing was changed"
        )
    ledgers, highest = list(record.ledgers), record.last_ledger
    for one in publication.ledgers:
        if highest is not None and one.id <= highest:
            raise LedgerTooLow(
                f"ledger {one.id} of batch {batch} of query {run.query} is not above ledger "
                f"{highest}; nothing was added; write the batch again"
            )
        highest = one.id
        ledgers.append(_behind(record, ledgers, one, claim.epoch))
    known = of(record, run.query) or LogQuery(query=run.query, run=run.run)
    known = replace(known, published=batch, is_over=publication.is_job)
    return log_record.sealed(
        replace(
            record,
            ledgers=tuple(ledgers),
            last_ledger=highest,
            queries=_used(record, known),
        )
    )


def ended(record: LogRecord, log_id: str, query: str) -> LogChange:
    """Note that a job is over without a batch.

    A job that the record does not know is noted, too: a late task of it would claim the log from
    whoever has it. That forgets other jobs that are over, and no query that goes on.
    """
    known = of(record, query)
    if record.id != log_id:
        return LogChange(record=record)
    if known is not None:
        noted = (replace(one, is_over=True) if one is known else one for one in record.queries)
        return LogChange(record=replace(record, queries=tuple(noted)))
    if len(record.queries) >= QUERIES_MAX and not any(one.is_over for one in record.queries):
        return LogChange(record=record)
    never_ran = LogQuery(query=query, run="", is_over=True)
    return LogChange(record=replace(record, queries=_used(record, never_ran)))


def found(record: LogRecord, run: QueryRun, batch: int, *, is_job: bool) -> LogRecord:
    """Note a batch that a ledger of the log shows to be published, in a record that is made anew.

    The run that published it has not the log any more.
    """
    if is_known(record, run.query, batch):
        return record
    known = of(record, run.query) or LogQuery(query=run.query, run=run.run)
    if known.run != run.run:
        lost = (*known.lost_runs, known.run)[-LOST_RUNS_MAX:]
        known = replace(known, run=run.run, lost_runs=lost)
    known = replace(known, published=batch, is_over=known.is_over or is_job)
    return replace(record, queries=_used(record, known))


def over(query: str) -> QueryOver:
    """Give the error for a query that is over."""
    return QueryOver(
        f"job {query} is over: it was published or aborted before; nothing was changed; begin "
        "another job"
    )


def _behind(
    record: LogRecord, ledgers: list[LogLedger], one: PublishedLedger, epoch: int
) -> LogLedger:
    """Give a ledger as it stands behind others; one without a message has the time before it."""
    if not ledgers:
        sequence, before = record.start_sequence, None
    else:
        last = ledgers[-1]
        assert last.end is not None, "all of them have ended"
        assert last.sequence is not None, "a ledger that has ended has a sequence"
        sequence, before = last.sequence + last.end.messages, last.end
    end = one.end
    if not end.messages:
        at_ms = 0 if before is None else before.last_ms
        end = replace(end, first_ms=at_ms, last_ms=at_ms)
    end = log_record.behind(before, end)
    return LogLedger(id=one.id, epoch=epoch, sequence=sequence, end=end)


def _used(record: LogRecord, known: LogQuery) -> tuple[LogQuery, ...]:
    """Give the queries of a record, of which one is used now; one too many is forgotten."""
    others = [one for one in record.queries if one.query != known.query]
    while len(others) >= QUERIES_MAX:
        others.remove(next((one for one in others if one.is_over), others[0]))
    return (*others, known)
