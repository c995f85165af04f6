"""Planted bugs of logs: of their writers, readers, trims, cursors and keeper.

Directed tests show all but one of them, and some that the simulator does not find
(``tests/log/test_planted_bugs.py``).
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.client.api.client import Client
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.formats.openings import LogOpening
from zonekeeper.log.keeping import orphans
from zonekeeper.log.keeping.orphans import LogLedgerFate
from zonekeeper.log.sessions import locating, trimming
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.sessions.log_writing import LogWriting
from zonekeeper.log.writing import joining
from zonekeeper.log.writing.joining import ClosedLedger
from zonekeeper.log.writing.unsent import SentBatch, Unsent
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import (
    LogChange,
    LogClaim,
    LogLedger,
    LogRecord,
    LogTaken,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursor, logs
from zonekeeper.metadata.logs.log_cursor import CursorClaim, CursorMark
from zonekeeper.metadata.logs.log_stamp import LogStamp
from zonekeeper.placement.base.ids import EntryId, LedgerId


def only_the_last_ledger_is_fenced() -> Sequence[Patch]:
    original = LedgerChain._closed

    async def closed(self: LedgerChain, record: LogRecord, ledger: LogLedger) -> ClosedLedger:
        if ledger.id != record.unended[-1].id:
            return ClosedLedger(last_entry=EntryId(-1), size_bytes=0)
        return await original(self, record, ledger)

    return [(LedgerChain, "_closed", closed)]


def writes_are_blind() -> Sequence[Patch]:
    def check(record: LogRecord, claim: LogClaim) -> None:
        del record, claim

    return [(log_record, "check_claim", check)]


def openings_are_not_compared() -> Sequence[Patch]:
    def continues(record: LogRecord, ledger: LogLedger, opening: LogOpening) -> bool:
        del ledger
        return opening.log_id.hex() == record.id

    return [(joining, "continues", continues)]


def acknowledged_across_the_switch() -> Sequence[Patch]:
    original = Unsent.confirmed

    def confirmed(self: Unsent, ledger: LedgerId, entry: EntryId) -> None:
        original(self, ledger, entry)
        upto = [one.batch.end for one in self._sent if self._is_confirmed(one)]
        self.acked = self.stored = max([self.acked, *upto])

    return [(Unsent, "confirmed", confirmed)]


def all_is_sent_again() -> Sequence[Patch]:
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


def an_id_before_it_is_readable() -> Sequence[Patch]:
    async def flushed(self: LogWriter, sequence: int) -> MessageId:
        await self.stored(sequence)
        known = self._unsent.id_of(sequence)
        return known or await self._chain.id_of(sequence)

    return [(LogWriter, "flushed", flushed)]


def shown_before_the_old_ledger_has_its_end() -> Sequence[Patch]:
    def to_tell(self: LogWriting) -> int:
        return min(self._state.wanted, self._state.unsent.given)

    return [(LogWriting, "_to_tell", property(to_tell))]


def a_fence_is_a_takeover() -> Sequence[Patch]:
    async def advance(self: LogWriting) -> bool:
        raise LogTaken(f"log {self._state.name}: its ledger was fenced")

    return [(LogWriting, "_advance", advance)]


def ends_are_noted_before_the_drop() -> Sequence[Patch]:
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


def the_index_is_lost_at_a_seek() -> Sequence[Patch]:
    original = LogReader._read

    def read(self: LogReader, start: MessageId | None, *, follow: bool) -> object:
        whole = None if start is None else MessageId(start.ledger, start.entry, 0)
        return original(self, whole, follow=follow)

    return [(LogReader, "_read", read)]


def a_tail_skips_a_ledger() -> Sequence[Patch]:
    original = LogReader._next

    async def following(self: LogReader, record: LogRecord, first: LedgerId) -> LogLedger | None:
        found = await original(self, record, first)
        if found is not None and first == found.id and len(record.ledgers) > 1 and found.sequence:
            return await original(self, record, LedgerId(first + 1))
        return found

    return [(LogReader, "_next", following)]


def lower_ids_are_added() -> Sequence[Patch]:
    original = log_record.added

    def added(record: LogRecord, claim: LogClaim, ledger_id: LedgerId) -> LogChange:
        return original(dataclasses.replace(record, last_ledger=None), claim, ledger_id)

    return [(log_record, "added", added)]


def deleted_before_the_start_moves() -> Sequence[Patch]:
    async def to_sequence(client: Client, name: str, record: LogRecord, sequence: int) -> None:
        if sequence > record.start_sequence:
            start = await locating.by_sequence(client, name, record, sequence)
            for one in record.ledgers:
                if one.id < start.ledger:
                    await client.delete(one.id, by=trimming.DELETER)
            await logs.trim(client.cluster, name, record.id, start, sequence)
        await trimming.reclaim(client, name, record.id)

    return [(trimming, "to_sequence", to_sequence)]


def orphans_are_collected_by_age_alone() -> Sequence[Patch]:
    def of_record(
        record: LogRecord,
        first: LedgerId | None,
        ledger_id: LedgerId,
        stamp: LogStamp,
        *,
        has: bool,
    ) -> LogLedgerFate:
        del record, first, ledger_id, stamp
        return LogLedgerFate.PART if has else LogLedgerFate.ORPHAN

    return [(orphans, "of_record", of_record)]


def cursors_move_under_any_epoch() -> Sequence[Patch]:
    def check(before: CursorMark, claim: CursorClaim) -> None:
        del before, claim

    return [(log_cursor, "_check_claim", check)]


#: Those that the simulator finds, and within how many seeds.
_FOUND: Final = (
    (52, "only the last ledger of a log is fenced", 100, only_the_last_ledger_is_fenced),
    (53, "a log's record is written blindly", 100, writes_are_blind),
    (54, "all is sent again after a switch", 500, all_is_sent_again),
    (55, "an id is told before a reader sees it", 150, an_id_before_it_is_readable),
    (56, "a fence counts as a takeover", 50, a_fence_is_a_takeover),
    (57, "the index of a message is lost at a seek", 100, the_index_is_lost_at_a_seek),
    (58, "a tail skips a ledger", 50, a_tail_skips_a_ledger),
    (59, "ledgers are deleted before the start moves", 50, deleted_before_the_start_moves),
    (60, "orphans are collected by age alone", 500, orphans_are_collected_by_age_alone),
    (61, "a cursor moves under any epoch", 50, cursors_move_under_any_epoch),
    (62, "what is shown may still be dropped", 50, shown_before_the_old_ledger_has_its_end),
)

LOG_MUTANTS: Final = {
    number: Mutant(
        number=number, what=what, profile="logs", within_seeds=within_seeds, patches=patches
    )
    for number, what, within_seeds, patches in _FOUND
}
