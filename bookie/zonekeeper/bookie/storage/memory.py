"""The memory of a bookie: its ledgers, and for each generation the ledgers with entries in it.

The memory follows from the checkpoint and the batches after it. Only records on the disk enter it,
so all of it may be shown to readers and written into the next checkpoint.

A ledger is *forgotten* in one step, when the record that forgets it is on the disk. From then on
the ledger is not known; its tombstone is. Records that were handed to the log after that record
begin a new ledger with the same id. They are decided by an admitted state that has forgotten, too
(``forgetting``). The new ledger has no rows in sorted segments yet; its ``since`` excludes the rows
of the old one.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, assert_never

from zonekeeper.bookie.formats import checkpoint_format
from zonekeeper.bookie.formats.arrival_scan import Scanned
from zonekeeper.bookie.formats.batch_format import Placed
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, Kept
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.bookie.ledgers.tombstones import Tombstone, Tombstones
from zonekeeper.bookie.storage.ledger_entries import LedgerEntries
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats.frames import Frame

#: So many ledgers are taken out of a checkpoint at a time.
_LOADED: Final = 1_000
#: The bytes of a ledger with more hints than this are not kept for the next checkpoint.
_RENDERED_MAX: Final = 4 << 10


class Memory:
    """Ledgers and the bookie's mode; on an event loop."""

    def __init__(self, index: Index, last: Checkpoint) -> None:
        """Begin with a checkpoint; the batches after it are replayed next."""
        self._index = index
        self.ledgers: dict[LedgerId, Ledger] = {}
        #: Did a person make this bookie read-only?
        self.read_only = last.read_only
        #: ``number < next_sorted`` for every sorted segment that was begun.
        self.next_sorted = last.next_sorted
        self._limbo_generation = last.limbo_generation
        #: By generation: the ledgers with frames in it.
        self._touched: defaultdict[int, dict[LedgerEntries, None]] = defaultdict(dict)
        #: Forgotten ledgers that were not swept out of the index yet.
        self._forgotten: dict[LedgerId, None] = {}
        #: Of the ledgers whose forgetting is on the disk.
        self.tombstones = Tombstones(last.tombstones)
        #: Bytes of the hints of all ledgers, as they are admitted.
        self.hint_bytes = 0
        #: Records that forget a ledger and are not on the disk yet.
        self._leaving: dict[LedgerId, records.ForgetRecord] = {}
        #: Called when a ledger begins to leave: a writer that has it open must open it again.
        self.on_forgetting: Callable[[LedgerId], None] = _nothing
        there = iter(last.ledgers.items())
        while some := list(islice(there, _LOADED)):
            lasts = index.lasts([ledger_id for ledger_id, _ in some])
            for (ledger_id, kept), ends_at in zip(some, lasts, strict=True):
                entries = LedgerEntries(ledger_id, index, self._touch, since=kept.since)
                entries.ends_at(ends_at)
                ledger = Ledger(ledger_id, entries)
                ledger.was_kept(kept.state, kept.confirmed)
                self.remember(ledger)

    def ledger(self, ledger_id: LedgerId) -> Ledger:
        """Give a ledger; an unknown one is made and remembered."""
        ledger = self.find(ledger_id)
        self.remember(ledger)
        return ledger

    def find(self, ledger_id: LedgerId) -> Ledger:
        """Give a ledger; an unknown one is made, but not remembered."""
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            # A ledger with rows in the index is known, so this one has none there.
            ledger = Ledger(ledger_id, self._no_entries(ledger_id))
        return ledger

    def remember(self, ledger: Ledger) -> None:
        """Remember a ledger that ``find`` gave."""
        remembered = self.ledgers.setdefault(ledger.ledger_id, ledger)
        assert remembered is ledger, "found twice"

    @property
    def checkpoint_bytes(self) -> int:
        """The most bytes that a checkpoint can have now; in any thread."""
        return checkpoint_format.bytes_max(
            ledgers=len(self.ledgers),
            hint_bytes=self.hint_bytes,
            tombstones=len(self.tombstones),
        )

    def growth_bytes(self, ledger: Ledger, record: LedgerRecord) -> int:
        """Give the bytes by which ``checkpoint_bytes`` grows if this record is admitted."""
        state = ledger.admitted
        told = admission.applied(state, record).hint_bytes - state.hint_bytes
        is_new = ledger.ledger_id not in self.ledgers
        return checkpoint_format.growth_bytes(ledgers=int(is_new), hint_bytes=told)

    def admit(self, ledger: Ledger, record: LedgerRecord) -> None:
        """Remember a ledger, and admit a record of it; the caller hands it to the log at once."""
        self.remember(ledger)
        self.hint_bytes -= ledger.admitted.hint_bytes
        ledger.admit(record)
        self.hint_bytes += ledger.admitted.hint_bytes

    def place(self, placed: Iterable[Placed]) -> None:
        """Take in records that are on the disk, in the log's order."""
        for record, location in placed:
            match record:
                case records.ModeRecord(read_only=read_only):
                    self.read_only = read_only
                case records.ForgetRecord():
                    self._forget(record)
                case (
                    Frame()
                    | records.FragmentRecord()
                    | records.FenceRecord()
                    | records.LacRecord()
                    | records.LimboRecord()
                ):
                    self.ledger(record.ledger_id).placed(record, location)
                case _:
                    assert_never(record)

    def replay(self, batch: Scanned) -> None:
        """Take in a batch that a start finds past the mark."""
        stale = batch.position.generation <= self._limbo_generation
        self.place(each for each in batch.placed if not (stale and _ends_limbo(each.record)))

    def restarted(self) -> None:
        """Begin after a restart: for each ledger the admitted state is the durable one."""
        for ledger in self.ledgers.values():
            ledger.restarted()
            self.hint_bytes += ledger.admitted.hint_bytes

    def forgetting(self, ledger_id: LedgerId, at_ms: int) -> records.ForgetRecord:
        """Give the record that forgets a ledger; the caller hands it to the log at once.

        What is admitted from now on is behind this record in the log. A ledger that is not known
        here leaves no tombstone. Nor does one that was only fenced here, without a create token: no
        writer had it open, and each recovery of a ledger that was really created shows its token.
        Such a fence may be a stranger's, of an id that is given out only later. A tombstone of it
        would name any token, and so that later ledger, too.
        """
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            return records.ForgetRecord(ledger_id=ledger_id)
        state, ledger.admitted = ledger.admitted, admission.UNKNOWN
        ledger.owner = None
        self.hint_bytes -= state.hint_bytes
        token = state.create_token
        left = at_ms if token or state.hints or state.in_limbo else 0
        record = records.ForgetRecord(ledger_id=ledger_id, create_token=token, at_ms=left)
        self._leaving[ledger_id] = record
        self.on_forgetting(ledger_id)
        return record

    def buried(self, ledger_id: LedgerId, create_token: int) -> bool:
        """Was the ledger with this id and create token forgotten, or is it being forgotten?"""
        leaving = self._leaving.get(ledger_id)
        if leaving is not None and (
            not leaving.create_token or create_token in (0, leaving.create_token)
        ):
            return True
        return self.tombstones.names(ledger_id, create_token)

    def entries(self, ledger_id: LedgerId) -> LedgerEntries:
        """Give the places of the entries of a known ledger."""
        return _entries_of(self.ledgers[ledger_id])

    def begin_sorted(self) -> int:
        """Give the number for a new sorted segment."""
        self.next_sorted += 1
        return self.next_sorted - 1

    def counts(self, ledger_id: LedgerId, number: int) -> bool:
        """Say whether a row of a ledger in a sorted segment counts; in any thread."""
        ledger = self.ledgers.get(ledger_id)
        return ledger is not None and number >= _entries_of(ledger).since

    def open_ones(self, ledger_ids: Iterable[LedgerId], count: int) -> list[Ledger]:
        """Give at most ``count`` of these ledgers whose end is not known here.

        Fenced ledgers come first, because they may have entries past their end: those of a writer
        that a recovery fenced, or that failed.
        """
        there = (self.ledgers.get(each) for each in dict.fromkeys(ledger_ids))
        found = [ledger for ledger in there if ledger is not None and ledger.closed_at is None]
        return heapq.nsmallest(count, found, key=lambda ledger: not ledger.durable.fenced)

    def end_of(self, ledger_id: LedgerId) -> EntryId | None:
        """Give a closed ledger's last entry; None: it is open, or unknown. In any thread."""
        ledger = self.ledgers.get(ledger_id)
        return None if ledger is None else ledger.closed_at

    @property
    def has_forgotten(self) -> bool:
        """Are there forgotten ledgers that may have rows in the index?"""
        return bool(self._forgotten)

    def take_forgotten(self) -> tuple[LedgerId, ...]:
        """Give the ledgers that were forgotten since the last call."""
        taken = tuple(sorted(self._forgotten))
        self._forgotten.clear()
        return taken

    def take_back(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Take back ledgers from ``take_forgotten`` that perhaps were not swept."""
        self._forgotten.update(dict.fromkeys(ledger_ids))

    def kept(self, some: Iterable[Ledger]) -> list[Ledger]:
        """Give those of these ledgers that a checkpoint has to have; in any thread."""
        return [ledger for ledger in some if ledger.known]

    def rendered(self, some: Iterable[Ledger]) -> Iterator[bytes]:
        """Give the checkpoint's bytes of these ledgers, in parts; in one thread at a time.

        The ledgers may change meanwhile, and even be forgotten: such changes are past the mark. A
        ledger that has not changed is not rendered again: most ledgers never change any more, and
        to render a hundred thousand of them costs time and garbage collection.
        """
        for ledger in some:
            state, confirmed = ledger.durable, ledger.confirmed
            last = ledger.rendered
            if last is not None and last[0] is state and last[1] == confirmed:
                yield last[2]
                continue
            kept = Kept(state=state, confirmed=confirmed, since=_entries_of(ledger).since)
            parts = checkpoint_format.parts_of_ledger(ledger.ledger_id, kept)
            ledger.rendered = None
            if state.hint_bytes > _RENDERED_MAX:
                yield from parts
                continue
            ledger.rendered = (state, confirmed, b"".join(parts))
            yield ledger.rendered[2]

    def touched_through(self, generation: int) -> list[LedgerEntries]:
        """Give the entries of the ledgers with frames up to a generation, by ledger id."""
        found = {
            entries
            for each, all_in in self._touched.items()
            if each <= generation
            for entries in all_in
        }
        return sorted(found, key=lambda entries: entries.ledger_id)

    def is_touched(self, entries: LedgerEntries, through: int) -> bool:
        """Say whether a ledger still has frames up to a generation, and was not forgotten."""
        return any(entries in each for number, each in self._touched.items() if number <= through)

    def forget_touched(self, through: int) -> None:
        """Drop the notes about generations up to one, when no extent in them is in memory."""
        for generation in [each for each in self._touched if each <= through]:
            del self._touched[generation]

    def _touch(self, generation: int, entries: LedgerEntries) -> None:
        self._touched[generation][entries] = None

    def _no_entries(self, ledger_id: LedgerId) -> LedgerEntries:
        return LedgerEntries(ledger_id, self._index, self._touch, since=self.next_sorted)

    def _forget(self, record: records.ForgetRecord) -> None:
        """Remove a ledger; records of it that are on their way belong to a new one."""
        ledger_id = record.ledger_id
        if self._leaving.get(ledger_id) is record:
            del self._leaving[ledger_id]
        if record.at_ms:
            self.tombstones.add(Tombstone(ledger_id, record.create_token, record.at_ms))
        old = self.ledgers.pop(ledger_id, None)
        self._forgotten[ledger_id] = None
        if old is None:
            return
        entries = _entries_of(old)
        for all_in in self._touched.values():
            all_in.pop(entries, None)
        # A task may still hold the old ledger: it must not find places that are recycled.
        entries.clear()
        old.known = False
        old.tell()
        if old.on_the_way:
            new = Ledger(ledger_id, self._no_entries(ledger_id))
            new.on_the_way = old.on_the_way
            for sent in new.on_the_way:
                if isinstance(sent, Frame):
                    new.highest = max(new.highest, sent.last)
                else:
                    new.admitted = admission.applied(new.admitted, sent)
            self.remember(new)


def _nothing(ledger_id: LedgerId) -> None:
    """Do nothing: the default of ``on_forgetting``."""


def _ends_limbo(record: records.Record) -> bool:
    return isinstance(record, records.LimboRecord) and not record.in_limbo


def _entries_of(ledger: Ledger) -> LedgerEntries:
    assert isinstance(ledger.extents, LedgerEntries), "the ledger was made here"
    return ledger.extents
