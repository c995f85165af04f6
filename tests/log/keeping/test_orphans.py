"""A ledger is an orphan on proof only; each gap in the proof lets it stay."""

from dataclasses import replace
from typing import Final

import pytest

from tests.metadata.logs.records_of_logs import LOG_ID, NEW, SECOND, ledger
from zonekeeper.log.keeping import orphans
from zonekeeper.log.keeping.orphans import LogLedgerFate
from zonekeeper.metadata.formats.log_record import LogQuery, LogRecord
from zonekeeper.metadata.logs.log_stamp import LogStamp
from zonekeeper.placement.base.ids import LedgerId

#: Ledgers 9 to 15, at epoch 3; ledgers up to 7 are gone.
RECORD: Final = replace(
    NEW,
    epoch=3,
    writer=SECOND,
    ledgers=tuple(map(ledger, range(4, 8))),
    last_ledger=LedgerId(20),
    gone=LedgerId(7),
)
MINE: Final = LogStamp(name="orders/eu-1", log_id=LOG_ID, epoch=3)


def fate(
    ledger_id: int,
    stamp: LogStamp = MINE,
    record: LogRecord = RECORD,
    *,
    first: int | None = 9,
    has: bool = False,
) -> LogLedgerFate:
    first_id = None if first is None else LedgerId(first)
    return orphans.of_record(record, first_id, LedgerId(ledger_id), stamp, has=has)


def test_what_the_record_has_is_a_part_whatever_its_epoch() -> None:
    assert fate(9, replace(MINE, epoch=1), has=True) is LogLedgerFate.PART


@pytest.mark.parametrize("ledger_id", [10, 20, 21])
def test_an_epoch_that_lasts_protects_a_ledger_that_is_not_below_the_first(ledger_id: int) -> None:
    assert fate(ledger_id) is LogLedgerFate.PENDING
    assert fate(ledger_id, replace(MINE, epoch=2)) is LogLedgerFate.ORPHAN


@pytest.mark.parametrize("ledger_id", [10, 20, 21])
def test_what_was_made_for_a_batch_that_is_published_can_never_come_in(ledger_id: int) -> None:
    queried = replace(
        RECORD, queries=(LogQuery(query="q", run="r", published=4), LogQuery(query="new", run="r"))
    )
    for batch, proved in ((3, True), (4, True), (5, False)):
        expected = LogLedgerFate.ORPHAN if proved else LogLedgerFate.PENDING
        assert fate(ledger_id, replace(MINE, batch=("q", batch)), queried) is expected
    for stamp in (replace(MINE, batch=("new", 0)), replace(MINE, batch=("forgotten", 0)), MINE):
        assert fate(ledger_id, stamp, queried) is LogLedgerFate.PENDING
    known = replace(MINE, batch=("q", 4))
    assert fate(ledger_id, known, queried, has=True) is LogLedgerFate.PART
    assert fate(ledger_id, replace(known, epoch=4), queried) is LogLedgerFate.STRAY
    assert fate(ledger_id, replace(known, log_id="ab" * 16), queried) is LogLedgerFate.STRAY


def test_what_was_made_for_a_job_that_is_over_can_never_come_in() -> None:
    aborted = replace(RECORD, queries=(LogQuery(query="j", run="j", is_over=True),))
    assert fate(21, replace(MINE, batch=("j", 0)), aborted) is LogLedgerFate.ORPHAN
    assert fate(21, replace(MINE, batch=("other", 0)), aborted) is LogLedgerFate.PENDING


def test_a_ledger_below_the_first_can_never_come_in() -> None:
    assert fate(8) is LogLedgerFate.ORPHAN
    assert fate(9) is LogLedgerFate.PENDING
    assert fate(7, first=None) is LogLedgerFate.ORPHAN
    assert fate(8, first=None) is LogLedgerFate.PENDING
    assert fate(1, first=None, record=replace(RECORD, gone=None)) is LogLedgerFate.PENDING


def test_a_log_that_is_being_deleted_gets_no_ledger_any_more() -> None:
    assert fate(21, record=replace(RECORD, deleting=True)) is LogLedgerFate.ORPHAN


def test_a_record_that_is_older_than_the_ledger_proves_nothing() -> None:
    late = replace(MINE, epoch=4)
    assert fate(8, late) is LogLedgerFate.STRAY
    assert fate(21, late, replace(RECORD, deleting=True)) is LogLedgerFate.STRAY


@pytest.mark.parametrize(
    "stamp",
    [replace(MINE, log_id="ab" * 16), replace(MINE, log_id=None), replace(MINE, epoch=None)],
)
def test_another_incarnation_or_a_stamp_that_does_not_say_it_proves_nothing(
    stamp: LogStamp,
) -> None:
    assert fate(8, stamp) is LogLedgerFate.STRAY


def test_without_a_record_only_the_note_of_a_deletion_is_a_proof() -> None:
    assert orphans.without_record(MINE, was_deleted=False) is LogLedgerFate.STRAY
    assert orphans.without_record(MINE, was_deleted=True) is LogLedgerFate.ORPHAN
    unsaid = replace(MINE, log_id=None)
    assert orphans.without_record(unsaid, was_deleted=True) is LogLedgerFate.STRAY
