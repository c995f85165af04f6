"""Judges a history: the promises of a ledger, each as a comparison in one pass.

The rules bear numbers or words; docs/simulator.md lists them all. What one change of a ledger's
metadata may not say is in ``record_rules``, what repairs may not do in ``repair_rules``, and what
a store that was set back leaves of them in ``set_back_rules``. It knows nothing of how ledgers are
written; a new rule needs a bad history in its test, and without one the test fails.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from tests.simulation import history as seen
from tests.simulation import record_rules, repair_rules, set_back_rules
from tests.simulation.log_rules import LogRules
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata, LedgerState
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId

#: All rules, and what they say.
RULES: Final[Mapping[str, str]] = {
    "I1": "every acknowledged entry can be read, and a reader that reads to an end gets "
    "all entries up to it",
    "I2": "an entry that was read once reads the same for ever",
    "I3": "readers get the same entries, in the order of their ids",
    "I4": "a fenced writer acknowledges nothing more",
    "I5": "the LAC never falls, and covers only what an ack quorum has",
    "I6": "a closed ledger never changes, and no ledger's state goes back",
    "I7": "all recoveries of a ledger find the same end",
    "I8": "an ack quorum has a copy of each entry up to the end, and repairs keep the copies",
    "I9": "nothing is read beyond the end",
    "I10": "the fragments of a ledger ascend, and each has a whole ensemble",
    "I11": "the acks that count come from bookies that the metadata names",
    "I12": "a bookie denies only what it never had",
    "I13": "a fence survives a restart",
    "I14": "everything that a bookie acknowledged survives a restart",
    "I17": "no ledger that metadata names is deleted from a bookie, and none that nobody deleted",
    "I18": "a reader gets the bytes that were written, and no others",
    "I19": "repairs do not make placement worse",
    "I20": "losses of a zone that is held, or that fails and was not released, are not copied",
    "I21": "losses that may be repaired are repaired in time",
    "force": "entries that were appended before a force, a flush or a close are acknowledged "
    "when it returns",
    "told": "a reader that asks for the LAC after it was told gets it",
    "created": "a new ledger has the quorums, digest and label that its creator asked for",
    "reason": "the state of the world allows every error of the client",
    "gate": "a gate opens when its rule says so, and not before",
    "presence": "no bookie that is there is replaced",
    "whole": "when a repair has finished a mark, each member has every entry on its disk",
    "ids": "no ledger gets an id that an earlier one had",
    "broke": "no task ends that must not, and in the liveness phase everything is done in time",
}

_ERROR: Final = re.compile(r"\w+(?:Error|Failed)\b")

#: What trouble of every kind may end with.
_TROUBLE: Final = frozenset(
    {
        "ClusterNotReady",
        "NotEnoughBookies",
        "ReadFailed",
        "RecoveryFailed",
        "LacNotTold",
        "LostQuorum",
        "AddTimedOut",
    }
)
#: What a writer hears whose ledger is not its own any more.
_TAKEN: Final = frozenset({"Fenced", "ClosedByOther"})


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
        self._log = LogRules()
        self._appended: dict[LedgerId, dict[EntryId, bytes]] = {}
        self._acked: dict[LedgerId, EntryId] = {}
        self._read: dict[LedgerId, dict[EntryId, bytes]] = {}
        self._metadata: dict[LedgerId, LedgerMetadata] = {}
        #: The ends that a writer or a recovery was told of.
        self._told: dict[LedgerId, EntryId] = {}
        self._confirmed: dict[tuple[str, LedgerId], EntryId] = {}
        #: The LAC that every reader hears of, and that of when a handle asked.
        self._known: dict[LedgerId, EntryId] = {}
        self._due: dict[tuple[str, LedgerId], EntryId] = {}
        #: What bookies answered for when they died, and what they began their present life with.
        self._kept: dict[tuple[BookieId, LedgerId], seen.Kept] = {}
        self._began: dict[tuple[BookieId, LedgerId], seen.Kept] = {}
        self._without_disk: set[BookieId] = set()
        #: Ledgers whose creators were given a writer, and those that were deleted before that.
        self._given: set[LedgerId] = set()
        self._given_up: set[LedgerId] = set()
        #: The ends of ledgers that were deleted by order.
        self._deleted: dict[LedgerId, EntryId] = {}
        self._from_before = set_back_rules.FromBefore()
        #: All ledgers that metadata ever named.
        self._recorded: set[LedgerId] = set()

    def take(self, event: seen.Event) -> None:
        """Take the next event in."""
        if self._from_before.has(event):
            self._break_all(self._from_before.broken(event))
            return
        match event:
            case seen.Created() | seen.Appended() | seen.Acked() | seen.Forced() | seen.Told():
                self._take_of_writer(event)
            case seen.Asked() | seen.Confirmed() | seen.Got() | seen.Glimpsed() | seen.Ended():
                self._take_of_reader(event)
            case seen.Denied():
                self._take_denied(event)
            case seen.Failed():
                self._take_failed(event)
            case seen.Recorded():
                self._take_recorded(event)
            case seen.Deleted():
                self._deleted[event.ledger] = event.last
            case seen.ClosedByWriter() | seen.Recovered():
                self._take_end(event.ledger, event.last)
            case seen.OfLog() | seen.Broke():
                self._take_other(event)
            case seen.Moved() | seen.Copied() | seen.Permitted() | seen.Waited() | seen.Mended():
                self._break_all(repair_rules.broken(event))
            case (
                seen.Crashed()
                | seen.Restarted()
                | seen.Looked()
                | seen.Disowned()
                | seen.DiskLost()
                | seen.Collected()
                | seen.SetBack()
                | seen.Redrawn()
            ):
                self._take_of_bookies(event)
            case _:
                assert_never(event)

    def _take_other(self, event: seen.OfLog | seen.Broke) -> None:
        if isinstance(event, seen.OfLog):
            self.violations += [Violation(*one) for one in self._log.broken(event.sight)]
        else:
            self._break("broke", event.what)

    def _take_of_writer(
        self, event: seen.Created | seen.Appended | seen.Acked | seen.Forced | seen.Told
    ) -> None:
        ledger = event.ledger
        self._given.add(ledger)
        match event:
            case seen.Created():
                self._take_created(event)
            case seen.Appended():
                self._appended.setdefault(ledger, {})[event.entry] = event.value
            case seen.Acked():
                self._take_acked(event)
            case seen.Forced():
                acked = self._acked.get(ledger, NO_ENTRY)
                if event.last > acked:
                    self._break("force", f"ledger {ledger}: {event.last} forced, {acked} acked")
            case seen.Told():
                self._known[ledger] = max(event.last, self._known.get(ledger, NO_ENTRY))
            case _:
                assert_never(event)

    def _take_of_reader(
        self, event: seen.Asked | seen.Confirmed | seen.Got | seen.Glimpsed | seen.Ended
    ) -> None:
        match event:
            case seen.Asked():
                known = self._known.get(event.ledger, NO_ENTRY)
                self._due[event.handle, event.ledger] = known
            case seen.Confirmed():
                self._take_confirmed(event)
            case seen.Got():
                self._look_value(event)
                self._take_got(event)
            case seen.Glimpsed():
                self._look_value(event)
            case seen.Ended():
                self._take_ended(event)
            case _:
                assert_never(event)

    def _take_of_bookies(
        self,
        event: seen.Crashed
        | seen.Restarted
        | seen.Looked
        | seen.Disowned
        | seen.DiskLost
        | seen.Collected
        | seen.SetBack
        | seen.Redrawn,
    ) -> None:
        match event:
            case seen.Crashed() | seen.Looked():
                self._take_life(event.kept)
                for kept in event.kept:
                    self._kept[kept.bookie, kept.ledger] = kept
            case seen.Restarted():
                self._take_restarted(event)
                for kept in event.kept:
                    self._began[kept.bookie, kept.ledger] = kept
            case seen.Disowned():
                self._take_disowned(event)
            case seen.Collected():
                self._take_collected(event)
            case seen.SetBack():
                self._take_set_back(event)
            case seen.Redrawn():
                self._from_before.young.add(event.ledger)
            case seen.DiskLost():
                self._without_disk.add(event.bookie)
                for known in (self._kept, self._began):
                    for which in [which for which in known if which[0] == event.bookie]:
                        del known[which]
            case _:
                assert_never(event)

    def _take_set_back(self, event: seen.SetBack) -> None:
        """Forget what metadata said of ledgers. What bookies have counts as before."""
        self._from_before.take(event, self._recorded)
        for known in (self._metadata, self._acked, self._read, self._told):
            for ledger in self._from_before.ledgers & known.keys():
                known.pop(ledger)

    def _take_disowned(self, event: seen.Disowned) -> None:
        entries = [entry for entry in event.entries if self._counts(event.ledger, entry)]
        metadata = self._metadata.get(event.ledger)
        if metadata is not None:  # of what it lost, it may deny what it need not have any more
            entries += [one for one in event.lost if _names(metadata, event.bookie, one)]
        if entries:
            where = f"{event.bookie}, ledger {event.ledger}"
            self._break("I12", f"{where}: {entries} were denied, and it had them")

    def _take_collected(self, event: seen.Collected) -> None:
        ledger = event.ledger
        if ledger in self._metadata:
            self._break("I17", f"{event.bookie} collects ledger {ledger}, which metadata names")
        elif ledger not in (self._deleted.keys() | self._from_before.young | self._given_up):
            self._break("I17", f"{event.bookie} collects ledger {ledger}, which nobody deleted")
        for known in (self._kept, self._began):  # from here on it answers for nothing of it
            known.pop((event.bookie, ledger), None)

    def _take_created(self, event: seen.Created) -> None:
        ledger, stands = event.ledger, self._metadata.get(event.ledger)
        if stands is None:
            if ledger not in self._deleted:  # by order, before its creator had the answer
                self._break("created", f"ledger {ledger} was created, and there is none")
            return
        asked = (event.password, event.digest, event.custom)
        custom = tuple(pair for pair in stands.custom if pair in event.custom)
        if asked != (stands.password, stands.digest, custom):
            self._break("created", f"ledger {ledger} was to have {asked}, and is {stands}")

    def _take_acked(self, event: seen.Acked) -> None:
        ledger = event.ledger
        expected = EntryId(self._acked.get(ledger, NO_ENTRY) + 1)
        if event.first != expected:
            self._break("I5", f"ledger {ledger}: {event.first} acked, and {expected} is next")
        self._acked[ledger] = max(event.last, self._acked.get(ledger, NO_ENTRY))
        self._look_copies("I11", "acked", ledger, event.first, event.copies)
        self._look_within_end("I4", "acked", ledger, event.last)

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

    def _look_value(self, event: seen.Got | seen.Glimpsed) -> None:
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

    def _take_got(self, event: seen.Got) -> None:
        ledger, entry, value = event.ledger, event.entry, event.value
        before = self._read.setdefault(ledger, {}).setdefault(entry, value)
        if before != value:
            self._break("I2", f"ledger {ledger}: entry {entry} was {before!r}, then {value!r}")
        self._look_within_end("I9", f"given to {event.handle}", ledger, entry)

    def _take_ended(self, event: seen.Ended) -> None:
        ledger, last = event.ledger, event.last
        if last is None:
            metadata = self._metadata.get(ledger)
            if metadata is not None and metadata.is_closed:
                last = metadata.last_entry
            elif metadata is None and ledger in self._deleted:
                last = self._deleted[ledger]
            else:
                self._break("I1", f"ledger {ledger} is open, and ended for {event.handle}")
                return
        if event.following <= last:
            self._break(
                "I1",
                f"ledger {ledger}: {event.handle} read to {last}, and got nothing from "
                f"{event.following} on",
            )

    def _take_denied(self, event: seen.Denied) -> None:
        if event.entry <= self._acked.get(event.ledger, NO_ENTRY):
            rule = "I1"
        else:
            rule = "I2" if event.entry in self._read.get(event.ledger, {}) else "I5"
        self._break(
            rule, f"ledger {event.ledger}: entry {event.entry} was denied to {event.handle}"
        )

    def _take_failed(self, event: seen.Failed) -> None:
        ledger, kind = event.ledger, event.error
        metadata = None if ledger is None else self._metadata.get(ledger)
        allowed = kind in _TROUBLE or (kind == "MetadataFailed" and event.retryable)
        if metadata is None:
            allowed |= kind == "NoSuchLedger" and ledger is not None
            allowed |= kind in _TAKEN and ledger in self._deleted
        else:
            allowed |= kind in _TAKEN and metadata.state is not LedgerState.OPEN
            # Limbo fences, and a bookie that lost its disk is in limbo for what names it.
            named = {bookie for fragment in metadata.fragments for bookie in fragment.ensemble}
            allowed |= kind == "Fenced" and not self._without_disk.isdisjoint(named)
        if not allowed:
            self._break("reason", f"ledger {ledger}: {event.who} got {kind} for no reason")

    def _take_recorded(self, event: seen.Recorded) -> None:
        ledger, after = event.ledger, event.metadata
        before = self._metadata.pop(ledger, None)
        self._recorded.add(ledger)
        acked = self._acked.get(ledger, NO_ENTRY)
        if after is None and ledger not in self._given:  # a creation that was cancelled
            self._given_up.add(ledger)
        self._break_all(record_rules.broken(event, before, acked, deleted=self._is_deleted(ledger)))
        if after is None:
            return
        self._metadata[ledger] = after
        if after.is_closed and (before is None or not before.is_closed):
            self._take_closed(ledger, after)

    def _take_closed(self, ledger: LedgerId, closed: LedgerMetadata) -> None:
        last = closed.last_entry
        acked = self._acked.get(ledger, NO_ENTRY)
        if acked > last:
            self._break("I1", f"ledger {ledger} was closed at {last}, and {acked} was acked")
        lost = [entry for entry in self._read.get(ledger, {}) if entry > last]
        if lost:
            self._break("I2", f"ledger {ledger} was closed at {last}, and {max(lost)} was read")
        if ledger in self._told and self._told[ledger] != last:
            self._break("I7", f"ledger {ledger} ends at {last}, told was {self._told[ledger]}")

    def _take_end(self, ledger: LedgerId, last: EntryId) -> None:
        told = self._told.setdefault(ledger, last)
        if told != last:
            self._break("I7", f"ledger {ledger} was said to end at {told}, then at {last}")
        metadata = self._metadata.get(ledger)
        if metadata is not None and metadata.is_closed and metadata.last_entry != last:
            self._break("I7", f"ledger {ledger} ends at {metadata.last_entry}, told was {last}")

    def _take_life(self, kept: Sequence[seen.Kept]) -> None:
        """Compare what a bookie answers for with what it did when this life of it began."""
        now = {one.ledger: one for one in kept}
        bookies = {one.bookie for one in kept}
        for (bookie, ledger), before in self._began.items():
            if bookie not in bookies:
                continue
            after, metadata = now.get(ledger, _nothing(bookie, ledger)), self._metadata.get(ledger)
            where = f"{bookie}, ledger {ledger}"
            lost = [
                entry
                for entry in sorted(before.entries - after.entries)
                if metadata is not None and _names(metadata, bookie, entry)
            ]
            if lost:
                self._break("I17", f"{where}: {lost} were there, are named, and are gone")
            if metadata is not None and before.confirmed > after.confirmed:
                self._break("I5", f"{where}: LAC {before.confirmed}, then {after.confirmed}")

    def _take_restarted(self, event: seen.Restarted) -> None:
        now = {kept.ledger: kept for kept in event.kept}
        for (bookie, ledger), before in self._kept.items():
            if bookie != event.bookie or self._is_deleted(ledger):
                continue
            after = now.get(ledger, _nothing(bookie, ledger))
            where = f"{bookie}, ledger {ledger}"
            gone = sorted(before.entries - after.entries)
            lost = [entry for entry in gone if self._counts(ledger, entry)]
            if lost:
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
            if ledger not in self._deleted:
                self._break(rule, f"ledger {ledger}: {what}, and there is no such ledger")
            return
        self._break_all(record_rules.lacking(rule, what, ledger, metadata, first, copies))

    def _look_within_end(self, rule: str, what: str, ledger: LedgerId, entry: EntryId) -> None:
        metadata = self._metadata.get(ledger)
        last = self._deleted.get(ledger)
        if metadata is not None and metadata.is_closed:
            last = metadata.last_entry
        if last is not None and entry > last:
            self._break(rule, f"ledger {ledger} ends at {last}, and {entry} was {what}")

    def _is_deleted(self, ledger: LedgerId) -> bool:
        """By order, with its log, or because its creation was given up."""
        return ledger in self._deleted or ledger in self._given_up

    def _counts(self, ledger: LedgerId, entry: EntryId) -> bool:
        """Is an entry one that bookies must not lose? Not of a ledger that was deleted."""
        if self._is_deleted(ledger):
            return False
        metadata = self._metadata.get(ledger, self._from_before.since.get(ledger))
        return metadata is None or _is_of(metadata, entry)

    def _break_all(self, found: Iterable[tuple[str, str]]) -> None:
        for rule, what in found:
            self._break(rule, what)

    def _break(self, rule: str, what: str) -> None:
        assert rule in RULES, f"{rule} is no rule"
        self.violations.append(Violation(rule, what))


def check(events: Sequence[seen.Event]) -> list[Violation]:
    """Give every promise that a history breaks."""
    checker = Checker()
    for event in events:
        checker.take(event)
    return checker.violations


def _names(metadata: LedgerMetadata, bookie: BookieId, entry: EntryId) -> bool:
    """Is an entry the ledger's, and the bookie a member of its ensemble?"""
    return _is_of(metadata, entry) and bookie in metadata.fragment_of(entry).ensemble


def _is_of(metadata: LedgerMetadata, entry: EntryId) -> bool:
    """Is an entry the ledger's? What is behind its end a bookie leaves out when it rewrites."""
    return not metadata.is_closed or entry <= metadata.last_entry


def _nothing(bookie: BookieId, ledger: LedgerId) -> seen.Kept:
    return seen.Kept(
        bookie=bookie, ledger=ledger, entries=frozenset(), confirmed=NO_ENTRY, fenced=False
    )
