"""What was sent to a ledger, and how it ends."""

import pytest

from zonekeeper.log.formats.openings import Predecessor
from zonekeeper.log.writing.tally import LedgerTally
from zonekeeper.metadata.formats.log_record import LogLedgerEnd, LogRules
from zonekeeper.placement.base.ids import EntryId, LedgerId

RULES = LogRules(rotate_bytes=1_000, rotate_messages=10)


def tally() -> LedgerTally:
    made = LedgerTally(LedgerId(7), 40, 100)
    made.sent(EntryId(1), messages=3, size_bytes=400, wall_ms=5)
    made.sent(EntryId(2), messages=4, size_bytes=500, wall_ms=9)
    return made


def test_the_end_is_that_of_all_that_was_sent() -> None:
    assert tally().end() == LogLedgerEnd(
        last_entry=EntryId(2), size_bytes=1_000, messages=7, first_ms=5, last_ms=9
    )
    assert tally().following == 47
    assert tally().predecessor == Predecessor(ledger=LedgerId(7), last_entry=EntryId(2))


def test_a_ledger_is_full_by_its_messages_its_bytes_or_its_age() -> None:
    one = tally()
    assert not one.is_full(RULES, is_old=False)
    assert one.is_full(RULES, is_old=True)
    one.sent(EntryId(3), messages=2, size_bytes=99, wall_ms=9)
    assert not one.is_full(RULES, is_old=False)
    one.sent(EntryId(4), messages=1, size_bytes=0, wall_ms=9)
    assert one.is_full(RULES, is_old=False)
    by_bytes = tally()
    by_bytes.sent(EntryId(3), messages=1, size_bytes=100, wall_ms=9)
    assert by_bytes.is_full(RULES, is_old=False)


def test_a_ledger_without_a_message_is_never_full() -> None:
    assert not LedgerTally(LedgerId(7), 40, 100).is_full(RULES, is_old=True)


def test_an_entry_that_was_not_counted_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        tally().sent(EntryId(4), messages=1, size_bytes=1, wall_ms=9)
