"""Planned work: the bookies of one unit (zone and upgrade domain) may be away for a while.

A declaration is written once and never changed. While it exists, the unit's bookies are not counted
and their losses are held. It ends in one of two ways: the person or process that declared it
removes it, or it has run out and the zone watch removes it.

The watch counts how long a declaration has run (see ``counted_time``) and keeps that in the
cluster's record, by token. So clocks of different machines are never compared, and a new watch goes
on counting where the last one stopped. Time without a watch does not count. That does no harm:
without a watch everything is held anyway.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.gate import Person, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """One declaration. A declaration with another token is a new one, counted from 0."""

    unit: Location
    token: Token
    declared_by: Person
    #: How long it is to last; ``maintenanceMax`` limits it, whatever value is here.
    lasts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The counted time that a declaration has run."""

    token: Token
    ms: int


def run(declared: Iterable[Maintenance], before: Iterable[Ran], *, step_ms: int) -> tuple[Ran, ...]:
    """Count one step for each declaration, and drop the counts of declarations that are gone."""
    ran_ms = {ran.token: ran.ms + step_ms for ran in before}
    tokens = sorted({maintenance.token for maintenance in declared})
    return tuple(Ran(token=token, ms=ran_ms.get(token, 0)) for token in tokens)


def run_out(
    declared: Iterable[Maintenance], ran: Iterable[Ran], *, most_ms: int
) -> tuple[Maintenance, ...]:
    """Give the declarations that have lasted as long as they may, sorted by unit."""
    ran_ms = {one.token: one.ms for one in ran}
    out = [one for one in declared if ran_ms[one.token] >= min(one.lasts_ms, most_ms)]
    return tuple(sorted(out, key=lambda one: one.unit))
