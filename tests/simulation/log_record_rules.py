"""Judges each change of a log's record, and each deletion of a ledger that was made for the log."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation import log_sights as seen
from tests.simulation import query_rules
from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.placement.base.ids import LedgerId

Broken = tuple[str, str]


@dataclass(slots=True)
class Incarnation:
    """What the records of one incarnation have said until now."""

    record: LogRecord
    #: Every sequence that the log has begun with, in the order of time.
    starts: list[int] = field(default_factory=list)
    #: Ledgers that are a part of the log, in its record or in its pages.
    parts: set[LedgerId] = field(default_factory=set)
    #: A person may have let it begin with this message; None: with any.
    wanted_start: int | None = 0
    #: The epoch of the last claim that was seen.
    record_epoch: int = 0
    deleting: bool = False
    #: Is its record removed?
    removed: bool = False
    #: The tokens of all writers that claimed it.
    tokens: set[str] = field(default_factory=set)
    #: Of each ledger that came in with a batch: the query, and the batch.
    batches: dict[LedgerId, tuple[str, int]] = field(default_factory=dict)
    #: Every ledger that ever was in its record.
    ledgers: set[LedgerId] = field(default_factory=set)


class RecordRules:
    """One pass over the records of one name."""

    def __init__(self) -> None:
        self.logs: dict[str, Incarnation] = {}
        #: The incarnation of each writer that claimed one.
        self.claims: dict[str, str] = {}
        #: How many messages each batch of a query has.
        self.sizes: dict[tuple[str, int], int] = {}
        self.current: Incarnation | None = None

    def take(self, record: LogRecord | None) -> Iterator[Broken]:
        """Take the next record in, and give the rules that it breaks."""
        before = self.current
        if record is None:
            if before is not None:
                if not before.deleting or before.record.ledgers:
                    yield "log record", f"log {before.record.id} is gone, and was not deleted"
                before.removed = True
            self.current = None
            return
        if before is None:
            if record.id in self.logs or record.epoch or record.ledgers:
                yield "log record", f"log {record.id} is there again"
            self.current = self.logs[record.id] = Incarnation(record=record)
        elif record.id != before.record.id:
            yield "log record", f"log {before.record.id} became {record.id}"
            self.current = self.logs[record.id] = Incarnation(record=record)
        else:
            yield from _change(before.record, record)
            yield from query_rules.change(before.record, record, before.batches, self.sizes)
            yield from _start(before, record)
        assert self.current is not None
        _note_parts(self.current, record)
        self.current.record = record
        self.current.deleting = self.current.deleting or record.deleting
        self.current.starts.append(record.start_sequence)
        self.current.ledgers |= {one.id for one in record.ledgers}
        if record.writer is not None:
            self.claims.setdefault(record.writer.address, record.id)
            is_new = self.current.record_epoch < record.epoch
            if is_new and record.writer.token in self.current.tokens:
                yield "query run", f"{record.writer.token} held the log before, and claims it again"
            self.current.tokens.add(record.writer.token)
            self.current.record_epoch = record.epoch

    def take_wanted(self, sequence: int | None) -> None:
        """Hear that a person lets the log begin later."""
        now = self.current
        if now is not None and now.wanted_start is not None:
            now.wanted_start = None if sequence is None else max(now.wanted_start, sequence)

    def take_gone(self, sight: seen.LogLedgerGone) -> Iterator[Broken]:
        """Take in that a ledger is deleted."""
        log = None if sight.log is None else self.logs.get(sight.log)
        if log is None or log.removed or sight.ledger not in log.parts:
            return
        record = log.record
        if not record.deleting and (record.start is None or sight.ledger >= record.start.ledger):
            yield "log whole", f"ledger {sight.ledger} is deleted, and is a part of the log"

    def take_swept(self, sight: seen.LogLedgerSwept) -> Iterator[Broken]:
        """Take in that the log keeper deletes a ledger: nobody may need it, for good."""
        log = None if sight.log is None else self.logs.get(sight.log)
        if log is None or sight.epoch is None:
            yield "log orphan", f"ledger {sight.ledger} is of no log that is known"
            return
        record = log.record
        below = record.start is not None and sight.ledger < record.start.ledger
        if log.deleting or below or sight.epoch < record.epoch:
            return
        if sight.batch is not None and query_rules.is_over(record, *sight.batch):
            return
        first = min(log.parts, default=None)
        if record.gone is not None and sight.ledger <= record.gone:
            return
        if first is None or sight.ledger >= first:
            yield "log orphan", f"ledger {sight.ledger} of epoch {sight.epoch} may still come in"


def _change(before: LogRecord, after: LogRecord) -> Iterator[Broken]:
    """Judge a change of one incarnation's record."""
    if after.epoch < before.epoch or after.epoch > before.epoch + 1:
        yield "log record", f"epoch {before.epoch} became {after.epoch}"
    token = None if before.writer is None else before.writer.token
    if (after.epoch == before.epoch) != (
        token == (None if after.writer is None else after.writer.token)
    ):
        yield "log record", f"the writer of epoch {after.epoch} became another one"
    if before.deleting and not after.deleting:
        yield "log record", "its deletion was taken back"
    known = {one.id: one for one in before.ledgers}
    highest = -1 if before.last_ledger is None else before.last_ledger
    for one in after.ledgers:
        old = known.get(one.id)
        if old is None:
            if one.id <= highest:
                yield "log record", f"ledger {one.id} came in, which is not above {highest}"
            if one.epoch != after.epoch:
                yield "log record", f"ledger {one.id} of epoch {one.epoch} came in"
        elif old.end is not None and one.end != old.end:
            yield "log record", f"ledger {one.id} had end {old.end}, and has {one.end}"
    if [one.id for one in after.ledgers] != sorted(one.id for one in after.ledgers):
        yield "log record", "its ledgers do not ascend"
    left = {one.id for one in after.ledgers}
    for one in before.ledgers:
        sealed = after.next_page > before.next_page
        gone = after.gone is not None and one.id <= after.gone
        if one.id not in left and one.end is not None and not (sealed or gone):
            yield "log record", f"ledger {one.id}, which had its end, was taken out"


def _start(log: Incarnation, after: LogRecord) -> Iterator[Broken]:
    """Judge where the log begins."""
    before = log.record
    if after.start_sequence < before.start_sequence:
        yield "log start", f"it began with {before.start_sequence}, then {after.start_sequence}"
    if after.start_sequence == before.start_sequence or log.wanted_start is None:
        return
    if after.start_sequence <= log.wanted_start:
        return
    rules = after.rules
    last = max((one.sequence for one in after.ledgers if one.sequence is not None), default=-1)
    by_rules = rules.keep_ms is not None or rules.keep_bytes is not None
    if not by_rules or after.start_sequence > last:
        yield "log start", f"it begins with {after.start_sequence}, and nobody wanted that"


def _note_parts(log: Incarnation, after: LogRecord) -> None:
    ids = {one.id for one in after.ledgers}
    if after.next_page > log.record.next_page:
        ids |= log.parts
    elif after.first_page < after.next_page:
        ids |= {one for one in log.parts if not ids or one < min(ids)}
    gone = -1 if after.gone is None else after.gone
    log.parts = {one for one in ids if one > gone}
