"""The search: which unit takes each open position of an ensemble? It is exact, with bounded work.

The question is put in numbers, without bookies. There are positions in a circle, and some of them
are taken. There are units; each is in a zone and has a number of bookies to give. There are write
sets: each is a run of ``write`` neighbouring positions. An answer names a unit for each open
position. Every write set must then span enough zones, and where a write set has two or more members
in a zone they must not all stand in one unit.

The search goes depth first, position by position, and tries the most promising unit first. That is
the cheapest; then one with no member in the same write sets yet; then one in the least crowded
zone; then by chance and weight. The first descent is the usual greedy fill, and mostly finds the
answer. But unlike a greedy fill the search can go back, so it finds an answer whenever there is
one. Three things keep its cost low:

- A branch ends as soon as one of the write sets that it touches cannot be completed. The search
  does not begin where counting shows that the zones cannot supply all write sets.
- Bookies of a unit are interchangeable. So are zones (and units of a zone) that hold the same
  relevant positions and have as many bookies left. Only one of several interchangeable ones is
  tried.
- A position that is reached in an equivalent way to one that failed also fails, and is not tried
  again.

``STEPS_MAX`` bounds the steps of one search. If the bound was reached, ``Search.cut`` is true, and
"none found" then does not mean "there is none".
"""

import functools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.chance import Chance

#: The number of placements that one search may try.
STEPS_MAX: Final = 20_000

#: Stands for "no limit" where costs and clashes are compared.
UNLIMITED: Final = 1 << 60

#: The zone of bookies that stand in no zone, or in none that counts.
NOWHERE: Final = -1

