"""The ranges of ledger ids that the tasks of a job take. Pure.

The ranges cover all ids from the first to the last that are wanted, each id once, and also ids that
are not there yet. Their limits follow from a listing of the ids that are there: a range has about
``ids_per_range`` of them. Of the listing only the limits are kept, at most ``RANGES_MAX``: if there
would be more, every second limit is dropped, and ranges have twice as many ids from then on.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from zonekeeper.placement.base.ids import LedgerId

RANGES_MAX: Final = 10_000


class IdRange(NamedTuple):
    """All ledger ids from ``first`` to ``last``, both included."""

    first: LedgerId
    last: LedgerId


class RangeCutter:
    """Cuts the ids of a range into ranges; ``add`` each id that is there, in ascending order."""

    def __init__(self, wanted: IdRange, ids_per_range: int, ranges_max: int = RANGES_MAX) -> None:
        assert ids_per_range >= 1
        assert ranges_max >= 1
        self._wanted = wanted
        self._per_range = ids_per_range
        self._max = ranges_max
        #: The first id of each range but the first one.
        self._starts: list[LedgerId] = []
        #: The ids since the last start.
        self._since = 0

    def add(self, ledger_id: LedgerId) -> None:
        """Take in an id."""
        if self._since < self._per_range:
            self._since += 1
            return
        self._starts.append(ledger_id)
        self._since = 1
        if len(self._starts) >= self._max:
            # An odd number is left over: the last range has then as many ids as two had before.
            self._since += 0 if len(self._starts) % 2 == 0 else self._per_range
            self._starts = self._starts[1::2]
            self._per_range *= 2

    def ranges(self) -> list[IdRange]:
        """Give the ranges; there is at least one."""
        starts = [self._wanted.first, *self._starts]
        ends = [LedgerId(start - 1) for start in self._starts]
        return list(map(IdRange, starts, [*ends, self._wanted.last]))


def runs(ids: Iterable[LedgerId]) -> tuple[IdRange, ...]:
    """Give ranges that have exactly these ids, which ascend."""
    found: list[IdRange] = []
    for one in ids:
        if found and found[-1].last == one - 1:
            found[-1] = IdRange(found[-1].first, one)
        else:
            found.append(IdRange(one, one))
    return tuple(found)


def deal(ranges: Sequence[IdRange], hands: int) -> list[tuple[IdRange, ...]]:
    """Give each of at most ``hands`` tasks its ranges: one after the other, so that all get alike.

    Neighbours are of one age and often of one size, so they go to different tasks.
    """
    assert hands >= 1
    return [tuple(ranges[at::hands]) for at in range(min(hands, len(ranges)))]
