"""Pools: the bookies of one unit that accept ensembles, ready for a weighted draw.

The weight of a bookie is its free space, so that disks fill evenly. Two rules change it, and both
depend on all bookies that data may go to, not on one pool. No weight is above a multiple of the
median, so that a new and empty bookie does not get nearly all new ledgers. A bookie whose free
space is unknown has the mean of all known weights: it is neither avoided nor preferred. Both rules
are applied by arithmetic while drawing. A pool is sorted by weight and has running sums, so a draw
costs O(log n) under any weighting, and a change of the median changes no pool.
"""

import bisect
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId

#: After this many draws that hit a barred bookie, all bookies of the pool are looked at instead.
DRAWS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """The rule by which free space becomes weight today, for all pools of a topology."""

    #: The weight of a bookie whose free space is unknown: ``1 <= unknown``, within the cap.
    unknown: int
    #: The largest weight; None if there is no limit.
    cap: int | None

    def of(self, free_bytes: int) -> int:
        """Give the weight for a number of free bytes; 0 means unknown."""
        weight = free_bytes or self.unknown
        return weight if self.cap is None else min(weight, self.cap)


class Pool:
    """An immutable set of bookies with their free bytes, sorted by (free bytes, id).

    The order depends on the content only, so equal pools draw alike, however they came about.
    """

    __slots__ = ("_ids", "_sums", "_weights")

    def __init__(self, members: Iterable[tuple[int, BookieId]] = ()) -> None:
        ordered = sorted(members)
        self._ids = tuple(bookie_id for _, bookie_id in ordered)
        self._weights = tuple(free_bytes for free_bytes, _ in ordered)
        #: ``_sums[n]`` is the sum of the free bytes of the first n bookies.
        self._sums = tuple(accumulate(self._weights, initial=0))

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def known_bytes(self) -> tuple[int, ...]:
        """The free bytes of the bookies that say them, sorted."""
        return self._weights[bisect.bisect_right(self._weights, 0) :]

    def changed(
        self, gone: Container[BookieId], put: Iterable[tuple[int, BookieId]] = ()
    ) -> "Pool":
        """Give the pool without some bookies and with some others."""
        kept = [
            member for member in zip(self._weights, self._ids, strict=True) if member[1] not in gone
        ]
        return Pool([*kept, *put])

    def total(self, weighting: Weighting) -> int:
        """Give the sum of the weights of all bookies."""
        return self._total(weighting, self._bounds(weighting))

    def _total(self, weighting: Weighting, bounds: tuple[int, int]) -> int:
        unknown, capped = bounds
        over = 0 if weighting.cap is None else (len(self) - capped) * weighting.cap
        return unknown * weighting.of(0) + self._sums[capped] - self._sums[unknown] + over

    def draw(
        self, chance: Chance, weighting: Weighting, barred: Container[BookieId]
    ) -> tuple[BookieId, int]:
        """Draw a bookie that is not barred, by weight, and say how many bookies were looked at.

        The caller must know that there is a bookie that is not barred.
        """
        bounds = self._bounds(weighting)
        total = self._total(weighting, bounds)
        for draws in range(1, DRAWS_MAX + 1):
            drawn = self._ids[self._index_at(int(chance.random() * total), weighting, bounds)]
            if drawn not in barred:
                return drawn, draws
        weights = {
            bookie_id: weighting.of(free_bytes)
            for free_bytes, bookie_id in zip(self._weights, self._ids, strict=True)
            if bookie_id not in barred
        }
        return draw_from(weights, chance), DRAWS_MAX + len(self)

    def _bounds(self, weighting: Weighting) -> tuple[int, int]:
        """Count the bookies of unknown weight, and those of unknown weight or within the cap."""
        unknown = bisect.bisect_right(self._weights, 0)
        if weighting.cap is None:
            return unknown, len(self)
        return unknown, max(unknown, bisect.bisect_right(self._weights, weighting.cap))

    def _index_at(self, point: int, weighting: Weighting, bounds: tuple[int, int]) -> int:
        """Give the index of the bookie whose share of the total weight contains a point."""
        unknown, capped = bounds
        weight = weighting.of(0)
        if point < unknown * weight:
            return point // weight
        point -= unknown * weight
        if point < self._sums[capped] - self._sums[unknown]:
            return bisect.bisect_right(self._sums, point + self._sums[unknown]) - 1
        assert weighting.cap is not None, "without a cap nothing lies above it"
        return capped + (point - self._sums[capped] + self._sums[unknown]) // weighting.cap


def weighting_of(pools: Iterable[Pool], cap_multiple: float) -> Weighting:
    """Say how free space becomes weight for the bookies of these pools; 0: there is no cap."""
    known = sorted(free_bytes for pool in pools for free_bytes in pool.known_bytes)
    if not known:
        return Weighting(unknown=1, cap=None)
    median = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
    cap = max(1, int(cap_multiple * median)) if cap_multiple > 0 else None
    total = sum(known) if cap is None else sum(min(free_bytes, cap) for free_bytes in known)
    return Weighting(unknown=total // len(known), cap=cap)


def draw_from(weights: Mapping[BookieId, int], chance: Chance) -> BookieId:
    """Draw by weight from a few bookies; the mapping's order must be fixed."""
    ids = tuple(weights)
    sums = tuple(accumulate(weights.values()))
    return ids[bisect.bisect_right(sums, int(chance.random() * sums[-1]))]
