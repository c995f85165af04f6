"""What a bookie knows in memory: its ledgers, and which of them have entries in which generation.

All of it is what the checkpoint and the batches behind it say. Only what is on the disk comes in,
so everything in it may be shown, and may go into the next checkpoint.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import assert_never

from zonekeeper.bookie import records
from zonekeeper.bookie.ledgers import Ledger
from zonekeeper.bookie.segments.batch_format import Placed
from zonekeeper.bookie.segments.checkpoint import Checkpoint, Shown
from zonekeeper.bookie.segments.index import Index
from zonekeeper.bookie.segments.ledger_entries import LedgerEntries
from zonekeeper.placement.ids import LedgerId
from zonekeeper.wire.frames import Frame


class Memory:
    """Ledgers and the bookie's mode; on an event loop."""

    def __init__(self, index: Index, last: Checkpoint) -> None:
        """Begin with a checkpoint; the batches behind it are placed next."""
        self._index = index
        self.ledgers: dict[LedgerId, Ledger] = {}
        #: Did a person make this bookie read-only?
        self.read_only = last.read_only
        self._touched: defaultdict[int, dict[LedgerEntries, None]] = defaultdict(dict)
        for ledger_id, kept in last.ledgers.items():
            ledger = self.ledger(ledger_id)
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
            extents = LedgerEntries(ledger_id, self._index, self._touch)
            ledger = Ledger(ledger_id, extents)
        return ledger

    def remember(self, ledger: Ledger) -> None:
        """Take a ledger that was found, and that from now on is known."""
        assert self.ledgers.setdefault(ledger.ledger_id, ledger) is ledger, "found twice"

    def place(self, placed: Iterable[Placed]) -> None:
        """Take note of what is on the disk, in the log's order."""
        for record, location in placed:
            match record:
                case records.Mode(read_only=read_only):
                    self.read_only = read_only
                case (
                    Frame() | records.Fragment() | records.Fence() | records.Lac() | records.Limbo()
                ):
                    self.ledger(record.ledger_id).placed(record, location)
                case _:
                    assert_never(record)

    def restarted(self) -> None:
        """Let what is on the disk be all there is."""
        for ledger in self.ledgers.values():
            ledger.restarted()

    def states(self) -> Sequence[Shown]:
        """Give what a checkpoint keeps of the ledgers, as of now."""
        return [
            Shown(ledger_id, ledger.durable, ledger.confirmed)
            for ledger_id, ledger in self.ledgers.items()
            if ledger.known
        ]

    def touched_through(self, generation: int) -> list[LedgerEntries]:
        """Give the entries of ledgers that have some up to a generation, by ledger."""
        found = {
            entries
            for each, all_in in self._touched.items()
            if each <= generation
            for entries in all_in
        }
        return sorted(found, key=lambda entries: entries.ledger_id)

    def forget_touched(self, through: int) -> None:
        """Forget generations, when nothing of them is in memory any more."""
        for generation in [each for each in self._touched if each <= through]:
            del self._touched[generation]

    def _touch(self, generation: int, entries: LedgerEntries) -> None:
        self._touched[generation][entries] = None
