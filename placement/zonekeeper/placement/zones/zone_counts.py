"""The number of available bookies of a zone: the evidence that is compared with the marks.

The denominator is the zone's cookies. Cookies outlive processes, so a bookie that is away still
counts. Bookies whose absence is known and dealt with are left out. These are draining bookies
(a person empties them), those in maintenance, and *written-off* ones: a written-off bookie was
lost while the zone was not held, and all its ledgers were repaired. If written-off bookies counted,
single losses over weeks would add up until the zone looked down. A written-off bookie that
registers again counts at once; the auditor, which wrote it off, then removes the mark.

A bookie is available if it is registered, writable or read-only: readable data needs no repair.

A mark is the decimal number that the owner wrote, and is compared exactly: 9 of 10 is at 0.9.
"""

import enum
import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The numbers of bookies of a zone, or of the cluster: ``0 <= available <= total``."""

    total: int = 0
    available: int = 0
    #: The bookies that are not counted, by reason.
    draining: int = 0
    in_maintenance: int = 0
    written_off: int = 0

    @property
    def lost(self) -> int:
        """Give the number of bookies that are counted and not available."""
        return self.total - self.available

    def at_or_under(self, mark: float) -> bool:
        """Is the available share at the mark or under it? False where nothing is counted."""
        return self.total > 0 and self.available <= _exact(mark) * self.total

    def at_or_over(self, mark: float) -> bool:
        """Is the available share at the mark or over it? False where nothing is counted."""
        return self.total > 0 and self.available >= _exact(mark) * self.total

    def shrunk_by(self, mark: float) -> bool:
        """Is ``written_off / (total + written_off)`` at the mark or over it? Not if it is 0."""
        should_be = self.total + self.written_off
        return self.written_off > 0 and self.written_off >= _exact(mark) * should_be

    def fault(self) -> str | None:
        """Say what is wrong with it; a stored record may hold any value."""
        return "more are available than counted" if self.available > self.total else None

    def __str__(self) -> str:
        out = [
            f"{number} {what}"
            for number, what in (
                (self.draining, "draining"),
                (self.in_maintenance, "in maintenance"),
                (self.written_off, "written off"),
            )
            if number
        ]
        there = f"{self.available} of {self.total} bookies available" if self.total else "no bookie"
        return there + (f" (not counted: {', '.join(out)})" if out else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """One measurement of all zones and of the cluster."""

    #: The zones that a cookie names.
    zones: Mapping[ZoneName, Count]
    #: All bookies, including those without a zone.
    everywhere: Count


def measure(
    bookies: Iterable[Bookie], *, written_off: Set[BookieId], in_maintenance: Set[Location]
) -> Counts:
    """Count the bookies that have a cookie, each once: by zone, and all of them."""
    everywhere: Counter[_Standing] = Counter()
    zones: defaultdict[ZoneName, Counter[_Standing]] = defaultdict(Counter)
    for bookie in bookies:
        standing = _standing(bookie, written_off, in_maintenance)
        everywhere[standing] += 1
        if bookie.location is not None:
            zones[bookie.location.zone][standing] += 1
    counts = {zone: _count(zones[zone]) for zone in sorted(zones)}
    return Counts(zones=MappingProxyType(counts), everywhere=_count(everywhere))


class _Standing(enum.Enum):
    AVAILABLE = enum.auto()
    LOST = enum.auto()
    DRAINING = enum.auto()
    WRITTEN_OFF = enum.auto()
    IN_MAINTENANCE = enum.auto()


def _standing(
    bookie: Bookie, written_off: Set[BookieId], in_maintenance: Set[Location]
) -> _Standing:
    if bookie.draining:
        return _Standing.DRAINING
    if bookie.id in written_off and not bookie.readable:
        return _Standing.WRITTEN_OFF
    if bookie.location is not None and bookie.location in in_maintenance:
        return _Standing.IN_MAINTENANCE
    return _Standing.AVAILABLE if bookie.readable else _Standing.LOST


def _count(tally: Counter[_Standing]) -> Count:
    return Count(
        total=tally[_Standing.AVAILABLE] + tally[_Standing.LOST],
        available=tally[_Standing.AVAILABLE],
        draining=tally[_Standing.DRAINING],
        in_maintenance=tally[_Standing.IN_MAINTENANCE],
        written_off=tally[_Standing.WRITTEN_OFF],
    )


@functools.lru_cache(maxsize=32)
def _exact(mark: float) -> Fraction:
    """Give the decimal number that the owner wrote, not the binary number nearest to it."""
    return Fraction(str(mark))
