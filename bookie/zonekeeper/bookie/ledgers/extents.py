"""The extents of one ledger: disjoint runs of entry ids, each run in one frame of the log.

The first frame that holds an entry is the entry's place. A later frame may overlap it: it was sent
again, framed in another way, or written back by a recovery. Such a frame fills gaps and replaces
nothing. So the place of an entry never changes, and reading the log again in its order gives the
same extents.

The extents are four parallel arrays, sorted by the runs' first entries. If each entry has a frame
of its own, they cost 28 bytes an entry; objects would cost ten times as much. Writers append, so
almost every addition is at the end. Of most ledgers nothing is in memory; all of these share the
same empty arrays, which never change.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from zonekeeper.placement.base.ids import EntryId


class Extent(NamedTuple):
    """Entries ``first`` to ``last``, in the frame of ``size`` bytes at ``offset`` of the log."""

    first: EntryId
    last: EntryId
    offset: int
    size: int


_NO_NUMBERS: Final = array("q")
_NO_SIZES: Final = array("I")


class Extents:
    """The extents of one ledger."""

    __slots__ = ("_firsts", "_lasts", "_offsets", "_sizes")

    def __init__(self) -> None:
        self._have_none()

    @property
    def last(self) -> EntryId | None:
        """The highest entry; None: there is no entry."""
        return EntryId(self._lasts[-1]) if self._lasts else None

    def add(self, entry_ids: Sequence[EntryId], offset: int, size: int) -> None:
        """Note a frame: it becomes the place of those entries that have none yet."""
        for first, last in runs(entry_ids):
            self._fill(first, last, offset, size)

    def between(self, first: int, last: int) -> Iterator[Extent]:
        """Give the extents, cut to these bounds, in order."""
        for at in range(self._from(first), len(self._firsts)):
            if self._firsts[at] > last:
                return
            yield Extent(
                first=EntryId(max(first, self._firsts[at])),
                last=EntryId(min(last, self._lasts[at])),
                offset=self._offsets[at],
                size=self._sizes[at],
            )

    def _have_none(self) -> None:
        self._firsts = self._lasts = self._offsets = _NO_NUMBERS
        self._sizes = _NO_SIZES

    def _from(self, entry_id: int) -> int:
        """Give the position of the first extent with ``last >= entry_id``."""
        at = bisect_right(self._firsts, entry_id)
        return at - 1 if at and self._lasts[at - 1] >= entry_id else at

    def _fill(self, first: int, last: int, offset: int, size: int) -> None:
        at = self._from(first)
        while first <= last:
            if at == len(self._firsts) or self._firsts[at] > last:
                self._insert(at, first, last, offset, size)
                return
            if first < self._firsts[at]:
                self._insert(at, first, self._firsts[at] - 1, offset, size)
                at += 1
            first = self._lasts[at] + 1
            at += 1

    def _insert(self, at: int, first: int, last: int, offset: int, size: int) -> None:
        if not self._firsts:
            self._firsts, self._lasts = array("q"), array("q")
            self._offsets, self._sizes = array("q"), array("I")
        self._firsts.insert(at, first)
        self._lasts.insert(at, last)
        self._offsets.insert(at, offset)
        self._sizes.insert(at, size)


def runs(entry_ids: Sequence[EntryId]) -> Iterator[tuple[EntryId, EntryId]]:
    """Give the maximal runs of consecutive ids in an ascending sequence."""
    if isinstance(entry_ids, range):
        yield EntryId(entry_ids[0]), EntryId(entry_ids[-1])
        return
    first = last = entry_ids[0]
    for entry_id in entry_ids[1:]:
        if entry_id != last + 1:
            yield first, last
            first = entry_id
        last = entry_id
    yield first, last


def joined(extents: Iterable[Extent]) -> Iterator[tuple[EntryId, EntryId]]:
    """Give the maximal runs of entries, across frames."""
    run: tuple[EntryId, EntryId] | None = None
    for extent in extents:
        if run is not None and run[1] + 1 == extent.first:
            run = (run[0], extent.last)
            continue
        if run is not None:
            yield run
        run = (extent.first, extent.last)
    if run is not None:
        yield run


def first_missing(extents: Iterable[Extent], wanted: range) -> EntryId | None:
    """Give the first wanted entry that is in none of the extents; None: there is none."""
    at = wanted.start
    for extent in extents:
        if at not in wanted or at < extent.first:
            break
        if at <= extent.last:
            at += -(-(extent.last + 1 - at) // wanted.step) * wanted.step
    return EntryId(at) if at in wanted else None
