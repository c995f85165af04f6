"""Planned work: bookies of one unit (zone and upgrade domain) that may be away for a while.

A declaration is written once and never changed. While it stands, the unit's bookies are not counted
and their losses are held; it ends when whoever declared it takes it away, or when it has run out
and the zone watch does.

How long it has run is counted by the watch (see ``watching``) and kept in the cluster's record, by
token: clocks of different machines are never compared, a change of watcher goes on counting where
the last one stopped, and time that nobody watched does not count. Nothing is lost by that: where
nobody watches, everything is held anyway.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.gate import Person, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """One declaration. A new token is a new declaration, counted from zero."""

    unit: Location
    token: Token
    declared_by: Person
    #: How long it was meant to last; ``maintenanceMax`` bounds it whatever stands here.
    lasts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How long a declaration has run, in counted time."""

    token: Token
    ms: int


def run(declared: Iterable[Maintenance], before: Iterable[Ran], *, step_ms: int) -> tuple[Ran, ...]:
    """Count one step for all that is declared, and forget what is not any more."""
    ran_ms = {ran.token: ran.ms + step_ms for ran in before}
    tokens = sorted({maintenance.token for maintenance in declared})
    return tuple(Ran(token=token, ms=ran_ms.get(token, 0)) for token in tokens)


def run_out(
    declared: Iterable[Maintenance], ran: Iterable[Ran], *, most_ms: int
) -> tuple[Maintenance, ...]:
    """Give the declarations that have lasted as long as they may, by unit."""
    ran_ms = {one.token: one.ms for one in ran}
    out = [one for one in declared if ran_ms[one.token] >= min(one.lasts_ms, most_ms)]
    return tuple(sorted(out, key=lambda one: one.unit))
