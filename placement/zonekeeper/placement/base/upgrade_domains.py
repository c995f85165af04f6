"""The upgrade domain of a bookie, and the order in which planned work visits the units.

A bookie's upgrade domain follows from its ordinal, the number at the end of its pod's name. So the
bookie and the operator compute the same one without asking each other. A name without an ordinal is
an error: a default would put bookies that share nothing into one domain.

The unit of planned work is an upgrade domain of a zone. ``ud-1`` of zone a and ``ud-1`` of zone b
may hold copies of the same entry, so planned work never takes a name in two zones together. A roll
goes zone by zone. So a bad build meets the copies of one zone first. An entry with copies in other
zones keeps those until the roll goes on.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

_POD_NAME: Final = re.compile(r".*-(0|[1-9][0-9]{0,9})", re.ASCII)
_TRAILING_NUMBER: Final = re.compile(r"(.*?)([0-9]*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRobin:
    """``ordinal mod upgrade_domains``, for one StatefulSet a zone.

    The sizes of domains differ by one at most, and scaling moves no bookie to another domain.
    """

    upgrade_domains: int

    def __post_init__(self) -> None:
        if self.upgrade_domains < 1:
            raise ValueError(f"upgrade_domains: {self.upgrade_domains}: must be at least 1")


def ordinal_of(pod_name: str) -> int:
    """Read the ordinal at the end of ``<cluster>-<zone>-<ordinal>``.

    Only the ordinal is read, because cluster and zone may contain hyphens themselves.
    """
    found = _POD_NAME.fullmatch(pod_name)
    if found is None:
        raise ValueError(
            f"pod name {pod_name!r}: must end in '-' and the pod's ordinal, as in bk-zone-a-0; "
            "without it there is no upgrade domain"
        )
    return int(found[1])


def of_ordinal(ordinal: int, formula: RoundRobin) -> UpgradeDomain:
    """Give the upgrade domain of a bookie, ``ud-<n>`` with n from 0."""
    if ordinal < 0:
        raise ValueError(f"ordinal: {ordinal}: must be at least 0")
    return UpgradeDomain(f"ud-{ordinal % formula.upgrade_domains}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollStep:
    """Bookies of one unit that planned work may take down at the same time."""

    unit: Location
    bookies: tuple[BookieId, ...]
    #: This step is the first bookie of the roll, alone: only this bookie gets a build that is bad.
    canary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """A planned change as a whole: its steps in order; the next begins when the last is well."""

    steps: tuple[RollStep, ...]
    #: Bookies in no unit: they are unresolved, or in a zone that the record does not name. While
    #: there are any, it is not known what a step costs.
    unplaced: tuple[BookieId, ...]


def roll(zones: Sequence[ZoneName], bookies: Iterable[tuple[BookieId, Location | None]]) -> Roll:
    """Give the order of planned work: zone by zone, in a zone domain by domain, the canary first.

    Zones are in the given order. Domains and bookies are sorted by name; numbers at the end of a
    name are sorted by size.
    """
    units: dict[Location, list[BookieId]] = {}
    unplaced: list[BookieId] = []
    for bookie, location in bookies:
        if location is None or location.zone not in zones:
            unplaced.append(bookie)
        else:
            units.setdefault(location, []).append(bookie)
    ordered = sorted(
        units, key=lambda unit: (zones.index(unit.zone), _by_size(unit.upgrade_domain))
    )
    steps = [
        RollStep(unit=unit, bookies=tuple(sorted(units[unit], key=_by_size))) for unit in ordered
    ]
    return Roll(
        steps=(*_canary_first(steps[:1]), *steps[1:]),
        unplaced=tuple(sorted(unplaced, key=_by_size)),
    )


def _canary_first(steps: Sequence[RollStep]) -> Iterable[RollStep]:
    for step in steps:
        yield RollStep(unit=step.unit, bookies=step.bookies[:1], canary=True)
        if step.bookies[1:]:
            yield RollStep(unit=step.unit, bookies=step.bookies[1:])


def _by_size(name: str) -> tuple[str, int, str]:
    """Sort ``ud-2`` before ``ud-10``; names that differ only in leading zeros, as texts."""
    found = _TRAILING_NUMBER.fullmatch(name)
    assert found is not None, "the pattern matches every string"
    return (found[1], int(found[2] or 0), name)
