"""Pools: the bookies of one unit that may get ensembles, ready for a weighted draw.

A bookie's weight is its free space, so that disks fill evenly. Two rules bend it, and both depend
on all bookies of a cluster, not on one pool: where the free space is unknown the weight is the
smallest known one, and no weight is above a multiple of the median, so that a new and empty bookie
is not buried under every new ledger. They are applied while drawing, by arithmetic: a pool is
sorted by weight and carries running sums, so a draw costs O(log n) under whatever floor and cap
hold today, and a change of the median changes no pool.
"""

import bisect
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId

#: So many draws may hit a barred bookie; after them the pool is looked through instead.
DRAWS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """How free space becomes weight, today: for all pools of a topology alike."""

    #: The weight of a bookie whose free space is unknown.
    floor: int
    #: The largest weight; None: no limit.
    cap: int | None

    def of(self, free_bytes: int) -> int:
        """Give the weight that a number of free bytes stands for; 0 is unknown."""
        weight = free_bytes or self.floor
        return weight if self.cap is None else min(weight, self.cap)


class Pool:
    """An immutable set of bookies with their free bytes, sorted by (free bytes, id).

    The order is that of the content, so equal pools draw alike whatever changes made them.
    """

    __slots__ = ("_ids", "_sums", "_weights")

    def __init__(self, members: Iterable[tuple[int, BookieId]] = ()) -> None:
        ordered = sorted(members)
        self._ids = tuple(bookie_id for _, bookie_id in ordered)
        self._weights = tuple(free_bytes for free_bytes, _ in ordered)
        #: ``_sums[n]``: the free bytes of the first n.
        self._sums = tuple(accumulate(self._weights, initial=0))

    def __len__(self) -> int:
        return len(self._ids)

    def changed(
        self, gone: Container[BookieId], put: Iterable[tuple[int, BookieId]] = ()
    ) -> "Pool":
        """Give the pool without some bookies and with others."""
        kept = [
            member for member in zip(self._weights, self._ids, strict=True) if member[1] not in gone
        ]
        return Pool([*kept, *put])

    def total(self, weighting: Weighting) -> int:
        """Give the weight of all bookies together."""
        unknown, capped = self._bounds(weighting)
        over = 0 if weighting.cap is None else (len(self) - capped) * weighting.cap
        return unknown * weighting.of(0) + self._sums[capped] - self._sums[unknown] + over

    def draw(
        self, chance: Chance, weighting: Weighting, barred: Container[BookieId]
    ) -> tuple[BookieId, int]:
        """Draw a bookie that is not barred, by weight, and say how many were looked at.

        The caller knows that there is one.
        """
        total = self.total(weighting)
        for draws in range(1, DRAWS_MAX + 1):
            drawn = self._ids[self._index_at(int(chance.random() * total), weighting)]
            if drawn not in barred:
                return drawn, draws
        weights = {
            bookie_id: weighting.of(free_bytes)
            for free_bytes, bookie_id in zip(self._weights, self._ids, strict=True)
            if bookie_id not in barred
        }
        return draw_from(weights, chance), DRAWS_MAX + len(self)

    def _bounds(self, weighting: Weighting) -> tuple[int, int]:
        """Give how many have unknown weight, and how many are unknown or not above the cap."""
        unknown = bisect.bisect_right(self._weights, 0)
        if weighting.cap is None:
            return unknown, len(self)
        return unknown, max(unknown, bisect.bisect_right(self._weights, weighting.cap))

    def _index_at(self, point: int, weighting: Weighting) -> int:
        """Give the bookie in whose share of the total weight a point lies."""
        unknown, capped = self._bounds(weighting)
        floor = weighting.of(0)
        if point < unknown * floor:
            return point // floor
        point -= unknown * floor
        if point < self._sums[capped] - self._sums[unknown]:
            return bisect.bisect_right(self._sums, point + self._sums[unknown]) - 1
        assert weighting.cap is not None, "without a cap nothing lies above it"
        return capped + (point - self._sums[capped] + self._sums[unknown]) // weighting.cap


def draw_from(weights: Mapping[BookieId, int], chance: Chance) -> BookieId:
    """Draw by weight from a few bookies that are listed in a fixed order."""
    ids = tuple(weights)
    sums = tuple(accumulate(weights.values()))
    return ids[bisect.bisect_right(sums, int(chance.random() * sums[-1]))]
