"""The places of one ledger's entries: arrival segments in memory, sorted segments in the index.

An entry has one place: a new frame only fills gaps. The rewrite first adds extents to the index and
later removes them from memory. In between they are in both, and those in memory count.

The index blocks. So a read of many entries looks it up in a thread (``sorted_between``), and then
joins the result with memory (``joined_with``). If extents left memory in between, ``moves`` has
changed.
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
    """Extents in memory, joined with those in the index; offsets are locations."""

    __slots__ = ("_index", "_index_last", "_touched", "ledger_id", "moves", "since")

    def __init__(
        self,
        ledger_id: LedgerId,
        index: Index,
        touched: Callable[[int, "LedgerEntries"], None],
        *,
        since: int,
    ) -> None:
        """``touched`` is called for each generation that has a frame of the ledger.

        No row of a sorted segment with ``number < since`` counts for the ledger. The index is not
        asked before ``ends_at`` says that it has entries.
        """
        super().__init__()
        self.ledger_id = ledger_id
        self.since = since
        self._index = index
        self._index_last: EntryId | None = None
        self._touched = touched
        #: Grows each time that extents leave memory.
        self.moves = 0

    @property
    def last(self) -> EntryId | None:
        """The highest entry; None: there is no entry."""
        lasts = [last for last in (super().last, self._index_last) if last is not None]
        return max(lasts, default=None)

    def add(self, entry_ids: Sequence[EntryId], offset: int, size: int) -> None:
        """Note a frame in an arrival segment: it is the place of entries that had none."""
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
        """Give the last entry of the ``count``-th extent in memory from ``first`` on.

        ``ID_END`` if memory has no more than that.
        """
        at = self._from(first) + count
        return EntryId(self._lasts[at - 1] if at < len(self._lasts) else ID_END)

    def is_sorted(self, first: int) -> bool:
        """May the index have entries ``>= first``?"""
        return self._index_last is not None and first <= self._index_last

    def sorted_between(self, first: int, last: int) -> Iterator[Extent]:
        """Give the index's extents, cut to these bounds, in order. Blocks; in any thread."""
        return self._index.between(self.ledger_id, first, last)

    def joined_with(self, there: Sequence[Extent], first: int, last: int) -> Iterator[Extent]:
        """Give all extents, cut to these bounds, in order; ``there`` are those of the index."""
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
        """Give extents in arrival segments up to a generation, from the entry ``start`` on.

        Looks at ``count`` extents at most. Also gives the entry to go on from, or None at the end.
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
        """Remove the extents in arrival segments up to a generation; the index has them now.

        ``index_last`` is the highest entry in the index.
        """
        self.moves += 1
        self._index_last = index_last
        end = locations.location(locations.arrival_key(through + 1), 0)
        if not self._offsets or max(self._offsets) < end:
            self._have_none()
            return
        offsets = self._offsets.tolist()
        if offsets == sorted(offsets):
            # The usual case, entries written in order: slices are fast for any number of extents.
            kept = slice(bisect_left(offsets, end), None)
            columns = self._firsts, self._lasts, self._offsets, self._sizes
            self._firsts, self._lasts, self._offsets, self._sizes = (each[kept] for each in columns)
            return
        rest = [at for at, offset in enumerate(offsets) if offset >= end]
        self._firsts = array("q", [self._firsts[at] for at in rest])
        self._lasts = array("q", [self._lasts[at] for at in rest])
        self._offsets = array("q", [self._offsets[at] for at in rest])
        self._sizes = array("I", [self._sizes[at] for at in rest])

    def ends_at(self, index_last: EntryId | None) -> None:
        """Note the highest entry in the index; None: it has none."""
        self._index_last = index_last

    def clear(self) -> None:
        """Remove all extents."""
        self._have_none()
        self.moves += 1
        self._index_last = None

    def _sorted(self, first: int, last: int) -> Iterator[Extent]:
        if not self.is_sorted(first):
            return iter(())
        return self.sorted_between(first, last)
