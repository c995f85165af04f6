"""Decide how far retention trims a log: by age, by bytes, and with regard to its cursors. Pure.

Retention takes whole ledgers, from the oldest on. It needs nothing but the record for that, and the
last ledger always stays. A ledger may go

- by age, when the latest message up to its end is older than ``keep_ms``;
- by bytes, when the ledgers behind it have at least ``keep_bytes``.

A cursor that has not passed a ledger keeps it, but not for ever. The ledger goes all the same when
it may go by ``keep_ms + cursor_wait_ms``, or by ``keep_bytes + cursor_wait_bytes``.

In the order of ledgers each of these conditions is first true and then false, because times and
bytes are running numbers. So the first ledger that stays is found by halving.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats.log_record import (
    CURSOR_WAIT_BYTES,
    CURSOR_WAIT_MS,
    LogLedger,
    LogRecord,
    LogRules,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId

#: The first batch of each ledger stands behind its opening entry.
FIRST_BATCH: Final = EntryId(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The limits that hold now. None: there is no such limit."""

    #: A ledger of which each message is older than this is too old.
    oldest_ms: int | None
    #: A ledger is too far back when the log's running sum was at most this at its end.
    bytes_before: int | None
    #: The same, for a ledger that a cursor still needs.
    oldest_waited_ms: int | None
    bytes_before_waited: int | None
    #: The first message that some cursor still needs; None: there is no cursor.
    needed: int | None

    def may_go(self, ledger: LogLedger) -> bool:
        """May a ledger go? In the order of ledgers the answer is first yes and then no."""
        if ledger.end is None:
            return False
        assert ledger.sequence is not None, "a ledger that has ended has a sequence"
        passed = self.needed is None or ledger.sequence + ledger.end.messages <= self.needed
        if passed and _beyond(ledger, self.oldest_ms, self.bytes_before):
            return True
        return _beyond(ledger, self.oldest_waited_ms, self.bytes_before_waited)


def of(record: LogRecord, cursors: Iterable[int], now_ms: int) -> Retention | None:
    """Give the limits of a log; None: its rules keep everything.

    ``cursors`` are the sequences of the messages that cursors read next.
    """
    rules = record.rules
    if rules.keep_ms is None and rules.keep_bytes is None:
        return None
    wait_ms, wait_bytes = cursor_wait(rules)
    total = _total_bytes(record)
    return Retention(
        oldest_ms=_less(now_ms, rules.keep_ms, 0),
        bytes_before=_less(total, rules.keep_bytes, 0),
        oldest_waited_ms=_less(now_ms, rules.keep_ms, wait_ms),
        bytes_before_waited=_less(total, rules.keep_bytes, wait_bytes),
        needed=min(cursors, default=None),
    )


def cursor_wait(rules: LogRules) -> tuple[int, int]:
    """Give how long, and for how many bytes, retention waits for a cursor."""
    return (
        CURSOR_WAIT_MS if rules.cursor_wait_ms is None else rules.cursor_wait_ms,
        CURSOR_WAIT_BYTES if rules.cursor_wait_bytes is None else rules.cursor_wait_bytes,
    )


def keeping_bytes(record: LogRecord, keep_bytes: int) -> Callable[[LogLedger], bool]:
    """Give the question which ledgers go if so many bytes are kept, whatever cursors need."""
    return Retention(
        oldest_ms=None,
        bytes_before=None,
        oldest_waited_ms=None,
        bytes_before_waited=_less(_total_bytes(record), keep_bytes, 0),
        needed=None,
    ).may_go


def new_start(record: LogRecord, found: LogLedger | None) -> tuple[MessageId, int] | None:
    """Give the message that the log begins with, and its sequence, where all before ``found`` goes.

    ``found`` None: all may go, and the last one stays. The answer None: there is nothing to trim.
    """
    ledger = found if found is not None else (record.ledgers[-1] if record.ledgers else None)
    if ledger is None or ledger.sequence is None:
        return None
    start = MessageId(ledger.id, FIRST_BATCH, 0)
    moves = (
        ledger.sequence > record.start_sequence if record.start is None else start > record.start
    )
    return (start, ledger.sequence) if moves else None


def _total_bytes(record: LogRecord) -> int:
    """Give the running sum at the last ledger that has an end."""
    return max((one.end.total_bytes for one in record.ledgers if one.end is not None), default=0)


def _less(now: int, keep: int | None, wait: int) -> int | None:
    return None if keep is None else now - keep - wait


def _beyond(ledger: LogLedger, oldest_ms: int | None, bytes_before: int | None) -> bool:
    assert ledger.end is not None
    if oldest_ms is not None and ledger.end.latest_ms < oldest_ms:
        return True
    return bytes_before is not None and ledger.end.total_bytes <= bytes_before
