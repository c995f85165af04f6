"""The fewest changes: which positions of a ring get another unit, so that it meets a goal?

The question is that of ``search``, for an ensemble that is full already (a *ring*). A position
keeps its unit, which costs nothing, or gets another one, which costs one change. A unit can give
the bookies that it has to spare. It can also give the members that stand in it and leave their
positions, if they may join again (``Ring.returns``). So members of a full ring can change places.

A walk goes around the ring from some start, and tries to keep a position before it changes one.
First a walk from each of ``write`` starts takes the first answer that it meets. Zones repeat along
a ring, so one of these starts often leads to the best answer. Then walks are limited: to as few
changes as a lower bound allows, then to one more, and so on, up to one less than the best answer
so far. So the answer has the fewest changes, unless a bound on the steps ended a walk (``cut``).
Three things keep the cost low:

- What each write set lacks is known at each moment, as if all later positions kept their units. A
  branch ends if the changes that are left cannot mend write sets that do not overlap.
- A bookie may be taken before the position that it leaves is reached: a *debt*. A branch ends if
  fewer members of that unit come later than are owed.
- Units, zones and states that are alike from here on are tried once, as in ``search``.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.ensembles.search import NOWHERE, Board

#: The number of changes that the limited walks may try together.
CHANGE_STEPS_MAX: Final = 300
#: The number of changes that a walk may try that takes the first answer.
FIRST_STEPS_MAX: Final = 60

#: For each zone what matters of its units.
_Signs: TypeAlias = Mapping[int, tuple[tuple[int, int, int], ...]]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The given data: a board whose positions are all taken, and what is asked of it.

    Only bookies of units with the price 0 join.
    """

    board: Board
    #: Every write set must span at least this many zones.
    zones: int
    #: By position: if its member leaves the position, may it take another one?
    returns: tuple[bool, ...]

    def from_position(self, start: int) -> "Ring":
        """Give the same ring with its positions counted from another one."""
        board = replace(self.board, taken=_turned(self.board.taken, start))
        return replace(self, board=board, returns=_turned(self.returns, start))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """What was found."""

    #: A unit for each position; None: there is no answer, or none was found.
    units: tuple[int, ...] | None
    #: A bound ended the search: fewer changes, or an answer at all, may exist.
    cut: bool


def fewest_changes(ring: Ring, chance: Chance) -> Refilled:
    """Find a filling of the ring that meets the goal with the fewest changes."""
    size, write = len(ring.board.taken), ring.board.write
    best, most = None, size + 1
    for start in range(1 if size == write else write):
        walk = _Walk(ring.from_position(start), chance, FIRST_STEPS_MAX)
        if (found := walk.run(most - 1)) is not None:
            best = _turned(found, -start)
            most = walk.changes(found)
    walk = _Walk(ring, chance, CHANGE_STEPS_MAX)
    for changes in range(walk.least, most):
        if (found := walk.run(changes)) is not None:
            return Refilled(units=found, cut=False)
        if walk.cut:
            break
    return Refilled(units=best, cut=walk.cut)


