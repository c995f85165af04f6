"""How a ledger ended, and whether it is part of the log."""

from dataclasses import replace

import pytest

from tests.log.batching import PACKERS, built
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.formats.openings import AttemptOpening, ChainedOpening, Predecessor
from zonekeeper.log.writing import joining
from zonekeeper.log.writing.joining import ClosedLedger
from zonekeeper.metadata.formats.log_record import LogLedger, LogLedgerEnd, LogRecord
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId

ID = "0f" * 16
FIRST_END = LogLedgerEnd(
    last_entry=EntryId(9), size_bytes=100, messages=30, first_ms=5, last_ms=7, latest_ms=7
)
FIRST = LogLedger(id=LedgerId(4), epoch=1, sequence=0, end=FIRST_END)
SECOND = LogLedger(id=LedgerId(6), epoch=2, sequence=30)
RECORD = LogRecord(id=ID, created_ms=1, epoch=2, ledgers=(FIRST, SECOND), last_ledger=LedgerId(6))
BEFORE = Predecessor(ledger=LedgerId(4), last_entry=EntryId(9))
OPENING = ChainedOpening(
    log_id=bytes.fromhex(ID), epoch=2, name="orders", sequence=30, before=BEFORE
)
BATCH = batches.parse(built(LogMessage(payload=b"x"), LogMessage(payload=b"y"), place=40), PACKERS)
CLOSED = ClosedLedger(
    last_entry=EntryId(12), size_bytes=900, opening=OPENING, first=BATCH, last=BATCH
)


def test_the_end_is_that_of_the_last_batch() -> None:
    end = joining.judged(RECORD, SECOND, CLOSED)

    assert end is not None
    assert (end.last_entry, end.size_bytes, end.messages) == (12, 900, 42)
    assert (end.first_ms, end.last_ms) == (BATCH.wall_ms, BATCH.wall_ms)


def test_a_ledger_with_an_opening_and_no_message_is_part_of_the_log() -> None:
    closed = ClosedLedger(last_entry=EntryId(0), size_bytes=40, opening=OPENING)

    end = joining.judged(RECORD, SECOND, closed)

    assert end is not None
    assert (end.messages, end.first_ms, end.last_ms) == (0, 7, 7)


def test_an_empty_ledger_is_no_part() -> None:
    assert joining.judged(RECORD, SECOND, ClosedLedger(last_entry=NO_ENTRY, size_bytes=0)) is None


@pytest.mark.parametrize(
    "before",
    [None, replace(BEFORE, last_entry=EntryId(8)), replace(BEFORE, ledger=LedgerId(5))],
)
def test_a_ledger_that_continues_another_end_is_no_part(before: Predecessor | None) -> None:
    closed = replace(CLOSED, opening=replace(OPENING, before=before))

    assert joining.judged(RECORD, SECOND, closed) is None


def test_an_attempt_alone_is_no_part() -> None:
    attempt = AttemptOpening(
        log_id=bytes.fromhex(ID), epoch=2, name="orders", query="q", batch=1, partition=0
    )

    assert joining.judged(RECORD, SECOND, replace(CLOSED, opening=attempt)) is None


def test_a_ledger_of_another_log_is_damage() -> None:
    for opening in (None, replace(OPENING, log_id=bytes(16))):
        with pytest.raises(LogDamaged, match="ledger 6 is in the record"):
            joining.judged(RECORD, SECOND, replace(CLOSED, opening=opening))


def test_the_first_ledger_of_a_log_continues_none() -> None:
    record = replace(RECORD, ledgers=(replace(SECOND, sequence=0),))

    assert joining.continues(record, record.ledgers[0], replace(OPENING, before=None))
    assert not joining.continues(record, record.ledgers[0], OPENING)


def test_only_where_the_ledger_before_was_reclaimed_nothing_is_compared() -> None:
    alone = replace(RECORD, ledgers=(SECOND,), gone=LedgerId(4))
    assert joining.continues(alone, SECOND, replace(OPENING, before=None))

    both = replace(RECORD, gone=LedgerId(2))
    assert not joining.continues(both, SECOND, replace(OPENING, before=None))
    unended = replace(RECORD, ledgers=(replace(FIRST, end=None), SECOND), gone=LedgerId(2))
    assert not joining.continues(unended, SECOND, OPENING)
