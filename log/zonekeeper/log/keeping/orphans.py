"""Decide whether a ledger that was made for a log is an orphan, on proof only. Pure.

A writer makes a ledger first, and adds it to the record afterwards. Where it fails in between, or
drops the ledger, a ledger is left that nobody names. It may go when two things are known:

- The record of the very incarnation that the ledger was made for does not have it.
- It can never come in any more: its epoch is over, or its id is below the log's first ledger, or
  the log is being deleted, or the batch of a query that it was made for is in the log already, or
  its job is over.

The last of these is the proof for what a query leaves, because the epoch of a query may last for
weeks. The record says up to which batch a query is published. An attempt of that batch or an
earlier one can never come in, as its publication is discarded. The attempts that did come in are in
that same record: they came in by the change that noted the batch. A query that the record has
forgotten proves nothing.

The stamp may be of a later epoch than the record. Then the record is older than the ledger, and
proves nothing. A log without a record proves nothing either, because a record that was lost is made
again from its ledgers. Only the note of a deletion (``metadata.logs.deleted_logs``) proves that the
incarnation was deleted on purpose.
"""

import enum

from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.metadata.logs import log_queries
from zonekeeper.metadata.logs.log_stamp import LogStamp
from zonekeeper.placement.base.ids import LedgerId


class LogLedgerFate(enum.Enum):
    """What a ledger is to its log."""

    #: The record has it.
    PART = enum.auto()
    #: No record has it, and none ever will: it may be deleted.
    ORPHAN = enum.auto()
    #: It may still come in: its epoch lasts, and its batch is not published.
    PENDING = enum.auto()
    #: Nothing is proved: the record is missing, of another incarnation, or older than the ledger.
    STRAY = enum.auto()


def of_record(
    record: LogRecord, first: LedgerId | None, ledger_id: LedgerId, stamp: LogStamp, *, has: bool
) -> LogLedgerFate:
    """Judge a ledger by a record that was read in step with the store.

    ``first`` is the first ledger that the record has, in a page or beside them (None: it has none).
    ``has``: does it have this one?
    """
    if stamp.log_id != record.id or stamp.epoch is None:
        return LogLedgerFate.STRAY
    if has:
        return LogLedgerFate.PART
    if stamp.epoch > record.epoch:
        return LogLedgerFate.STRAY
    is_below = (first is not None and ledger_id < first) or (
        record.gone is not None and ledger_id <= record.gone
    )
    is_over = stamp.batch is not None and log_queries.never_comes(record, *stamp.batch)
    if record.deleting or stamp.epoch < record.epoch or is_below or is_over:
        return LogLedgerFate.ORPHAN
    return LogLedgerFate.PENDING


def without_record(stamp: LogStamp, *, was_deleted: bool) -> LogLedgerFate:
    """Judge a ledger whose incarnation has no record. ``was_deleted``: a note says so."""
    if stamp.log_id is not None and stamp.epoch is not None and was_deleted:
        return LogLedgerFate.ORPHAN
    return LogLedgerFate.STRAY