_OPEN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Bookies that are interchangeable: those that one upgrade domain of one zone can give."""

    #: A number for the zone, or ``NOWHERE``.
    zone: int
    #: Bookies that can be had at ``price`` each.
    fresh: int = 0
    #: Bookies that can be had, after the fresh ones, at ``price + 1`` each.
    reserve: int = 0
    price: int = 0
    #: The weight of the average bookie, for a choice between equally good units.
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The given data: the units, and the units in which the taken positions stand."""

    write: int
    units: tuple[Unit, ...]
    #: A unit for each taken position, None for each open one.
    taken: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The conditions that a filling must meet."""

    #: Every write set must span at least this many zones.
    zones: int
    #: Every member must stand in a zone, and members of a write set that share a zone must use at
    #: least two of its units.
    legal: bool = True
    cost_max: int = UNLIMITED
    clashes_max: int = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """An answer: a unit for every position."""

    units: tuple[int, ...]
    #: The sum of the newcomers' prices.
    cost: int
    #: Over all write sets, the members that stand in a unit that the write set uses already.
    clashes: int


class Search:
    """Answers questions about one board, each with the same bound on its work."""

    def __init__(self, board: Board, chance: Chance, steps_max: int = STEPS_MAX) -> None:
        self._board, self._chance, self._steps_max = board, chance, steps_max
        #: The number of placements tried so far.
        self.steps = 0
        #: True once a bound ended a search early.
        self.cut = False

    def find(self, goal: Goal) -> Filling | None:
        """Find a filling that meets the goal; None if there is none, or at the bound."""
        descent = _Descent(self._board, goal, self._chance, self._steps_max)
        filling = descent.run()
        self.steps += descent.steps
        self.cut = self.cut or descent.cut
        return filling


@dataclass(frozen=True, slots=True, kw_only=True)
class _Circle:
    """The write sets of a circle of positions, as masks of positions."""

    #: The write sets. With E = Qw all are the same, and one is here.
    windows: tuple[int, ...]
    #: By position: the numbers of its write sets, and the positions that share one with it.
    windows_of: tuple[tuple[int, ...], ...]
    near: tuple[int, ...]
    #: ``relevant[n]``: after n open positions, those that share a write set with later ones.
    relevant: tuple[int, ...]


@functools.lru_cache(maxsize=256)
def _circle(size: int, write: int, open_positions: tuple[int, ...]) -> _Circle:
    starts = range(1 if size == write else size)
    windows = tuple(sum(1 << (start + step) % size for step in range(write)) for start in starts)
    windows_of = tuple(
        tuple(number for number, window in enumerate(windows) if window >> at & 1)
        for at in range(size)
    )
    near = tuple(_union(windows[number] for number in numbers) for numbers in windows_of)
    relevant = tuple(
        _union(near[at] for at in open_positions[done:]) for done in range(len(open_positions) + 1)
    )
    return _Circle(windows=windows, windows_of=windows_of, near=near, relevant=relevant)


class _Descent:
    """One search for one goal: positions are taken and given back along a single path."""

    def __init__(self, board: Board, goal: Goal, chance: Chance, steps_max: int) -> None:
        self._goal, self._chance, self._units = goal, chance, board.units
        self._write, self._size = board.write, len(board.taken)
        self._open = tuple([at for at, unit in enumerate(board.taken) if unit is None])
        self._steps_max = steps_max
        self.steps = 0
        self.cut = False

        circle = _circle(self._size, board.write, self._open)
        self._windows, self._windows_of = circle.windows, circle.windows_of
        self._near, self._relevant = circle.near, circle.relevant
        #: The bookies that each unit can give at a price that the goal allows.
        self._stock = [_stock(unit, goal.cost_max) for unit in self._units]
        self._zone_units: dict[int, list[int]] = defaultdict(list)
        self._zone_left: dict[int, int] = defaultdict(int)
        for number, unit in enumerate(self._units):
            self._zone_units[unit.zone].append(number)
            self._zone_left[unit.zone] += self._stock[number]
        #: A mask of the zones that have a bookie left.
        self._alive = _union(_bit(zone) for zone, left in self._zone_left.items() if left)

        #: Whether prices must be looked at. If the goal allows no cost, the stock is free.
        self._priced = 0 < goal.cost_max < UNLIMITED and any(
            unit.price or unit.fresh < stock
            for unit, stock in zip(self._units, self._stock, strict=True)
            if stock
        )
        self._at = [_OPEN] * self._size
        self._used = [0] * len(self._units)
        self._unit_mask = [0] * len(self._units)
        self._zone_mask: dict[int, int] = dict.fromkeys(self._zone_units, 0)
        #: By write set: a mask of the zones in it, and the number of its open positions.
        self._spans = [0] * len(self._windows)
        self._gaps = [board.write] * len(self._windows)
        self._cost = self._clashes = 0
        self._failed: set[object] = set()
        for at, taken in enumerate(board.taken):
            if taken is not None:
                self._put(at, taken, self._clashes_at(at, taken))

    def run(self) -> Filling | None:
        """Search once; what was taken is not given back at the end."""
        if self._clashes > self._goal.clashes_max or not self._may_succeed():
            return None
        return self._fill(0)

    def _fill(self, done: int) -> Filling | None:
        """Fill the open positions from the ``done``-th on."""
        if done == len(self._open):
            return Filling(units=tuple(self._at), cost=self._cost, clashes=self._clashes)
        if self._priced and self._cost + self._least_cost(done) > self._goal.cost_max:
            return None
        signs = self._signs(done) if self._failed else None
        if signs is not None and self._key(done, signs) in self._failed:
            return None
        at = self._open[done]
        tried: set[object] = set()
        for price, clashes, _, _, unit in self._options(at):
            if signs is not None:
                sign = (signs[self._units[unit].zone], self._unit_sign(unit, done))
                if sign in tried:
                    continue
                tried.add(sign)
            if self.steps >= self._steps_max:
                self.cut = True
                return None
            self.steps += 1
            if self._fits(at, unit):
                self._take(at, unit, price, clashes)
                filling = self._fill(done + 1)
                if filling is not None or self.cut:
                    return filling
                self._give_back(at, unit, price, clashes)
            if signs is None:
                signs = self._signs(done)
                tried.add((signs[self._units[unit].zone], self._unit_sign(unit, done)))
        self._failed.add(self._key(done, signs if signs is not None else self._signs(done)))
        return None

    # ── taking and giving back ──

    def _take(self, at: int, number: int, price: int, clashes: int) -> None:
        zone = self._units[number].zone
        self._put(at, number, clashes)
        self._used[number] += 1
        self._zone_left[zone] -= 1
        if not self._zone_left[zone]:
            self._alive &= ~_bit(zone)
        self._cost += price

    def _put(self, at: int, number: int, clashes: int) -> None:
        zone = self._units[number].zone
        zone_bit = _bit(zone)
        self._at[at] = number
        self._unit_mask[number] |= 1 << at
        self._zone_mask[zone] |= 1 << at
        self._clashes += clashes
        for window in self._windows_of[at]:
            self._gaps[window] -= 1
            self._spans[window] |= zone_bit

    def _give_back(self, at: int, number: int, price: int, clashes: int) -> None:
        zone = self._units[number].zone
        self._at[at] = _OPEN
        self._unit_mask[number] ^= 1 << at
        self._zone_mask[zone] ^= 1 << at
        self._clashes -= clashes
        self._used[number] -= 1
        self._zone_left[zone] += 1
        self._alive |= _bit(zone)
        self._cost -= price
        for window in self._windows_of[at]:
            self._gaps[window] += 1
            if not self._zone_mask[zone] & self._windows[window]:
                self._spans[window] &= ~_bit(zone)

    # ── what to try ──

    def _options(self, at: int) -> list[tuple[int, int, int, float, int]]:
        """List units for a position, the most promising first: with price, clashes, crowd, clock.

        A clock is the time of an exponential clock whose rate is the weight: an order by these
        times is an order by weighted drawing without replacement.
        """
        near, options = self._near[at], []
        units, used, masks, zone_mask = self._units, self._used, self._unit_mask, self._zone_mask
        legal, draw, log = self._goal.legal, self._chance.random, math.log
        cost_left = self._goal.cost_max - self._cost
        clashes_left = self._goal.clashes_max - self._clashes
        for number, stock in enumerate(self._stock):
            left = stock - used[number]
            if not left:
                continue
            unit = units[number]
            zone = unit.zone
            if zone == NOWHERE and legal:
                continue
            price = unit.price + (used[number] >= unit.fresh)
            if price > cost_left:
                continue
            clashes = self._clashes_at(at, number) if masks[number] & near else 0
            if clashes > clashes_left:
                continue
            crowd = (zone_mask[zone] & near).bit_count()
            clock = -log(1.0 - draw()) / (unit.weight * left)
            options.append((price, clashes, crowd, clock, number))
        options.sort()
        return options

    def _clashes_at(self, at: int, number: int) -> int:
        """Count the write sets of a position that have a member in this unit already."""
        mask = self._unit_mask[number]
        return sum(1 for window in self._windows_of[at] if mask & self._windows[window])

    # ── what cannot succeed ──

    def _fits(self, at: int, number: int) -> bool:
        """Could every write set of this position still meet the goal if it took this unit?"""
        goal, zone_bit = self._goal, _bit(self._units[number].zone)
        for window in self._windows_of[at]:
            span, gaps = self._spans[window] | zone_bit, self._gaps[window] - 1
            zones = span.bit_count()
            missing = goal.zones - zones
            if missing > 0 and (gaps < missing or (self._alive & ~span).bit_count() < missing):
                return False
            # Where each member has a zone of its own, none shares one.
            shared = zones < self._write - gaps
            if shared and goal.legal and not self._domains_fit(window, gaps, number):
                return False
        return True

    def _domains_fit(self, window: int, gaps: int, number: int) -> bool:
        """Would each zone that a write set shares have two units in it, or one more to take?"""
        mask, zone = self._windows[window], self._units[number].zone
        mine, ours = self._unit_mask[number] & mask, self._zone_mask[zone] & mask
        if ours and ours == mine and (not gaps or not self._another_left(number)):
            return False
        if gaps:
            return True
        return not any(
            self._alone_in_its_zone(other, mask)
            for other in {self._at[at] for at in _positions(mask) if self._at[at] != _OPEN}
            if self._units[other].zone != zone
        )

    def _alone_in_its_zone(self, number: int, mask: int) -> bool:
        """Does a write set have two or more members of a zone, all in this unit?"""
        zone, mine = self._units[number].zone, self._unit_mask[number] & mask
        return zone != NOWHERE and mine & (mine - 1) != 0 and mine == self._zone_mask[zone] & mask

    def _another_left(self, number: int) -> bool:
        """Does another unit of the same zone have a bookie left?"""
        return any(
            self._stock[other] > self._used[other]
            for other in self._zone_units[self._units[number].zone]
            if other != number
        )

    def _may_succeed(self) -> bool:
        """Check what is taken, and compare supply with need, before the first step."""
        if self._goal.legal and self._zone_mask.get(NOWHERE):
            return False
        for window, mask in enumerate(self._windows):
            if self._gaps[window]:
                continue
            if self._spans[window].bit_count() < self._goal.zones:
                return False
            if self._goal.legal and any(
                self._alone_in_its_zone(self._at[at], mask) for at in _positions(mask)
            ):
                return False
        return all(self._supplied(tiles) for tiles in self._tilings())

    def _tilings(self) -> Iterator[list[int]]:
        """Divide the circle into write sets that do not overlap, in each possible way."""
        if self._size % self._write == 0:
            for first in range(min(self._write, len(self._windows))):
                yield list(range(first, len(self._windows), self._write))

    def _supplied(self, tiles: list[int]) -> bool:
        """Can the zones give each of these disjoint write sets the zones and members it lacks?

        A zone gives each write set at most one new zone. A zone with only one unit gives each
        write set at most one member.
        """
        lacking = sum([max(0, self._goal.zones - self._spans[tile].bit_count()) for tile in tiles])
        gapped = [self._windows[tile] for tile in tiles if self._gaps[tile]]
        spread = members = 0
        for zone, left in self._zone_left.items():
            mask = self._zone_mask[zone]
            new_zone = min(left, sum([not mask & window for window in gapped]))
            spread += 0 if zone == NOWHERE else new_zone
            members += new_zone if self._goal.legal and self._has_one_unit(zone) else left
        return spread >= lacking and members >= len(self._open)

    def _has_one_unit(self, zone: int) -> bool:
        """Does only one unit of a zone have members or bookies to give?"""
        numbers = self._zone_units[zone]
        used = [n for n in numbers if self._unit_mask[n] or self._stock[n]]
        return len(used) == 1 and zone != NOWHERE

    def _least_cost(self, done: int) -> int:
        """Price the open positions with the cheapest bookies of all, whatever their unit."""
        to_fill, cost = len(self._open) - done, 0
        offers, free = [], 0
        for unit, stock, used in zip(self._units, self._stock, self._used, strict=True):
            fresh = min(stock, max(0, unit.fresh - used))
            if not unit.price:
                free += fresh
                if free >= to_fill:
                    return 0
            offers.append((unit.price, fresh))
            offers.append((unit.price + 1, stock - used - fresh))
        for price, left in sorted(offers):
            taken = min(left, to_fill)
            to_fill -= taken
            cost += taken * price
        return cost

    # ── what is alike ──

    def _unit_sign(self, number: int, done: int) -> tuple[int, ...]:
        """Describe a unit by what matters from here on; equal units are interchangeable."""
        unit, used = self._units[number], self._used[number]
        to_fill = len(self._open) - done
        held = self._unit_mask[number] & self._relevant[done]
        return (
            # With E = Qw there is one write set, and the order of positions in it does not matter.
            held.bit_count() if len(self._windows) == 1 else held,
            min(max(unit.fresh - used, 0), to_fill),
            min(self._stock[number] - used, to_fill),
            unit.price,
        )

    def _signs(self, done: int) -> dict[int, tuple[tuple[int, ...], ...]]:
        """Describe the zones by what matters from here on."""
        return {
            zone: tuple(sorted(self._unit_sign(number, done) for number in units))
            for zone, units in self._zone_units.items()
        }

    def _key(self, done: int, signs: dict[int, tuple[tuple[int, ...], ...]]) -> object:
        left = (self._goal.cost_max - self._cost, self._goal.clashes_max - self._clashes)
        nowhere = signs.get(NOWHERE, ())
        zones = sorted(sign for zone, sign in signs.items() if zone != NOWHERE)
        return done, left, nowhere, tuple(zones)


def _stock(unit: Unit, cost_max: int) -> int:
    if unit.price > cost_max:
        return 0
    return unit.fresh + (unit.reserve if unit.price < cost_max else 0)


def _bit(zone: int) -> int:
    return 0 if zone == NOWHERE else 1 << zone


def _union(masks: Iterator[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _positions(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
