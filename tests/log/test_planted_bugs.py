"""Bugs of a log's writer and reader, each planted in the real code, and the test that it fails.

A test passes with the real code where it stands, and fails here.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.log.api import test_log_reader, test_log_writer, test_old_ledger_late
from tests.simulation import campaign
from tests.simulation.patching import Patch, patched
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.formats.openings import LogOpening
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.sessions.log_writing import LogWriting
from zonekeeper.log.sessions.rotating import Rotation
from zonekeeper.log.sessions.running import RunningLedger
from zonekeeper.log.writing import joining
from zonekeeper.log.writing.joining import ClosedLedger
from zonekeeper.log.writing.unsent import SentBatch, Unsent
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import LogClaim, LogLedger, LogRecord, LogTaken
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId

pytestmark = pytest.mark.simulation


def _only_the_last_ledger_is_fenced() -> Sequence[Patch]:
    original = LedgerChain._closed

    async def closed(self: LedgerChain, record: LogRecord, ledger: LogLedger) -> ClosedLedger:
        if ledger.id != record.unended[-1].id:
            return ClosedLedger(last_entry=EntryId(-1), size_bytes=0)
        return await original(self, record, ledger)

    return [(LedgerChain, "_closed", closed)]


def _writes_are_blind() -> Sequence[Patch]:
    def check(record: LogRecord, claim: LogClaim) -> None:
        del record, claim

    return [(log_record, "check_claim", check)]


def _openings_are_not_compared() -> Sequence[Patch]:
    def continues(record: LogRecord, ledger: LogLedger, opening: LogOpening) -> bool:
        del ledger
        return opening.log_id.hex() == record.id

    return [(joining, "continues", continues)]


def _acknowledged_across_the_switch() -> Sequence[Patch]:
    original = Unsent.confirmed

    def confirmed(self: Unsent, ledger: LedgerId, entry: EntryId) -> None:
        original(self, ledger, entry)
        upto = [one.batch.end for one in self._sent if self._is_confirmed(one)]
        self.acked = self.stored = max([self.acked, *upto])

    return [(Unsent, "confirmed", confirmed)]


def _all_is_sent_again() -> Sequence[Patch]:
    def moved(self: Unsent, ledger_end: int) -> None:
        kept: list[SentBatch] = list(self._sent)
        again = [
            dataclasses.replace(one.batch, first=ledger_end + one.batch.first - self.acked)
            for one in kept
        ]
        self._again.extendleft(reversed(again))
        self.given += ledger_end - self.acked
        self.acked = self.stored = ledger_end
        self._sent.clear()
        self._unstored.clear()
        self._progress.clear()

    return [(Unsent, "moved", moved)]


def _an_id_before_it_is_readable() -> Sequence[Patch]:
    async def flushed(self: LogWriter, sequence: int) -> MessageId:
        await self.stored(sequence)
        known = self._unsent.id_of(sequence)
        return known or await self._chain.id_of(sequence)

    return [(LogWriter, "flushed", flushed)]


def _shown_before_the_old_ledger_has_its_end() -> Sequence[Patch]:
    def to_tell(self: LogWriting) -> int:
        return min(self._state.wanted, self._state.unsent.given)

    return [(LogWriting, "_to_tell", property(to_tell))]


def _a_fence_is_a_takeover() -> Sequence[Patch]:
    async def advance(self: LogWriting) -> bool:
        raise LogTaken(f"log {self._state.name}: its ledger was fenced")

    return [(LogWriting, "_advance", advance)]


def _ends_are_noted_before_the_drop() -> Sequence[Patch]:
    async def settle(self: LedgerChain) -> None:
        await self._look()
        for ledger in self.record.unended:
            standing = next(one for one in self.record.ledgers if one.id == ledger.id)
            closed = await self._closed(self.record, standing)
            end = joining.judged(self.record, standing, closed)
            if end is None:
                await self._drop([one for one in self.record.unended if one.id >= ledger.id])
                return
            await self.end(ledger.id, end)

    return [(LedgerChain, "settle", settle)]


def _the_index_is_lost_at_a_seek() -> Sequence[Patch]:
    original = LogReader._read

    def read(self: LogReader, start: MessageId | None, *, follow: bool) -> object:
        whole = None if start is None else MessageId(start.ledger, start.entry, 0)
        return original(self, whole, follow=follow)

    return [(LogReader, "_read", read)]


def _a_tail_skips_a_ledger() -> Sequence[Patch]:
    original = LogReader._next

    async def following(self: LogReader, record: LogRecord, first: LedgerId) -> LogLedger | None:
        found = await original(self, record, first)
        if found is not None and first == found.id and len(record.ledgers) > 1 and found.sequence:
            return await original(self, record, LedgerId(first + 1))
        return found

    return [(LogReader, "_next", following)]


def _ends_are_noted_before_the_old_ledger_is_confirmed() -> Sequence[Patch]:
    original = Rotation._finish

    async def finish(self: Rotation, old: RunningLedger) -> None:
        await self._state.chain.end(old.id, old.tally.end())
        await original(self, old)

    return [(Rotation, "_finish", finish)]


def _dropped_ledgers_stay_in_the_store() -> Sequence[Patch]:
    async def delete(self: LedgerChain, ledger_id: LedgerId) -> None:
        del self, ledger_id

    return [(LedgerChain, "_delete", delete)]


SHOWN_BY: Final[dict[str, tuple[Callable[[], Sequence[Patch]], Callable[[], None]]]] = {
    "only the last ledger is fenced": (
        _only_the_last_ledger_is_fenced,
        test_log_writer.test_a_writer_that_dies_with_two_ledgers_without_an_end_loses_nothing,
    ),
    "the record is written blindly": (
        _writes_are_blind,
        test_log_writer.test_a_writer_that_lost_the_log_yields_for_good,
    ),
    "openings are not compared": (
        _openings_are_not_compared,
        test_old_ledger_late.test_where_the_old_ledger_ends_earlier_the_new_one_is_dropped_and_all_is_sent_again,
    ),
    "acknowledged across the switch": (
        _acknowledged_across_the_switch,
        test_old_ledger_late.test_nothing_of_the_new_ledger_is_acknowledged_or_shown_before_all_of_the_old_one,
    ),
    "all is sent again": (
        _all_is_sent_again,
        test_log_writer.test_only_what_the_old_ledger_does_not_hold_is_sent_again,
    ),
    "an id before it is readable": (
        _an_id_before_it_is_readable,
        test_log_writer.test_flushed_says_that_a_reader_sees_it_at_once,
    ),
    "a fence is a takeover": (
        _a_fence_is_a_takeover,
        test_log_writer.test_a_fence_is_not_a_takeover,
    ),
    "ends are noted before the drop": (
        _ends_are_noted_before_the_drop,
        test_old_ledger_late.test_no_reader_looks_into_a_ledger_that_is_being_dropped,
    ),
    "the index is lost at a seek": (
        _the_index_is_lost_at_a_seek,
        test_log_reader.test_reading_from_each_message_on_gives_the_rest,
    ),
    "a tail skips a ledger": (
        _a_tail_skips_a_ledger,
        test_log_reader.test_a_follower_sees_every_message_over_rotations_and_takeovers,
    ),
    "ends are noted before the old ledger is confirmed": (
        _ends_are_noted_before_the_old_ledger_is_confirmed,
        test_old_ledger_late.test_nothing_of_the_new_ledger_is_acknowledged_or_shown_before_all_of_the_old_one,
    ),
    "dropped ledgers stay in the store": (
        _dropped_ledgers_stay_in_the_store,
        test_old_ledger_late.test_where_the_old_ledger_ends_earlier_the_new_one_is_dropped_and_all_is_sent_again,
    ),
    "shown before the old ledger has its end": (
        _shown_before_the_old_ledger_has_its_end,
        test_log_writer.test_flushed_says_that_a_reader_sees_it_at_once,
    ),
}


#: A bug that is planted where it does not fit.
MISFITS: Final = (TypeError, AttributeError)


@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_planted_bug_of_logs_fails_its_test(name: str) -> None:
    patches, test = SHOWN_BY[name]
    failures: list[BaseException] = []
    try:
        with campaign.quiet(), patched(patches()):
            test()
    except* (Exception, pytest.fail.Exception) as failed:  # noqa: BLE001 a test may fail in any way
        failures += failed.exceptions
    assert failures, "the bug is not seen"
    assert not any(isinstance(one, MISFITS) for one in failures), failures
