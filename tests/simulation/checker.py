"""Judges a history: the promises of a ledger, each as a comparison in one pass.

The rules bear the numbers of the reliability reference: I1 acked is readable, I2 read is stable,
I3 readers agree, I4 a fenced writer is silent, I5 the LAC never falls and covers only what an ack
quorum has, I6 closed is immutable, I7 recoveries agree, I8 committed means an ack quorum of copies,
I9 nothing beyond the end, I10 fragments are well-formed, I11 acks come from where metadata says,
I13 a fence survives, I14 what a bookie acknowledged survives, I18 no bad bytes. Two more have no
number there: *force*, what was appended before a force is acknowledged behind it, and *told*, who
asks for the LAC after it was told hears of it. Those of repairs are ``repair_rules``.

It knows nothing of how ledgers are written; whoever adds a rule adds a bad history to its test.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, assert_never

from tests.simulation import history as seen
from tests.simulation import repair_rules
from zonekeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from zonekeeper.placement.ids import NO_ENTRY, BookieId, EntryId, LedgerId

_ERROR: Final = re.compile(r"\w+(?:Error|Failed)\b")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"

    @property
    def kind(self) -> tuple[str, ...]:
        """What two violations share that have one cause: the rule, and an error if it names one."""
        return (self.rule, *_ERROR.findall(self.what)[:1])


class Checker:
    """One pass over one history."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._appended: dict[LedgerId, dict[EntryId, bytes]] = {}
        self._acked: dict[LedgerId, EntryId] = {}
        self._read: dict[LedgerId, dict[EntryId, bytes]] = {}
        self._metadata: dict[LedgerId, LedgerMetadata] = {}
        #: The ends that a writer or a recovery was told of.
        self._told: dict[LedgerId, EntryId] = {}
        self._confirmed: dict[tuple[str, LedgerId], EntryId] = {}
        #: The LAC that everybody hears of, and that of when a handle asked.
        self._known: dict[LedgerId, EntryId] = {}
        self._due: dict[tuple[str, LedgerId], EntryId] = {}
        self._kept: dict[tuple[BookieId, LedgerId], seen.Kept] = {}

    def take(self, event: seen.Event) -> None:
        """Take the next event in."""
        match event:
            case seen.Appended():
                self._appended.setdefault(event.ledger, {})[event.entry] = event.value
            case seen.Acked():
                self._take_acked(event)
            case seen.Forced() | seen.Told() | seen.Asked():
                self._take_promised(event)
            case seen.Confirmed():
                self._take_confirmed(event)
            case seen.Got():
                self._take_got(event)
            case seen.Denied():
                self._take_denied(event)
            case seen.Recorded():
                self._take_recorded(event)
            case seen.ClosedByWriter() | seen.Recovered():
                self._take_end(event.ledger, event.last)
            case seen.Broke():
                self._break("broke", event.what)
            case seen.Crashed() | seen.Restarted() | seen.DiskLost():
                self._take_of_bookies(event)
            case seen.Moved() | seen.Copied() | seen.Permitted() | seen.Waited():
                self._take_of_repair(event)
            case _:
                assert_never(event)

    def _take_of_bookies(self, event: seen.Crashed | seen.Restarted | seen.DiskLost) -> None:
        match event:
            case seen.Crashed():
                for kept in event.kept:
                    self._kept[kept.bookie, kept.ledger] = kept
            case seen.Restarted():
                self._take_restarted(event)
            case seen.DiskLost():
                self._kept = {k: v for k, v in self._kept.items() if k[0] != event.bookie}
            case _:
                assert_never(event)

    def _take_of_repair(
        self, event: seen.Moved | seen.Copied | seen.Permitted | seen.Waited
    ) -> None:
        for rule, what in repair_rules.broken(event):
            self._break(rule, what)

    def _take_acked(self, event: seen.Acked) -> None:
        ledger = event.ledger
        expected = EntryId(self._acked.get(ledger, NO_ENTRY) + 1)
        if event.first != expected:
            self._break("I5", f"ledger {ledger}: {event.first} acked, and {expected} is next")
        self._acked[ledger] = max(event.last, self._acked.get(ledger, NO_ENTRY))
        self._look_copies("I11", "acked", ledger, event.first, event.copies)
        self._look_within_end("I4", "acked", ledger, event.last)

    def _take_promised(self, event: seen.Forced | seen.Told | seen.Asked) -> None:
        ledger = event.ledger
        known = self._known.get(ledger, NO_ENTRY)
        match event:
            case seen.Forced():
                acked = self._acked.get(ledger, NO_ENTRY)
                if event.last > acked:
                    self._break("force", f"ledger {ledger}: {event.last} forced, {acked} acked")
            case seen.Told():
                self._known[ledger] = max(event.last, known)
            case seen.Asked():
                self._due[event.handle, ledger] = known
            case _:
                assert_never(event)

    def _take_confirmed(self, event: seen.Confirmed) -> None:
        ledger, who = event.ledger, (event.handle, event.ledger)
        before = self._confirmed.get(who, NO_ENTRY)
        if event.last < before:
            self._break(
                "I5", f"ledger {ledger}: {event.handle} saw LAC {before}, then {event.last}"
            )
        self._confirmed[who] = event.last
        due = self._due.get(who, NO_ENTRY)
        if event.last < due:
            self._break(
                "told", f"ledger {ledger}: LAC {due} was told, {event.handle} heard {event.last}"
            )
        self._look_copies("I5", f"confirmed to {event.handle}", ledger, event.first, event.copies)
        self._look_within_end("I9", f"confirmed to {event.handle}", ledger, event.last)

    def _take_got(self, event: seen.Got) -> None:
        ledger, entry, value = event.ledger, event.entry, event.value
        if entry != event.wanted:
            self._break(
                "I3", f"ledger {ledger}: {event.handle} got {entry} in the place of {event.wanted}"
            )
        written = self._appended.get(ledger, {}).get(entry)
        if value != written:
            self._break(
                "I18", f"ledger {ledger}: {event.handle} got {value!r} as {entry}, not {written!r}"
            )
        before = self._read.setdefault(ledger, {}).setdefault(entry, value)
        if before != value:
            self._break("I2", f"ledger {ledger}: entry {entry} was {before!r}, then {value!r}")
        self._look_within_end("I9", f"given to {event.handle}", ledger, entry)

    def _take_denied(self, event: seen.Denied) -> None:
        if event.entry <= self._acked.get(event.ledger, NO_ENTRY):
            rule = "I1"
        else:
            rule = "I2" if event.entry in self._read.get(event.ledger, {}) else "I5"
        self._break(
            rule, f"ledger {event.ledger}: entry {event.entry} was denied to {event.handle}"
        )

    def _take_recorded(self, event: seen.Recorded) -> None:
        ledger, after = event.ledger, event.metadata
        before = self._metadata.get(ledger)
        if after is None:
            if before is not None:
                self._break("I6", f"ledger {ledger} was deleted, and nobody wanted that")
                del self._metadata[ledger]
            return
        self._metadata[ledger] = after
        self._look_fragments(ledger, after)
        if before is not None and before.is_closed:
            if _end(before) != _end(after):
                self._break("I6", f"ledger {ledger} was {_end(before)}, then {_end(after)}")
        elif after.is_closed:
            self._take_closed(ledger, after, event.copies)

    def _take_closed(self, ledger: LedgerId, closed: LedgerMetadata, copies: Sequence[int]) -> None:
        last = closed.last_entry
        acked = self._acked.get(ledger, NO_ENTRY)
        if acked > last:
            self._break("I1", f"ledger {ledger} was closed at {last}, and {acked} was acked")
        lost = [entry for entry in self._read.get(ledger, {}) if entry > last]
        if lost:
            self._break("I2", f"ledger {ledger} was closed at {last}, and {max(lost)} was read")
        self._look_copies("I8", "committed", ledger, EntryId(0), copies)
        if ledger in self._told and self._told[ledger] != last:
            self._break("I7", f"ledger {ledger} ends at {last}, told was {self._told[ledger]}")

    def _take_end(self, ledger: LedgerId, last: EntryId) -> None:
        told = self._told.setdefault(ledger, last)
        if told != last:
            self._break("I7", f"ledger {ledger} was said to end at {told}, then at {last}")
        metadata = self._metadata.get(ledger)
        if metadata is not None and metadata.is_closed and metadata.last_entry != last:
            self._break("I7", f"ledger {ledger} ends at {metadata.last_entry}, told was {last}")

    def _take_restarted(self, event: seen.Restarted) -> None:
        now = {kept.ledger: kept for kept in event.kept}
        for (bookie, ledger), before in self._kept.items():
            if bookie != event.bookie:
                continue
            after = now.get(ledger, _nothing(bookie, ledger))
            where = f"{bookie}, ledger {ledger}"
            if lost := sorted(before.entries - after.entries):
                self._break("I14", f"{where}: {lost} were on disk, and are gone after a crash")
            if before.fenced and not after.fenced:
                self._break("I13", f"{where}: was fenced, and is not after a crash")
            if before.confirmed > after.confirmed:
                self._break("I5", f"{where}: LAC {before.confirmed}, then {after.confirmed}")

    def _look_copies(
        self, rule: str, what: str, ledger: LedgerId, first: EntryId, copies: Sequence[int]
    ) -> None:
        metadata = self._metadata.get(ledger)
        if metadata is None:
            self._break(rule, f"ledger {ledger}: {what}, and there is no such ledger")
            return
        for entry, number in enumerate(copies, first):
            if number < metadata.ack_quorum:
                self._break(
                    rule,
                    f"ledger {ledger}: entry {entry} was {what} with {number} copies where "
                    f"metadata shows it, {metadata.ack_quorum} are needed",
                )

    def _look_within_end(self, rule: str, what: str, ledger: LedgerId, entry: EntryId) -> None:
        metadata = self._metadata.get(ledger)
        if metadata is not None and metadata.is_closed and entry > metadata.last_entry:
            self._break(
                rule, f"ledger {ledger} ends at {metadata.last_entry}, and {entry} was {what}"
            )

    def _look_fragments(self, ledger: LedgerId, metadata: LedgerMetadata) -> None:
        firsts = [fragment.first_entry for fragment in metadata.fragments]
        good = (
            firsts[0] == 0
            and all(a < b for a, b in pairwise(firsts))
            and all(
                len(set(fragment.ensemble)) == metadata.ensemble_size
                for fragment in metadata.fragments
            )
            and (not metadata.is_closed or firsts[-1] <= metadata.last_entry + 1)
        )
        if not good:
            self._break("I10", f"ledger {ledger}: {metadata.fragments}")

    def _break(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule, what))


def check(events: Sequence[seen.Event]) -> list[Violation]:
    """Give every promise that a history breaks."""
    checker = Checker()
    for event in events:
        checker.take(event)
    return checker.violations


def _end(metadata: LedgerMetadata) -> tuple[object, ...]:
    """Give what never changes of a closed ledger."""
    assert isinstance(metadata.state, LedgerState)
    return (
        metadata.state.value,
        metadata.last_entry,
        metadata.length,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        metadata.digest,
    )


def _nothing(bookie: BookieId, ledger: LedgerId) -> seen.Kept:
    return seen.Kept(
        bookie=bookie, ledger=ledger, entries=frozenset(), confirmed=NO_ENTRY, fenced=False
    )
