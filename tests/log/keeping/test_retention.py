"""Retention takes the oldest ledgers, waits for cursors up to a limit, and leaves the last one."""

from dataclasses import replace
from typing import Final

import pytest

from tests.metadata.logs.records_of_logs import BYTES, MESSAGES, ledger, long
from zonekeeper.log.keeping import retention
from zonekeeper.metadata.formats.log_record import (
    CURSOR_WAIT_BYTES,
    CURSOR_WAIT_MS,
    LogLedger,
    LogRecord,
    LogRules,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: Ten ledgers of ten messages and 1,000 bytes; the one with number n ends at n seconds.
RECORD: Final = long(10)[0]
NOW_MS: Final = 9_000


def gone(
    rules: LogRules,
    cursors: tuple[int, ...] = (),
    record: LogRecord = RECORD,
    now_ms: int = NOW_MS,
) -> int:
    """Give how many ledgers may go, from the oldest on; all behind them stay."""
    limits = retention.of(replace(record, rules=rules), cursors, now_ms)
    assert limits is not None
    answers = [limits.may_go(one) for one in record.ledgers]
    assert answers == sorted(answers, reverse=True)
    return sum(answers)


def test_without_a_rule_everything_stays() -> None:
    assert retention.of(RECORD, [], NOW_MS) is None


@pytest.mark.parametrize(("keep_ms", "count"), [(0, 9), (1, 9), (5_000, 4), (6_000, 3), (9_001, 0)])
def test_a_ledger_goes_by_age_when_each_of_its_messages_is_older(keep_ms: int, count: int) -> None:
    assert gone(LogRules(keep_ms=keep_ms)) == count


@pytest.mark.parametrize(
    ("keep_bytes", "count"), [(0, 10), (1, 9), (BYTES, 9), (BYTES + 1, 8), (99 * BYTES, 0)]
)
def test_a_ledger_goes_by_bytes_when_those_behind_it_are_enough(
    keep_bytes: int, count: int
) -> None:
    assert gone(LogRules(keep_bytes=keep_bytes)) == count


def test_either_rule_is_enough() -> None:
    assert gone(LogRules(keep_ms=5_000, keep_bytes=3 * BYTES)) == 7
    assert gone(LogRules(keep_ms=1_000, keep_bytes=5 * BYTES)) == 8


def test_a_running_time_never_falls_so_a_clock_that_went_back_keeps_more_and_not_less() -> None:
    ledgers = list(RECORD.ledgers)
    for at in range(2, 10):
        end = ledgers[at].end
        assert end is not None
        ledgers[at] = replace(ledgers[at], end=replace(end, latest_ms=max(8_500, end.latest_ms)))
    assert gone(LogRules(keep_ms=1_000), record=replace(RECORD, ledgers=tuple(ledgers))) == 2


def test_a_ledger_without_an_end_stays() -> None:
    open_one = LogLedger(id=LedgerId(99), epoch=1, sequence=100)
    record = replace(RECORD, ledgers=(*RECORD.ledgers, open_one), last_ledger=LedgerId(99))
    assert gone(LogRules(keep_ms=0), record=record, now_ms=1 << 50) == 10


# ── cursors ──


@pytest.mark.parametrize(
    ("sequence", "count"), [(0, 0), (MESSAGES - 1, 0), (MESSAGES, 1), (45, 4), (1_000, 8)]
)
def test_a_cursor_keeps_what_it_has_not_passed(sequence: int, count: int) -> None:
    assert gone(LogRules(keep_ms=1_000), (sequence, 1_000)) == count
    assert gone(LogRules(keep_bytes=2 * BYTES), (1_000, sequence)) == count


def test_a_cursor_is_waited_for_only_so_long() -> None:
    assert gone(LogRules(keep_ms=1_000, cursor_wait_ms=3_000), (0,)) == 5
    assert gone(LogRules(keep_ms=1_000, cursor_wait_ms=0), (0,)) == 8


def test_a_cursor_is_waited_for_only_so_many_bytes() -> None:
    assert gone(LogRules(keep_bytes=BYTES, cursor_wait_bytes=3 * BYTES), (0,)) == 6
    assert gone(LogRules(keep_bytes=BYTES, cursor_wait_bytes=0), (0,)) == 9


def test_a_wait_by_age_does_not_end_a_wait_by_bytes() -> None:
    """Each rule has its own wait: without a rule of bytes the bytes that wait do not matter."""
    rules = LogRules(keep_ms=1_000, cursor_wait_ms=1_000_000, cursor_wait_bytes=0)
    assert gone(rules, (0,)) == 0


def test_the_waits_that_hold_where_none_is_set_are_named() -> None:
    assert retention.cursor_wait(LogRules()) == (CURSOR_WAIT_MS, CURSOR_WAIT_BYTES)
    old = 1_000 + CURSOR_WAIT_MS
    assert gone(LogRules(keep_ms=1_000), (0,), now_ms=old) == 0
    assert gone(LogRules(keep_ms=1_000), (0,), now_ms=old + 1) == 1


# ── ledgers of before ──


def test_a_ledger_without_a_running_sum_goes_when_those_with_one_are_enough() -> None:
    """The sum begins anew behind it: what is kept is never less than the rule says."""
    ledgers = [ledger(number) for number in range(10)]
    for at, one in enumerate(ledgers):
        assert one.end is not None
        total = max(0, at - 4) * BYTES
        ledgers[at] = replace(one, end=replace(one.end, total_bytes=total))
    record = replace(RECORD, ledgers=tuple(ledgers))
    assert gone(LogRules(keep_bytes=5 * BYTES), record=record) == 5
    assert gone(LogRules(keep_bytes=5 * BYTES + 1), record=record) == 0


# ── the start ──


def test_the_start_is_the_first_batch_of_the_first_ledger_that_stays() -> None:
    found = RECORD.ledgers[4]
    assert retention.new_start(RECORD, found) == (MessageId(found.id, EntryId(1), 0), 40)


def test_the_last_ledger_stays_whatever_the_rules_say() -> None:
    last = RECORD.ledgers[-1]
    assert retention.new_start(RECORD, None) == (MessageId(last.id, EntryId(1), 0), 90)


def test_a_start_that_would_not_move_is_none() -> None:
    assert retention.new_start(RECORD, RECORD.ledgers[0]) is None
    assert retention.new_start(replace(RECORD, ledgers=()), None) is None
    inside = replace(RECORD, start=MessageId(RECORD.ledgers[4].id, EntryId(3), 0))
    inside = replace(inside, start_sequence=44)
    assert retention.new_start(inside, RECORD.ledgers[4]) is None
    assert retention.new_start(inside, RECORD.ledgers[3]) is None
    assert retention.new_start(inside, RECORD.ledgers[5]) is not None


def test_empty_ledgers_go_too() -> None:
    """Takeovers without a message leave empty ledgers, which do not move the sequence."""
    empty = [replace(one, sequence=40) for one in RECORD.ledgers[4:]]
    record = replace(RECORD, ledgers=tuple(empty), start_sequence=40)
    record = replace(record, start=MessageId(empty[0].id, EntryId(1), 0))
    assert retention.new_start(record, empty[3]) == (MessageId(empty[3].id, EntryId(1), 0), 40)


def test_keeping_bytes_asks_no_cursor() -> None:
    may_go = retention.keeping_bytes(RECORD, 3 * BYTES)
    assert sum(map(may_go, RECORD.ledgers)) == 7
