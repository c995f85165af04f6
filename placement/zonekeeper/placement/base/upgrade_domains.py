"""Which upgrade domain a bookie is in, and in which order the units are worked on.

A bookie's upgrade domain follows from its ordinal, the number at the end of its pod's name, so that
the bookie and the operator compute the same one without asking each other. A name without an
ordinal is an error: a default would put bookies that share nothing into one domain.

The unit of planned work is a zone and an upgrade domain in it. ``ud-1`` of zone a and ``ud-1`` of
zone b may hold copies of the same entry, so a name is never worked on in two zones together. A roll
goes zone by zone, so that a bad build meets one zone's copies first and not one copy of everything.
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
    """``ordinal mod U``, for a StatefulSet a zone.

    Sizes differ by one at most, and scaling keeps every bookie where it is.
    """

    upgrade_domains: int

    def __post_init__(self) -> None:
        if self.upgrade_domains < 1:
            raise ValueError(f"upgrade_domains: {self.upgrade_domains}: must be at least 1")


def ordinal_of(pod_name: str) -> int:
    """Read the ordinal at the end of ``<cluster>-<zone>-<ordinal>``.

    Only the ordinal: cluster and zone may contain hyphens themselves.
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
    """Bookies of one unit that may be worked on at the same time."""

    unit: Location
    bookies: tuple[BookieId, ...]
    #: The first bookie of all, alone: if the build is bad, it is the only one that has it.
    canary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """The whole of a planned change: the steps in order, each after the one before is well."""

    steps: tuple[RollStep, ...]
    #: Bookies in no unit: unresolved, or in a zone that is not in the record. What a step costs is
    #: not known while there are any.
    unplaced: tuple[BookieId, ...]


def roll(zones: Sequence[ZoneName], bookies: Iterable[tuple[BookieId, Location | None]]) -> Roll:
    """Give the order of planned work: zone by zone, in each domain by domain, the canary first.

    Zones go in the order given; domains and bookies by name, with numbers in names by size.
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
    """Sort ``ud-2`` before ``ud-10``, and names that differ in zeros only by themselves."""
    found = _TRAILING_NUMBER.fullmatch(name)
    assert found is not None, "the pattern matches every string"
    return (found[1], int(found[2] or 0), name)
