"""The record of a log: its writer, its start, its newest ledgers; and the changes of it. Pure.

Older ledgers stand in sealed pages of ``PAGE_LEDGERS`` each, so the record has at most
``NEWEST_MAX`` ledgers however long the log is. A change gives the new record, and the pages that
are written or removed in the same transaction.

- A claim raises the epoch. Every change of a writer names its claim, and is refused once the record
  names another one.
- Ids of ledgers ascend. ``last_ledger`` also counts a ledger that was dropped, so that no id of a
  message ever comes back.
- At most two ledgers have no end: a writer adds the next ledger while it finishes the one before.
- Queries write attempts in parallel, and publish them in one step (``metadata.logs.log_queries``).
- The start only moves forward. Ledgers below it are no part of the log. They are deleted after the
  start has moved, in ascending order, and ``gone`` says up to which ledger that was done.

Each change recognises its own work, and gives the record back as it is. So it may be made again
after an answer was lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.troubles import Refusal, Trouble

PAGE_LEDGERS: Final = 32
#: A record with more ledgers than this seals a page.
NEWEST_MAX: Final = 64
#: Ledgers of a log that have no end yet.
UNENDED_MAX: Final = 2
#: A record remembers so many queries, and of each so many runs that lost the log.
QUERIES_MAX: Final = 64
LOST_RUNS_MAX: Final = 8
#: How long, and for how many bytes, retention waits for a cursor where a log's rules do not say it.
CURSOR_WAIT_MS: Final = 7 * 86_400_000
CURSOR_WAIT_BYTES: Final = 10 << 30
ADDRESS_LENGTH_MAX: Final = 1_000


class LogTaken(Trouble):
    """Another writer has the log; nothing was changed, and this writer changes nothing again."""


class LogDeleting(Refusal):
    """The log is being deleted; nothing else can be done with it."""


class OtherIncarnation(Refusal):
    """The log was deleted, and another one was made under its name; nothing was changed."""


class LedgerTooLow(Refusal):
    """The ledger's id is not above that of the log's last ledger: make another ledger."""

    retryable = True


class IllegalLogChange(Refusal):
    """The record cannot be changed so."""


class BadLogRulesError(Refusal, ValueError):
    """A log cannot have these rules; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRules:
    """What a person set for a log."""

    #: None: those of the policy.
    quorums: Quorums | None = None
    #: The least quorums when the full ones cannot be had; None: never less.
    minimum: Quorums | None = None
    #: The full ones must be missing for so long before that; None: a default of the writer.
    downgrade_after_ms: int | None = None
    #: A bookie that is behind by so many milliseconds or bytes counts as missing; None: none does.
    downgrade_lag_ms: int | None = None
    downgrade_lag_bytes: int | None = None
    #: A ledger of so many bytes, messages or milliseconds is rotated.
    rotate_bytes: int = 1 << 30
    rotate_messages: int = 100_000_000
    rotate_after_ms: int = 4 * 3_600_000
    #: What is older, or beyond so many bytes, is trimmed; None: never.
    keep_ms: int | None = None
    keep_bytes: int | None = None
    #: A cursor keeps what it has not passed yet, so much longer than ``keep_ms`` says, and so many
    #: bytes more than ``keep_bytes`` says. None: ``CURSOR_WAIT_MS`` and ``CURSOR_WAIT_BYTES``.
    cursor_wait_ms: int | None = None
    cursor_wait_bytes: int | None = None
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWriterMark:
    """The writer that claimed the log last."""

    token: str
    zone: ZoneName | None = None
    #: What the writer says of how it is reached; the record gives it no meaning.
    address: str = ""
    #: The candidate that claimed the log, and the id of its candidacy (``log_candidate``). Empty
    #: for a writer that was no candidate, or has closed the log.
    candidate: str = ""
    candidacy: str = ""
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaim:
    """A writer's right to change the record."""

    log_id: str
    epoch: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLedgerEnd:
    """How a ledger ended. An empty ledger has the times of the message before it, or 0."""

    last_entry: EntryId
    size_bytes: int
    messages: int
    first_ms: int
    last_ms: int
    #: The latest time of any message up to here: it never falls, so a time can be searched for.
    latest_ms: int = 0
    #: The bytes of the log's ledgers up to here, as a running sum. A ledger without a message has
    #: none. The sum begins at 0 behind a ledger without one, so a difference of two never says too
    #: much.
    total_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLedger:
    """A ledger of the log."""

    id: LedgerId
    epoch: int
    #: The sequence of its first message; None while the ledger before it has no end.
    sequence: int | None
    #: None: a writer may still write it.
    end: LogLedgerEnd | None = None
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """A query that writes the log batch by batch, in runs; a job is a query of one batch."""

    query: str
    #: The run that claimed the log last; empty: a job that was aborted before any run did.
    run: str
    #: Runs before that one, oldest first: each held the log and lost it, and claims it no more.
    lost_runs: tuple[str, ...] = ()
    #: The last batch that is in the log; None: none is.
    published: int | None = None
    #: No further batch of it will ever come: the job is done, or was aborted.
    is_over: bool = False
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Ledgers that have ended, in order. A page is never changed."""

    number: int
    log_id: str
    ledgers: tuple[LogLedger, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """The record."""

    #: The id of this incarnation: 32 hexadecimal digits.
    id: str
    created_ms: int
    rules: LogRules = field(default_factory=LogRules)
    #: 0: no writer ever claimed the log.
    epoch: int = 0
    writer: LogWriterMark | None = None
    #: The first message that is kept; None: nothing was trimmed.
    start: MessageId | None = None
    #: The sequence of the message at ``start``, or of the log's first message. It is above 0 also
    #: where nothing was trimmed, in a log that was made for a copy.
    start_sequence: int = 0
    #: ``first_page <= page < next_page`` for the pages that exist.
    first_page: int = 0
    next_page: int = 0
    ledgers: tuple[LogLedger, ...] = ()
    #: The highest id that the log ever had; None: it had no ledger.
    last_ledger: LedgerId | None = None
    #: All ledgers of the log up to this one are deleted; None: none is.
    gone: LedgerId | None = None
    deleting: bool = False
    #: The queries that write the log, or wrote it; the one whose last use is the latest is last.
    queries: tuple[LogQuery, ...] = ()
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"

    @property
    def unended(self) -> tuple[LogLedger, ...]:
        """The ledgers that have no end yet."""
        return tuple(ledger for ledger in self.ledgers if ledger.end is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChange:
    """A new record, with what goes into the same transaction."""

    record: LogRecord
    #: The pages that are written, in order.
    sealed: tuple[LogPage, ...] = ()
    #: The page that is removed.
    removed: int | None = None


def check_rules(rules: LogRules) -> None:
    """Refuse rules that no log can have, and that no program could read again."""
    rotations = {
        "rotate_bytes": rules.rotate_bytes,
        "rotate_messages": rules.rotate_messages,
        "rotate_after_ms": rules.rotate_after_ms,
    }
    lags = {
        "downgrade_lag_ms": rules.downgrade_lag_ms,
        "downgrade_lag_bytes": rules.downgrade_lag_bytes,
    }
    limits = {
        "keep_ms": rules.keep_ms,
        "keep_bytes": rules.keep_bytes,
        "cursor_wait_ms": rules.cursor_wait_ms,
        "cursor_wait_bytes": rules.cursor_wait_bytes,
    }
    for name, number in rotations.items():
        if number < 1:
            raise BadLogRulesError(f"{name} is {number}: it must be at least 1")
    for name, lag in lags.items():
        if lag is not None and lag < 1:
            raise BadLogRulesError(f"{name} is {lag}: it must be at least 1, or None")
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise BadLogRulesError(f"{name} is {limit}: it must be at least 0, or None")
    for name, quorums in {"quorums": rules.quorums, "minimum": rules.minimum}.items():
        if quorums is not None and not (
            1 <= quorums.ack_zones <= quorums.ack <= quorums.write <= quorums.ensemble
        ):
            raise BadLogRulesError(
                f"{name} are ensemble {quorums.ensemble}, write {quorums.write}, ack "
                f"{quorums.ack} in {quorums.ack_zones} zones: each must be at least the next one, "
                "and the last at least 1"
            )


def is_empty(record: LogRecord) -> bool:
    """Are all ledgers of the log deleted, and their pages removed?"""
    return record.first_page == record.next_page and not record.ledgers


def claimed(record: LogRecord, log_id: str, writer: LogWriterMark, seen_epoch: int) -> LogChange:
    """Give the log to a writer that saw it at an epoch; the first claim of an epoch wins."""
    check_whole(record, log_id)
    if record.writer is not None and record.writer.token == writer.token:
        return LogChange(record=record)
    if record.epoch != seen_epoch:
        raise taken(record)
    if len(writer.address) > ADDRESS_LENGTH_MAX:
        raise IllegalLogChange(
            f"a writer's address of {len(writer.address)} characters; the limit is "
            f"{ADDRESS_LENGTH_MAX}; nothing was changed"
        )
    return LogChange(record=replace(record, epoch=seen_epoch + 1, writer=writer))


def check_claim(record: LogRecord, claim: LogClaim) -> None:
    """Raise ``LogTaken`` unless the record names this claim."""
    check_whole(record, claim.log_id)
    token = None if record.writer is None else record.writer.token
    if (record.epoch, token) != (claim.epoch, claim.token):
        raise taken(record)


def added(record: LogRecord, claim: LogClaim, ledger_id: LedgerId) -> LogChange:
    """Add a ledger behind the last one, before anything is written to it."""
    check_claim(record, claim)
    if record.ledgers and record.ledgers[-1].id == ledger_id:
        return LogChange(record=record)
    if record.last_ledger is not None and ledger_id <= record.last_ledger:
        raise LedgerTooLow(
            f"ledger {ledger_id} is not above ledger {record.last_ledger}, the highest that the "
            "log ever had; nothing was added"
        )
    if len(record.unended) >= UNENDED_MAX:
        raise IllegalLogChange(
            f"ledgers {', '.join(str(one.id) for one in record.unended)} have no end yet; end the "
            f"first one, and then add ledger {ledger_id}"
        )
    ledger = LogLedger(id=ledger_id, epoch=claim.epoch, sequence=next_sequence(record))
    ledgers = (*record.ledgers, ledger)
    return sealed(replace(record, ledgers=ledgers, last_ledger=ledger_id))


def ended(record: LogRecord, claim: LogClaim, ledger_id: LedgerId, end: LogLedgerEnd) -> LogChange:
    """Note how the first ledger without an end has ended; the running numbers are made here.

    An end that stands there already is recognised without its running numbers: the ledger that they
    were reckoned from may have been reclaimed since. So may the ledger itself, with its end.
    """
    check_claim(record, claim)
    if record.gone is not None and ledger_id <= record.gone:
        return LogChange(record=record)
    at = _place(record, ledger_id)
    before = record.ledgers[at - 1].end if at else None
    ledger = record.ledgers[at]
    if ledger.end is not None and end == replace(
        ledger.end, latest_ms=end.latest_ms, total_bytes=end.total_bytes
    ):
        return LogChange(record=record)
    end = behind(before, end)
    if ledger.end is not None or ledger != record.unended[0] or ledger.sequence is None:
        raise IllegalLogChange(
            f"ledger {ledger_id} cannot be ended at entry {end.last_entry}: it has an end already, "
            "or a ledger before it has none"
        )
    ledgers = list(record.ledgers)
    ledgers[at] = replace(ledger, end=end)
    if at + 1 < len(ledgers):
        ledgers[at + 1] = replace(ledgers[at + 1], sequence=ledger.sequence + end.messages)
    return LogChange(record=replace(record, ledgers=tuple(ledgers)))


def behind(before: LogLedgerEnd | None, end: LogLedgerEnd) -> LogLedgerEnd:
    """Give the end of a ledger with its running numbers; ``before``: that of the one before it."""
    latest_ms = max(end.last_ms, 0 if before is None else before.latest_ms)
    size_bytes = end.size_bytes if end.messages else 0
    total_bytes = size_bytes + (0 if before is None else before.total_bytes)
    return replace(end, latest_ms=latest_ms, total_bytes=total_bytes)


def released(record: LogRecord, claim: LogClaim) -> LogChange:
    """Note that the writer, a candidate, has closed the log, and that another one may open it.

    That all ledgers have an end does not say so: they have for a moment when one has failed.
    """
    check_claim(record, claim)
    assert record.writer is not None, "the record names the claim"
    return LogChange(
        record=replace(record, writer=replace(record.writer, candidate="", candidacy=""))
    )


def dropped(record: LogRecord, claim: LogClaim, ledger_id: LedgerId) -> LogChange:
    """Take the last ledger out again, which has no end; its id stays used."""
    check_claim(record, claim)
    if all(ledger.id != ledger_id for ledger in record.ledgers):
        return LogChange(record=record)
    if record.ledgers[-1].id != ledger_id or record.ledgers[-1].end is not None:
        raise IllegalLogChange(f"ledger {ledger_id} is not the last one, or has ended: it stays")
    return LogChange(record=replace(record, ledgers=record.ledgers[:-1]))


def trimmed(record: LogRecord, log_id: str, start: MessageId, sequence: int) -> LogChange:
    """Move the start forward to a message; a start that is behind that already stays.

    The caller has looked the message up: ``sequence`` is its own.
    """
    check_whole(record, log_id)
    if record.start is not None and start <= record.start:
        return LogChange(record=record)
    if not record.ledgers or start.ledger > record.ledgers[-1].id:
        raise IllegalLogChange(f"{start} is ahead of the log's last ledger; nothing was trimmed")
    return LogChange(record=replace(record, start=start, start_sequence=sequence))


def ruled(record: LogRecord, log_id: str, rules: LogRules) -> LogChange:
    """Set the rules. A rule that this version does not know stays as it is."""
    check_whole(record, log_id)
    check_rules(rules)
    rules = replace(rules, unknown=record.rules.unknown)
    return LogChange(record=replace(record, rules=rules))


def marked_deleting(record: LogRecord, log_id: str) -> LogChange:
    """Begin to delete the log: no writer and no reader may open it any more."""
    if record.id != log_id:
        raise _other(record, log_id)
    return LogChange(record=replace(record, deleting=True))


def to_delete(record: LogRecord, ledgers: Sequence[LogLedger]) -> tuple[LedgerId, ...]:
    """Give those of some ledgers of the log that are to be deleted, and are not known to be."""
    return tuple(
        ledger.id
        for ledger in ledgers
        if (record.gone is None or ledger.id > record.gone)
        and (record.deleting or (record.start is not None and ledger.id < record.start.ledger))
    )


def reclaimed(record: LogRecord, log_id: str, up_to: LedgerId, oldest: LogPage | None) -> LogChange:
    """Note that all ledgers up to one are deleted. ``oldest`` is the oldest page, if there is one.

    A page whose ledgers are all deleted is removed; so are ledgers of the record.
    """
    if record.id != log_id:
        raise _other(record, log_id)
    legal = record.deleting or (record.start is not None and up_to < record.start.ledger)
    assert legal, f"ledger {up_to} is a part of the log"
    gone = up_to if record.gone is None else max(up_to, record.gone)
    after = replace(record, gone=gone)
    if record.first_page < record.next_page:
        if oldest is None or oldest.number != record.first_page or oldest.ledgers[-1].id > gone:
            return LogChange(record=after)
        after = replace(after, first_page=record.first_page + 1)
        return LogChange(record=after, removed=record.first_page)
    left = tuple(ledger for ledger in record.ledgers if ledger.id > gone)
    return LogChange(record=replace(after, ledgers=left))


def sealed(record: LogRecord) -> LogChange:
    """Move the oldest ledgers into pages, while the record has more than ``NEWEST_MAX``."""
    pages: list[LogPage] = []
    while len(record.ledgers) > NEWEST_MAX:
        oldest = record.ledgers[:PAGE_LEDGERS]
        assert all(ledger.end is not None for ledger in oldest)
        pages.append(LogPage(number=record.next_page, log_id=record.id, ledgers=oldest))
        rest = record.ledgers[PAGE_LEDGERS:]
        record = replace(record, ledgers=rest, next_page=record.next_page + 1)
    return LogChange(record=record, sealed=tuple(pages))


def next_sequence(record: LogRecord) -> int | None:
    """Give the sequence that follows the last ledger; None while that one has no end."""
    if not record.ledgers:
        return record.start_sequence
    last = record.ledgers[-1]
    if last.end is None or last.sequence is None:
        return None
    return last.sequence + last.end.messages


def _place(record: LogRecord, ledger_id: LedgerId) -> int:
    for at, ledger in enumerate(record.ledgers):
        if ledger.id == ledger_id:
            return at
    raise IllegalLogChange(f"the record has no ledger {ledger_id} among its newest")


def check_whole(record: LogRecord, log_id: str) -> None:
    """Raise why a log cannot be changed: it is another one, or is being deleted."""
    if record.id != log_id:
        raise _other(record, log_id)
    if record.deleting:
        raise LogDeleting("the log is being deleted; delete it to the end, or use another name")


def taken(record: LogRecord) -> LogTaken:
    """Give the error for a writer that is not the one that the record names."""
    zone = "" if record.writer is None else f" in zone {record.writer.zone}"
    return LogTaken(
        f"the log is at epoch {record.epoch}: another writer{zone} has claimed it; this one "
        "changes nothing more; to take the log back, open it again"
    )


def _other(record: LogRecord, log_id: str) -> OtherIncarnation:
    return OtherIncarnation(
        f"the log of this name is {record.id}, and no longer {log_id}: it was deleted, and made "
        "anew; nothing was changed; open it by its name again"
    )
