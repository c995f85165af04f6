"""Where the entries of one ledger are: in memory those in arrival segments, the rest in the index.

Together they are disjoint: what comes fills gaps only. The rewrite puts extents into the index
first and takes them out of memory later; in between they are in both, and memory's count.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence

from zonekeeper.bookie.extents import Extent, Extents, runs
from zonekeeper.bookie.segments import locations
from zonekeeper.bookie.segments.index import Index
from zonekeeper.placement.ids import EntryId, LedgerId


class LedgerEntries(Extents):
    """Extents of which some are in the index; offsets are locations."""

    __slots__ = ("_index", "_index_last", "_touched", "ledger_id", "since")

    def __init__(
        self,
        ledger_id: LedgerId,
        index: Index,
        touched: Callable[[int, "LedgerEntries"], None],
        *,
        since: int,
    ) -> None:
        """``touched`` hears of each generation in which there is something of the ledger.

        No sorted segment with a number below ``since`` has anything of it. The index is not asked
        before it may have something: see ``look_up``.
        """
        super().__init__()
        self.ledger_id = ledger_id
        self.since = since
        self._index = index
        self._index_last: EntryId | None = None
        self._touched = touched

    @property
    def last(self) -> EntryId | None:
        """The highest entry; None: there is none."""
        lasts = [last for last in (super().last, self._index_last) if last is not None]
        return max(lasts, default=None)

    def add(self, entry_ids: Sequence[EntryId], offset: int, size: int) -> None:
        """Note a frame in an arrival segment: those of its entries that are not here yet."""
        generation = locations.arrival_generation(offset)
        assert generation is not None, "frames arrive in arrival segments"
        self._touched(generation, self)
        for first, last in runs(entry_ids):
            at: int = first
            for there in self._sorted(first, last):
                if at < there.first:
                    self._fill(at, there.first - 1, offset, size)
                at = there.last + 1
            if at <= last:
                self._fill(at, last, offset, size)

    def between(self, first: int, last: int) -> Iterator[Extent]:
        """Give the extents, cut to these bounds, in order."""
        at = first
        for extent in super().between(first, last):
            if at < extent.first:
                yield from self._sorted(at, extent.first - 1)
            yield extent
            at = extent.last + 1
        if at <= last:
            yield from self._sorted(at, last)

    def arrived(self, through: int, start: int, count: int) -> tuple[list[Extent], int | None]:
        """Give extents in arrival segments up to a generation, from an entry on.

        Looks at so many extents at most; also gives where to go on, or None at the end.
        """
        end = locations.location(locations.arrival_key(through + 1), 0)
        at = self._from(start)
        stop = min(at + count, len(self._firsts))
        found = [
            Extent(
                EntryId(self._firsts[each]),
                EntryId(self._lasts[each]),
                self._offsets[each],
                self._sizes[each],
            )
            for each in range(at, stop)
            if self._offsets[each] < end
        ]
        return found, self._firsts[stop] if stop < len(self._firsts) else None

    def sorted_through(self, through: int) -> None:
        """Leave to the index what is in arrival segments up to a generation."""
        end = locations.location(locations.arrival_key(through + 1), 0)
        kept = [at for at, offset in enumerate(self._offsets) if offset >= end]
        self._firsts = array("q", [self._firsts[at] for at in kept])
        self._lasts = array("q", [self._lasts[at] for at in kept])
        self._offsets = array("q", [self._offsets[at] for at in kept])
        self._sizes = array("I", [self._sizes[at] for at in kept])
        self.look_up()

    def look_up(self) -> None:
        """Take note of what the index has."""
        self._index_last = self._index.last(self.ledger_id)

    def clear(self) -> None:
        """Have nothing any more."""
        super().__init__()
        self._index_last = None

    def _sorted(self, first: int, last: int) -> Iterator[Extent]:
        if self._index_last is None or first > self._index_last:
            return iter(())
        return self._index.between(self.ledger_id, first, last)
