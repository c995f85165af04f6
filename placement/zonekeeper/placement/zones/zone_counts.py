"""The number of available bookies of a zone: the evidence that is compared with the marks.

The denominator is the zone's cookies. Cookies outlive processes, so a bookie that is away still
counts. Bookies whose absence is known and dealt with are left out. These are draining bookies
(a person empties them), those in maintenance, and *written-off* ones: a written-off bookie was
lost while the zone was not held, and all its ledgers were repaired. If written-off bookies counted,
single losses over weeks would add up until the zone looked down. A written-off bookie that
registers again counts at once; the auditor, which wrote it off, then removes the mark.

What is left out is not judged. Where most of a zone is planned away (draining or in maintenance),
or so much that ``minLost`` bookies are not left, the zone is seen by few: its *sight is reduced*.

Where all counted bookies of one upgrade domain are lost, and no other counted bookie of the zone,
planned work was probably begun and not declared: failures do not follow upgrade domains.

A bookie is available if it is registered, writable or read-only: readable data needs no repair.

A mark is the decimal number that the owner wrote, and is compared exactly: 9 of 10 is at 0.9.
"""

import enum
import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie

#: A unit of fewer bookies is lost as easily as a bookie: that says nothing about planned work.
UNIT_MIN: Final = 2


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

    @property
    def planned_away(self) -> int:
        """Give the number of bookies that are not counted because of planned work."""
        return self.draining + self.in_maintenance

    @property
    def size(self) -> int:
        """Give the number of bookies that should be there, counted or planned away."""
        return self.total + self.planned_away

    def sight_is_reduced(self, min_lost: int) -> bool:
        """Is so much planned away that an outage of the zone shows in few bookies, or in none?"""
        if not self.planned_away:
            return False
        return self.total < self.planned_away or self.total < min_lost <= self.size

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
    #: By zone: the one upgrade domain that is lost as a whole, while all others are well.
    gone: Mapping[ZoneName, UpgradeDomain] = field(default_factory=dict)


def measure(
    bookies: Iterable[Bookie], *, written_off: Set[BookieId], in_maintenance: Set[Location]
) -> Counts:
    """Count the bookies that have a cookie, each once: by zone, and all of them."""
    everywhere: Counter[_Standing] = Counter()
    zones: defaultdict[ZoneName, Counter[_Standing]] = defaultdict(Counter)
    units: defaultdict[Location, Counter[_Standing]] = defaultdict(Counter)
    for bookie in bookies:
        standing = _standing(bookie, written_off, in_maintenance)
        everywhere[standing] += 1
        if bookie.location is not None:
            zones[bookie.location.zone][standing] += 1
            units[bookie.location][standing] += 1
    counts = {zone: _count(zones[zone]) for zone in sorted(zones)}
    lost = {unit: tally[_Standing.LOST] for unit, tally in units.items()}
    gone = {
        unit.zone: unit.upgrade_domain
        for unit, number in sorted(lost.items())
        if number >= UNIT_MIN
        and not units[unit][_Standing.AVAILABLE]
        and number == counts[unit.zone].lost < counts[unit.zone].total
    }
    return Counts(
        zones=MappingProxyType(counts),
        everywhere=_count(everywhere),
        gone=MappingProxyType(gone),
    )


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