class _Walk:
    """Walks around a ring; positions are changed and changed back along a single path."""

    def __init__(self, ring: Ring, chance: Chance, steps_max: int) -> None:
        board = ring.board
        self._ring, self._chance, self._units = ring, chance, board.units
        self._size, self._write = len(board.taken), board.write
        self._standing = tuple(_unit(taken) for taken in board.taken)
        self._steps_left = steps_max
        self.cut = False
        count = 1 if self._size == self._write else self._size
        #: The write sets, each a mask of positions; the n-th begins at position n.
        self._windows = [
            sum(1 << (start + step) % self._size for step in range(self._write))
            for start in range(count)
        ]
        self._windows_of = [
            [number for number, window in enumerate(self._windows) if window >> at & 1]
            for at in range(self._size)
        ]
        #: By write set and position: so many of its positions come later.
        self._later = [
            [(window >> (at + 1)).bit_count() for at in range(self._size)]
            for window in self._windows
        ]
        self._near = [_union(self._windows[n] for n in numbers) for numbers in self._windows_of]
        #: ``_relevant[at]``: positions from ``at`` on, and those that share write sets with them.
        self._relevant = [_union(self._near[at:]) for at in range(self._size + 1)]

        self._units_in = {
            zone: [n for n, unit in enumerate(board.units) if unit.zone == zone]
            for zone in sorted({NOWHERE, *(unit.zone for unit in board.units)})
        }
        self._at = list(self._standing)
        self._unit_mask = [0] * len(board.units)
        self._zone_mask = dict.fromkeys(self._units_in, 0)
        for at, number in enumerate(self._standing):
            self._unit_mask[number] |= 1 << at
            self._zone_mask[board.units[number].zone] |= 1 << at
        #: By unit: the bookies to spare. Below 0 it is a debt.
        self._left = [0 if unit.price else unit.fresh for unit in board.units]
        self._leavers = self._count_leavers()
        #: By write set: fewer changes than that in it cannot mend it.
        self._lack = [self._lacking(window) for window in self._windows]
        self._rest = self._sum_up()
        #: No answer has fewer changes.
        self.least: Final = self._rest[0]
        #: The states that failed.
        self._failed = set[object]()

    def run(self, changes: int) -> tuple[int, ...] | None:
        """Find an answer with at most so many changes."""
        return self._walk(0, changes)

    def changes(self, units: Sequence[int]) -> int:
        """Count the positions at which an answer differs from the ring."""
        return sum(new != old for new, old in zip(units, self._standing, strict=True))

    def _walk(self, at: int, changes: int) -> tuple[int, ...] | None:
        """Decide the positions from ``at`` on with at most so many changes."""
        if at == self._size:
            return tuple(self._at) if min(self._left) >= 0 else None
        if self._needed(at) > changes:
            return None
        signs = self._signs(at, changes) if self._failed else None
        if signs is not None and _key(at, changes, signs) in self._failed:
            return None
        found = self._walk(at + 1, changes) if self._may_pass(at) else None
        if found is None and not self.cut:
            signs = self._signs(at, changes) if signs is None else signs
            found = self._change(at, changes, signs) if changes else None
            if found is None and not self.cut:
                self._failed.add(_key(at, changes, signs))
        return found

    def _change(self, at: int, changes: int, signs: _Signs) -> tuple[int, ...] | None:
        """Try other units at a position, and go on from there."""
        tried = set[object]()
        for number in self._options(at):
            sign = (signs[self._units[number].zone], self._sign(number, at, changes))
            if sign in tried:
                continue
            tried.add(sign)
            if not self._steps_left:
                self.cut = True
                return None
            self._steps_left -= 1
            found = self._with_change(at, number, changes)
            if found is not None or self.cut:
                return found
        return None

    def _with_change(self, at: int, number: int, changes: int) -> tuple[int, ...] | None:
        """Go on with another unit at a position, and put the old one back."""
        old, windows = self._at[at], self._windows_of[at]
        lack = [self._lack[window] for window in windows]
        self._put(at, number)
        self._left[number] -= 1
        self._left[old] += self._ring.returns[at]
        may_pass = True
        for window in windows:
            lacking = self._lack[window] = self._lacking(self._windows[window])
            may_pass = lacking <= self._later[window][at]
            if not may_pass:
                break
        found = self._walk(at + 1, changes - 1) if may_pass else None
        self._left[number] += 1
        self._left[old] -= self._ring.returns[at]
        self._put(at, old)
        for window, before in zip(windows, lack, strict=True):
            self._lack[window] = before
        return found

    def _put(self, at: int, number: int) -> None:
        old, bit = self._at[at], 1 << at
        self._at[at] = number
        self._unit_mask[old] ^= bit
        self._unit_mask[number] |= bit
        self._zone_mask[self._units[old].zone] ^= bit
        self._zone_mask[self._units[number].zone] |= bit

    # ── what cannot succeed ──

    def _may_pass(self, at: int) -> bool:
        """Could later positions mend all that the write sets of this position lack?"""
        lack, later = self._lack, self._later
        return all(lack[window] <= later[window][at] for window in self._windows_of[at])

    def _needed(self, at: int) -> int:
        """Give a number of changes from ``at`` on; with fewer there is no answer."""
        needed, debts = self._rest[at], 0
        for window in self._begun(at):
            if lack := self._lack[window]:
                after = self._windows[window].bit_length()
                needed = max(needed, lack + self._rest[after])
        for left, leavers in zip(self._left, self._leavers[at], strict=True):
            if left < 0:
                debts -= left
                if left + leavers < 0:
                    return self._size + 1
        return max(needed, debts)

    def _begun(self, at: int) -> Iterator[int]:
        """Give the write sets that have positions before ``at`` and from ``at`` on."""
        before = (1 << at) - 1
        for number in self._windows_of[at]:
            if self._windows[number] & before:
                yield number
        if at:  # those that begin later, and end at the first positions
            for number in range(max(at, self._size - self._write) + 1, len(self._windows)):
                if not self._windows[number] >> at & 1:
                    yield number

    def _lacking(self, mask: int) -> int:
        """Give a number of changes in a write set; fewer cannot mend it.

        One change adds at most one zone, and takes away at most one member that stands nowhere. It
        mends at most two zones whose members clash: the one that is left and the one that is
        joined.
        """
        zones_lack, nowhere, clashes = self._ring.zones, 0, 0
        for zone, members in self._zone_mask.items():
            here = members & mask
            if not here:
                continue
            if zone == NOWHERE:
                nowhere = here.bit_count()
                continue
            zones_lack -= 1
            if others := here & (here - 1):
                one = self._at[(here ^ others).bit_length() - 1]
                clashes += self._unit_mask[one] & here == here
        return max(zones_lack, nowhere, (nowhere + clashes + 1) // 2)

    def _sum_up(self) -> list[int]:
        """Sum, from each position on, what write sets lack that do not overlap."""
        rest = [0] * (self._size + 1)
        for at in reversed(range(self._size)):
            after = at + self._write
            whole = self._lack[at] + rest[after] if after <= self._size else 0
            rest[at] = max(rest[at + 1], whole)
        return rest

    def _count_leavers(self) -> list[list[int]]:
        """Count, from each position on, the members of each unit that may leave and join again."""
        counts = [[0] * len(self._units)]
        for at in reversed(range(self._size)):
            counts.append(list(counts[-1]))
            counts[-1][self._standing[at]] += self._ring.returns[at]
        counts.reverse()
        return counts

    # ── what to try ──

    def _options(self, at: int) -> Sequence[int]:
        """List other units for a position, the most promising first."""
        near, old = self._near[at], self._at[at]
        options = list[tuple[bool, int, int, float, int]]()
        for number, unit in enumerate(self._units):
            left = self._left[number]
            supply = left + self._leavers[at + 1][number]
            if number == old or supply <= 0 or unit.price or unit.zone == NOWHERE:
                continue
            mask = self._unit_mask[number]
            clashes = sum([1 for n in self._windows_of[at] if mask & self._windows[n]])
            crowd = (self._zone_mask[unit.zone] & near).bit_count()
            # The order of ``search``: by exponential clocks.
            clock = -math.log(1.0 - self._chance.random()) / (unit.weight * supply)
            options.append((left <= 0, crowd, clashes, clock, number))
        options.sort()
        return [number for *_, number in options]

    # ── what is alike ──

    def _sign(self, number: int, at: int, changes: int) -> tuple[int, int, int]:
        """Describe a unit by what matters from ``at`` on; equal ones are interchangeable.

        More bookies than changes that are left are as good as that many.
        """
        held, left = self._unit_mask[number], min(self._left[number], changes)
        if len(self._windows) == 1:  # the order of positions in a write set does not matter
            return held >> at, (held & (1 << at) - 1).bit_count(), left
        return held & self._relevant[at], 0, left

    def _signs(self, at: int, changes: int) -> _Signs:
        """Describe the zones by what matters from ``at`` on."""
        return {
            zone: tuple(sorted([self._sign(number, at, changes) for number in units]))
            for zone, units in self._units_in.items()
        }


def _key(at: int, changes: int, signs: _Signs) -> object:
    zones = sorted([sign for zone, sign in signs.items() if zone != NOWHERE])
    return at, changes, signs[NOWHERE], *zones


def _unit(taken: int | None) -> int:
    assert taken is not None, "every position of a ring is taken"
    return taken


def _turned(items: tuple[Item, ...], start: int) -> tuple[Item, ...]:
    return items[start:] + items[:start]


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result
