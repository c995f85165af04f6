"""What a bookie knows in memory: its ledgers, and which of them have entries in which generation.

All of it is what the checkpoint and the batches behind it say. Only what is on the disk comes in,
so everything in it may be shown, and may go into the next checkpoint.

A ledger that is *forgotten* goes in one step, when the record that says so is on the disk: from
then on it is not known. What was handed to the log for it behind that record begins a new ledger
under its id, of which nothing is in any sorted segment yet; ``since`` keeps the old one's rows in
there from being taken for it.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from typing import assert_never

from zonekeeper.bookie.formats.arrival_scan import Scanned
from zonekeeper.bookie.formats.batch_format import Placed
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.segments.checkpoint import Checkpoint, Kept
from zonekeeper.bookie.storage.ledger_entries import LedgerEntries
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats.frames import Frame


class Memory:
    """Ledgers and the bookie's mode; on an event loop."""

    def __init__(self, index: Index, last: Checkpoint) -> None:
        """Begin with a checkpoint; the batches behind it are placed next."""
        self._index = index
        self.ledgers: dict[LedgerId, Ledger] = {}
        #: Did a person make this bookie read-only?
        self.read_only = last.read_only
        #: No sorted segment with this number, or a higher one, was begun.
        self.next_sorted = last.next_sorted
        self._limbo_generation = last.limbo_generation
        self._touched: defaultdict[int, dict[LedgerEntries, None]] = defaultdict(dict)
        #: Not swept out of the index yet.
        self._forgotten: dict[LedgerId, None] = {}
        for ledger_id, kept in last.ledgers.items():
            entries = LedgerEntries(ledger_id, index, self._touch, since=kept.since)
            entries.look_up()
            ledger = Ledger(ledger_id, entries)
            ledger.known = True
            self.remember(ledger)
            for record in kept.records:
                ledger.placed(record, 0)
            ledger.confirmed = max(ledger.confirmed, kept.confirmed)

    def ledger(self, ledger_id: LedgerId) -> Ledger:
        """Give a ledger, made if it was unknown."""
        ledger = self.find(ledger_id)
        self.remember(ledger)
        return ledger

    def find(self, ledger_id: LedgerId) -> Ledger:
        """Give a ledger; one that is not known is not remembered by this."""
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            # Were anything of it in the index, it would be known.
            ledger = Ledger(ledger_id, self._no_entries(ledger_id))
        return ledger

    def remember(self, ledger: Ledger) -> None:
        """Take a ledger that was found, and that from now on is known."""
        remembered = self.ledgers.setdefault(ledger.ledger_id, ledger)
        assert remembered is ledger, "found twice"

    def place(self, placed: Iterable[Placed]) -> None:
        """Take note of what is on the disk, in the log's order."""
        for record, location in placed:
            match record:
                case records.ModeRecord(read_only=read_only):
                    self.read_only = read_only
                case records.ForgetRecord(ledger_id=ledger_id):
                    self._forget(ledger_id)
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
        """Take note of a batch that a start finds behind the checkpoint."""
        stale = batch.position.generation <= self._limbo_generation
        self.place(each for each in batch.placed if not (stale and _ends_limbo(each.record)))

    def restarted(self) -> None:
        """Let what is on the disk be all there is."""
        for ledger in self.ledgers.values():
            ledger.restarted()

    def entries(self, ledger_id: LedgerId) -> LedgerEntries:
        """Give where the entries of a known ledger are."""
        return _entries_of(self.ledgers[ledger_id])

    def begin_sorted(self) -> int:
        """Give the number of a sorted segment that is begun."""
        self.next_sorted += 1
        return self.next_sorted - 1

    def counts(self, ledger_id: LedgerId, number: int) -> bool:
        """Say whether a row of a ledger in a sorted segment counts; in any thread."""
        ledger = self.ledgers.get(ledger_id)
        return ledger is not None and number >= _entries_of(ledger).since

    def open_ones(self, ledger_ids: Iterable[LedgerId], count: int) -> list[Ledger]:
        """Give some of these ledgers that may be closed without this bookie's knowing it.

        Fenced ones first: what is past the end of a ledger was sent by a writer that a recovery
        fenced, or that failed.
        """
        there = (self.ledgers.get(each) for each in dict.fromkeys(ledger_ids))
        found = [ledger for ledger in there if ledger is not None and ledger.closed_at is None]
        return heapq.nsmallest(count, found, key=lambda ledger: not ledger.durable.fenced)

    def end_of(self, ledger_id: LedgerId) -> EntryId | None:
        """Give where a ledger is closed; None: it is open, or nobody knows. In any thread."""
        ledger = self.ledgers.get(ledger_id)
        return None if ledger is None else ledger.closed_at

    @property
    def has_forgotten(self) -> bool:
        """Are there forgotten ledgers of which something may be in the index?"""
        return bool(self._forgotten)

    def take_forgotten(self) -> tuple[LedgerId, ...]:
        """Give the ledgers that were forgotten since this was last asked."""
        taken = tuple(sorted(self._forgotten))
        self._forgotten.clear()
        return taken

    def take_back(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Take ledgers back that were given (``take_forgotten``), and perhaps not swept."""
        self._forgotten.update(dict.fromkeys(ledger_ids))

    def rendered(self, some: Iterable[Ledger]) -> list[bytes]:
        """Give what a checkpoint keeps of these ledgers; one thread at a time, in any.

        Of some now and of others later is as good: what comes meanwhile is past the mark. A ledger
        of which nothing changed since is not rendered again: most never change any more, and what
        is made for a hundred thousand of them is work, and garbage, that everybody waits for.
        """
        found: list[bytes] = []
        for ledger in some:
            if not ledger.known:
                continue
            state, confirmed = ledger.durable, ledger.confirmed
            last = ledger.rendered
            if last is None or last[0] is not state or last[1] != confirmed:
                kept = Kept(
                    records=checkpoint.records_of(ledger.ledger_id, state),
                    confirmed=confirmed,
                    since=_entries_of(ledger).since,
                )
                last = (state, confirmed, checkpoint.rendered(ledger.ledger_id, kept))
                ledger.rendered = last
            found.append(last[2])
        return found

    def touched_through(self, generation: int) -> list[LedgerEntries]:
        """Give the entries of ledgers that have some up to a generation, by ledger."""
        found = {
            entries
            for each, all_in in self._touched.items()
            if each <= generation
            for entries in all_in
        }
        return sorted(found, key=lambda entries: entries.ledger_id)

    def is_touched(self, entries: LedgerEntries, through: int) -> bool:
        """Say whether it has some up to a generation still: its ledger was not forgotten."""
        return any(entries in each for number, each in self._touched.items() if number <= through)

    def forget_touched(self, through: int) -> None:
        """Forget generations, when nothing of them is in memory any more."""
        for generation in [each for each in self._touched if each <= through]:
            del self._touched[generation]

    def _touch(self, generation: int, entries: LedgerEntries) -> None:
        self._touched[generation][entries] = None

    def _no_entries(self, ledger_id: LedgerId) -> LedgerEntries:
        return LedgerEntries(ledger_id, self._index, self._touch, since=self.next_sorted)

    def _forget(self, ledger_id: LedgerId) -> None:
        """Know nothing of a ledger any more; what is on its way is that of a new one."""
        old = self.ledgers.pop(ledger_id, None)
        self._forgotten[ledger_id] = None
        if old is None:
            return
        entries = _entries_of(old)
        for all_in in self._touched.values():
            all_in.pop(entries, None)
        # Whoever still holds the old one finds nothing in it, rather than what is recycled.
        entries.clear()
        old.known = False
        old.tell()
        if old.on_the_way:
            new = Ledger(ledger_id, self._no_entries(ledger_id))
            new.on_the_way = old.on_the_way
            for record in new.on_the_way:
                if isinstance(record, Frame):
                    new.highest = max(new.highest, record.last)
                else:
                    new.admitted = admission.applied(new.admitted, record)
            self.remember(new)


def _ends_limbo(record: records.Record) -> bool:
    return isinstance(record, records.LimboRecord) and not record.in_limbo


def _entries_of(ledger: Ledger) -> LedgerEntries:
    assert isinstance(ledger.extents, LedgerEntries), "it was made here"
    return ledger.extents
