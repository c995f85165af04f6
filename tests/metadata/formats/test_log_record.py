"""What may become of a log's record, and what may not."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metadata.logs.records_of_logs import (
    BYTES,
    CLAIM,
    FIRST,
    LATER,
    LOG_ID,
    MESSAGES,
    NEW,
    SECOND,
    at_start_of,
    claimed,
    ending,
    long,
)
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import (
    NEWEST_MAX,
    PAGE_LEDGERS,
    BadLogRulesError,
    IllegalLogChange,
    LedgerTooLow,
    LogChange,
    LogClaim,
    LogDeleting,
    LogPage,
    LogRecord,
    LogRules,
    LogTaken,
    OtherIncarnation,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums


def added(record: LogRecord, *ledgers: int, claim: LogClaim = CLAIM) -> LogRecord:
    for one in ledgers:
        record = log_record.added(record, claim, LedgerId(one)).record
    return record


def ended(record: LogRecord, ledger_id: int, number: int, claim: LogClaim = CLAIM) -> LogRecord:
    return log_record.ended(record, claim, LedgerId(ledger_id), ending(number)).record


def test_a_claim_raises_the_epoch_and_names_the_writer() -> None:
    record = claimed()

    assert (record.epoch, record.writer) == (1, FIRST)


def test_of_all_that_saw_one_epoch_the_first_claim_wins() -> None:
    record = claimed()

    with pytest.raises(LogTaken, match="zone a") as caught:
        log_record.claimed(record, LOG_ID, SECOND, seen_epoch=0)

    assert not caught.value.retryable
    assert not caught.value.maybe_applied
    assert log_record.claimed(record, LOG_ID, SECOND, seen_epoch=1).record.epoch == 2


def test_a_claim_recognises_itself_after_a_lost_answer() -> None:
    record = claimed()

    assert log_record.claimed(record, LOG_ID, FIRST, seen_epoch=0) == LogChange(record=record)


def test_a_writer_that_lost_the_log_changes_nothing_more() -> None:
    before = added(claimed(), 5)
    record = log_record.claimed(before, LOG_ID, SECOND, 1).record
    same_epoch = replace(LATER, token="first")

    for claim in (CLAIM, same_epoch, replace(CLAIM, token="second")):
        with pytest.raises(LogTaken):
            log_record.added(record, claim, LedgerId(9))
        with pytest.raises(LogTaken):
            log_record.ended(record, claim, LedgerId(5), ending(0))
        with pytest.raises(LogTaken):
            log_record.dropped(record, claim, LedgerId(5))
        with pytest.raises(LogTaken):
            log_record.released(record, claim)
        # Its own work, done before, is not recognised either: it must hear that it lost.
        with pytest.raises(LogTaken):
            log_record.added(record, claim, LedgerId(5))


def test_a_release_names_no_candidate_any_more_and_leaves_the_claim() -> None:
    candidate = replace(FIRST, candidate="host-1", candidacy="1c" * 16)
    record = log_record.claimed(NEW, LOG_ID, candidate, 0).record
    released = log_record.released(record, CLAIM).record

    assert released == replace(record, writer=FIRST)
    assert log_record.released(released, CLAIM).record == released


@pytest.mark.parametrize("lower", [0, 4, 5])
def test_a_ledger_that_is_not_above_the_last_one_is_never_added(lower: int) -> None:
    record = log_record.dropped(added(claimed(), 5), CLAIM, LedgerId(5)).record

    with pytest.raises(LedgerTooLow, match="nothing was added") as caught:
        log_record.added(record, CLAIM, LedgerId(lower))

    assert caught.value.retryable
    assert added(record, 6).ledgers[-1].id == 6


def test_at_most_two_ledgers_have_no_end() -> None:
    record = added(claimed(), 5, 6)

    with pytest.raises(IllegalLogChange, match="ledgers 5, 6 have no end"):
        log_record.added(record, CLAIM, LedgerId(7))

    assert [one.id for one in added(ended(record, 5, 0), 7).unended] == [6, 7]


def test_adding_ending_and_dropping_recognise_themselves() -> None:
    record = added(claimed(), 5, 6)
    assert added(record, 6) == record

    record = ended(record, 5, 0)
    assert ended(record, 5, 0) == record

    record = log_record.dropped(record, CLAIM, LedgerId(6)).record
    assert log_record.dropped(record, CLAIM, LedgerId(6)).record == record


def test_an_end_recognises_itself_though_ledgers_before_it_were_reclaimed_meanwhile() -> None:
    record = ended(ended(added(claimed(), 5, 6), 5, 0), 6, 1)
    with_next = added(record, 7)

    trimmed = log_record.trimmed(record, LOG_ID, MessageId(LedgerId(6), EntryId(1), 0), 10).record
    trimmed = log_record.reclaimed(trimmed, LOG_ID, LedgerId(5), None).record
    assert ended(trimmed, 6, 1) == trimmed
    with pytest.raises(IllegalLogChange, match="an end already"):
        ended(trimmed, 6, 2)

    start = MessageId(LedgerId(7), EntryId(1), 0)
    beyond = log_record.trimmed(with_next, LOG_ID, start, 20).record
    beyond = log_record.reclaimed(beyond, LOG_ID, LedgerId(6), None).record
    assert [one.id for one in beyond.ledgers] == [7]
    assert ended(beyond, 6, 1) == beyond


def test_sequences_are_dense_over_ledgers() -> None:
    record = added(claimed(), 5, 6)
    assert [one.sequence for one in record.ledgers] == [0, None]

    record = added(ended(record, 5, 0), 7)
    assert [one.sequence for one in record.ledgers] == [0, MESSAGES, None]

    record = ended(ended(record, 6, 1), 7, 2)
    assert [one.sequence for one in added(record, 8).ledgers] == [0, 10, 20, 30]


def test_ledgers_are_ended_in_order_and_once() -> None:
    record = added(claimed(), 5, 6)

    with pytest.raises(IllegalLogChange):
        ended(record, 6, 0)
    with pytest.raises(IllegalLogChange, match="an end already"):
        ended(ended(record, 5, 0), 5, 1)
    with pytest.raises(IllegalLogChange, match="no ledger 4"):
        ended(record, 4, 0)


def test_the_latest_time_never_falls_though_a_clock_went_back() -> None:
    record = added(claimed(), 5, 6)
    for ledger_id, last_ms in ((5, 900), (6, 400)):
        end = ending(0, last_ms)
        record = log_record.ended(record, CLAIM, LedgerId(ledger_id), end).record

    assert [one.end and one.end.latest_ms for one in record.ledgers] == [900, 900]
    assert [one.end and one.end.last_ms for one in record.ledgers] == [900, 400]


def test_only_the_last_ledger_without_an_end_is_dropped() -> None:
    record = added(claimed(), 5, 6)

    with pytest.raises(IllegalLogChange, match="it stays"):
        log_record.dropped(record, CLAIM, LedgerId(5))
    with pytest.raises(IllegalLogChange, match="it stays"):
        log_record.dropped(ended(ended(record, 5, 0), 6, 1), CLAIM, LedgerId(6))


def test_a_record_stays_short_and_its_oldest_ledgers_are_sealed() -> None:
    record, pages = claimed(), list[LogPage]()
    for number in range(5 * NEWEST_MAX):
        change = log_record.added(record, CLAIM, LedgerId(number * 2 + 1))
        assert len(change.sealed) <= 1
        pages += change.sealed
        record = ended(change.record, number * 2 + 1, number)
        assert len(record.ledgers) <= NEWEST_MAX

    assert (record, pages) == long(5 * NEWEST_MAX)
    assert all(len(page.ledgers) == PAGE_LEDGERS for page in pages)


def test_the_start_only_moves_forward() -> None:
    record, _ = long(10)
    record = log_record.trimmed(record, LOG_ID, *at_start_of(4)).record
    assert (record.start, record.start_sequence) == at_start_of(4)

    for number in (3, 4):
        assert log_record.trimmed(record, LOG_ID, *at_start_of(number)).record == record
    with pytest.raises(IllegalLogChange, match="ahead of the log's last ledger"):
        log_record.trimmed(record, LOG_ID, *at_start_of(10))


def test_only_what_is_below_the_start_is_deleted_and_it_is_known_how_far() -> None:
    record, _ = long(10)
    assert log_record.to_delete(record, record.ledgers) == ()

    record = log_record.trimmed(record, LOG_ID, *at_start_of(3)).record
    assert log_record.to_delete(record, record.ledgers) == (1, 3, 5)

    record = log_record.reclaimed(record, LOG_ID, LedgerId(3), None).record
    assert log_record.to_delete(record, record.ledgers) == (5,)
    assert [one.id for one in record.ledgers[:2]] == [5, 7]
    with pytest.raises(AssertionError, match="a part of the log"):
        log_record.reclaimed(record, LOG_ID, LedgerId(7), None)


def test_a_page_goes_when_all_its_ledgers_are_deleted() -> None:
    record, pages = long(NEWEST_MAX + 1)
    record = log_record.trimmed(record, LOG_ID, *at_start_of(PAGE_LEDGERS + 2)).record
    last = pages[0].ledgers[-1].id

    part = log_record.reclaimed(record, LOG_ID, LedgerId(last - 2), pages[0])
    assert (part.removed, part.record.first_page) == (None, 0)
    whole = log_record.reclaimed(part.record, LOG_ID, last, pages[0])
    assert (whole.removed, whole.record.first_page) == (0, 1)
    # The page that another program removed meanwhile is not taken for the next one.
    again = log_record.reclaimed(whole.record, LOG_ID, last, pages[0])
    assert (again.removed, again.record.ledgers) == (None, record.ledgers)


def test_a_log_that_is_being_deleted_is_given_to_nobody() -> None:
    record = log_record.marked_deleting(added(claimed(), 5), LOG_ID).record

    changes: list[Callable[[], object]] = [
        lambda: log_record.claimed(record, LOG_ID, SECOND, 1),
        lambda: added(record, 6),
        lambda: ended(record, 5, 0),
        lambda: log_record.trimmed(record, LOG_ID, *at_start_of(0)),
        lambda: log_record.ruled(record, LOG_ID, LogRules()),
    ]
    for change in changes:
        with pytest.raises(LogDeleting):
            change()
    assert log_record.to_delete(record, record.ledgers) == (5,)
    assert log_record.is_empty(log_record.reclaimed(record, LOG_ID, LedgerId(5), None).record)


def test_another_log_of_the_same_name_is_left_alone() -> None:
    other, claim = "ab" * 16, replace(CLAIM, log_id="ab" * 16)
    record = added(claimed(), 5)

    changes: list[Callable[[], object]] = [
        lambda: log_record.claimed(record, other, FIRST, 1),
        lambda: log_record.added(record, claim, LedgerId(6)),
        lambda: log_record.trimmed(record, other, *at_start_of(0)),
        lambda: log_record.ruled(record, other, LogRules()),
        lambda: log_record.marked_deleting(record, other),
        lambda: log_record.reclaimed(record, other, LedgerId(5), None),
    ]
    for change in changes:
        with pytest.raises(OtherIncarnation, match="made anew"):
            change()


def test_rules_are_set_and_nothing_else() -> None:
    rules = LogRules(quorums=Quorums(ensemble=3, write=3, ack=2), keep_ms=5)

    assert log_record.ruled(NEW, LOG_ID, rules).record == replace(NEW, rules=rules)


@given(st.lists(st.sampled_from(["claim", "add", "end", "drop", "trim", "reclaim"]), max_size=60))
def test_any_history_keeps_ids_and_sequences_in_order(steps: list[str]) -> None:
    record, next_id, claims, start = claimed(), 1, 1, None
    seen = list[int]()
    for step in steps:
        assert record.writer is not None
        claim = LogClaim(log_id=LOG_ID, epoch=record.epoch, token=record.writer.token)
        try:
            if step == "claim":
                mark = replace(FIRST, token=f"token {claims}")
                record = log_record.claimed(record, LOG_ID, mark, record.epoch).record
                claims += 1
            elif step == "add":
                record = log_record.added(record, claim, LedgerId(next_id)).record
                seen.append(next_id)
                next_id += 2
            elif step == "end" and record.unended:
                record = log_record.ended(record, claim, record.unended[0].id, ending(0)).record
            elif step == "drop" and record.ledgers:
                record = log_record.dropped(record, claim, record.ledgers[-1].id).record
            elif step == "trim" and record.ledgers and record.ledgers[-1].end is not None:
                last = record.ledgers[-1]
                message = replace(at_start_of(0)[0], ledger=last.id)
                assert last.sequence is not None
                record = log_record.trimmed(record, LOG_ID, message, last.sequence).record
            elif step == "reclaim" and (old := log_record.to_delete(record, record.ledgers)):
                record = log_record.reclaimed(record, LOG_ID, old[-1], None).record
        except IllegalLogChange:
            continue
        ids = [one.id for one in record.ledgers]
        assert ids == sorted(set(ids))
        assert not seen or record.last_ledger == seen[-1]
        assert start is None or (record.start is not None and record.start >= start)
        start = record.start
        known = [one for one in record.ledgers if one.sequence is not None]
        for one, other in pairwise(known):
            assert one.end is not None
            assert other.sequence == (one.sequence or 0) + one.end.messages


def test_a_running_sum_of_bytes_begins_anew_behind_a_ledger_without_one() -> None:
    """A difference of two sums is then at most what lies between, and never more."""
    record = ended(added(claimed(), 5, 6), 5, 0)
    first = record.ledgers[0]
    assert first.end is not None
    assert first.end.total_bytes == BYTES
    assert [one.end and one.end.total_bytes for one in ended(record, 6, 1).ledgers][1] == 2 * BYTES
    old = replace(first, end=replace(first.end, total_bytes=0))
    record = ended(replace(record, ledgers=(old, record.ledgers[1])), 6, 1)
    assert [one.end and one.end.total_bytes for one in record.ledgers] == [0, BYTES]


def test_a_ledger_without_a_message_adds_nothing_to_the_running_sum_of_bytes() -> None:
    record = ended(added(claimed(), 5, 6), 5, 0)
    empty = replace(ending(1), messages=0)
    record = log_record.ended(record, CLAIM, LedgerId(6), empty).record
    assert [one.end and one.end.total_bytes for one in record.ledgers] == [BYTES, BYTES]


def test_rules_that_this_version_does_not_know_stay_when_others_are_set() -> None:
    record = replace(NEW, rules=LogRules(unknown='{"standby": ["a"]}'))
    after = log_record.ruled(record, LOG_ID, LogRules(keep_ms=7)).record
    assert after.rules == LogRules(keep_ms=7, unknown='{"standby": ["a"]}')


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (LogRules(rotate_bytes=0), "rotate_bytes is 0: it must be at least 1"),
        (LogRules(rotate_messages=-1), "rotate_messages is -1"),
        (LogRules(rotate_after_ms=0), "rotate_after_ms is 0"),
        (LogRules(downgrade_lag_ms=0), "downgrade_lag_ms is 0: it must be at least 1, or None"),
        (LogRules(downgrade_lag_bytes=-1), "downgrade_lag_bytes is -1"),
        (LogRules(keep_ms=-1), "keep_ms is -1: it must be at least 0, or None"),
        (LogRules(keep_bytes=-1), "keep_bytes is -1"),
        (LogRules(cursor_wait_ms=-1), "cursor_wait_ms is -1"),
        (LogRules(cursor_wait_bytes=-1), "cursor_wait_bytes is -1"),
        (LogRules(quorums=Quorums(ensemble=2, write=3, ack=2)), "quorums are ensemble 2, write 3"),
        (LogRules(minimum=Quorums(ensemble=2, write=2, ack=0)), "minimum are"),
    ],
)
def test_rules_that_nobody_could_read_again_are_refused(rules: LogRules, words: str) -> None:
    with pytest.raises(BadLogRulesError, match=words):
        log_record.ruled(NEW, LOG_ID, rules)


def test_an_address_that_nobody_could_read_again_is_refused() -> None:
    with pytest.raises(IllegalLogChange, match="1001 characters; the limit is 1000"):
        log_record.claimed(NEW, LOG_ID, replace(FIRST, address="x" * 1_001), 0)
