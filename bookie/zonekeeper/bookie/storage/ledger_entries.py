"""Where the entries of one ledger are: in memory those in arrival segments, the rest in the index.

Together they are disjoint: what comes fills gaps only. The rewrite puts extents into the index
first and takes them out of memory later; in between they are in both, and memory's count.

The index blocks: who reads many entries looks it up in a thread (``sorted_between``) and joins what
was found with memory afterwards (``joined_with``). In between, extents may have moved; ``moves``
tells.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from zonekeeper.bookie.formats import locations
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.ledgers.extents import Extent, Extents, runs
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats.entries import ID_END


class LedgerEntries(Extents):
    """Extents of which some are in the index; offsets are locations."""

    __slots__ = ("_index", "_index_last", "_touched", "ledger_id", "moves", "since")

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
        #: How often extents have left memory.
        self.moves = 0

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
        return self._joined(first, last, self._sorted)

    def end_of_some(self, first: int, count: int) -> EntryId:
        """Give the entry up to which there are so many extents in memory, from the first one on."""
        at = self._from(first) + count
        return EntryId(self._lasts[at - 1] if at < len(self._lasts) else ID_END)

    def is_sorted(self, first: int) -> bool:
        """May the index have something from an entry on?"""
        return self._index_last is not None and first <= self._index_last

    def sorted_between(self, first: int, last: int) -> Iterator[Extent]:
        """Give what the index has, cut to these bounds, in order. Blocks; in any thread."""
        return self._index.between(self.ledger_id, first, last)

    def joined_with(self, there: Sequence[Extent], first: int, last: int) -> Iterator[Extent]:
        """Give the extents, cut to these bounds, in order; ``there`` are the index's."""
        at = 0

        def between(first: int, last: int) -> Iterator[Extent]:
            nonlocal at
            while at < len(there) and there[at].first <= last:
                extent = there[at]
                if extent.last >= first:
                    yield extent._replace(
                        first=EntryId(max(first, extent.first)),
                        last=EntryId(min(last, extent.last)),
                    )
                if extent.last > last:
                    return
                at += 1

        return self._joined(first, last, between)

    def _joined(
        self, first: int, last: int, sorted_between: Callable[[int, int], Iterator[Extent]]
    ) -> Iterator[Extent]:
        at = first
        for extent in super().between(first, last):
            if at < extent.first:
                yield from sorted_between(at, extent.first - 1)
            yield extent
            at = extent.last + 1
        if at <= last:
            yield from sorted_between(at, last)

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

    def sorted_through(self, through: int, index_last: EntryId | None) -> None:
        """Leave to the index what is in arrival segments up to a generation.

        ``index_last`` is the highest entry there.
        """
        self.moves += 1
        self._index_last = index_last
        end = locations.location(locations.arrival_key(through + 1), 0)
        offsets = self._offsets.tolist()
        if offsets == sorted(offsets):
            # What was written in order: as many as there are, at the speed of memory.
            kept = slice(bisect_left(offsets, end), None)
            columns = self._firsts, self._lasts, self._offsets, self._sizes
            self._firsts, self._lasts, self._offsets, self._sizes = (each[kept] for each in columns)
            return
        rest = [at for at, offset in enumerate(offsets) if offset >= end]
        self._firsts = array("q", [self._firsts[at] for at in rest])
        self._lasts = array("q", [self._lasts[at] for at in rest])
        self._offsets = array("q", [self._offsets[at] for at in rest])
        self._sizes = array("I", [self._sizes[at] for at in rest])

    def look_up(self) -> None:
        """Take note of what the index has."""
        self.ends_at(self._index.last(self.ledger_id))

    def ends_at(self, index_last: EntryId | None) -> None:
        """Take note of the highest entry in the index."""
        self._index_last = index_last

    def clear(self) -> None:
        """Have nothing any more."""
        super().__init__()
        self.moves += 1
        self._index_last = None

    def _sorted(self, first: int, last: int) -> Iterator[Extent]:
        if not self.is_sorted(first):
            return iter(())
        return self.sorted_between(first, last)
