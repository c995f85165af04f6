"""Planned work: declared before bookies are taken down, lifted when they are back.

A declaration is of one unit, a zone's upgrade domain; for a whole zone there is one of each. While
it stands the unit's bookies are not counted and their losses are held. It runs out by itself after
what was asked for, and never later than ``maintenanceMax``.
"""

from dataclasses import dataclass

from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import counted_time
from zonekeeper.placement.zones.gate import Person, RefusedError, Token
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.replication.view.alerts import Chronicle, drawn_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The unit or the zone that planned work is about."""

    zone: ZoneName
    #: None: all of the zone's.
    domain: UpgradeDomain | None


def units(wanted: Wanted, topology: Topology) -> tuple[Location, ...]:
    """Give the units that are meant; raises ``RefusedError`` where no bookie stands in any."""
    found = {bookie.location for bookie in topology if bookie.location is not None}
    zone = sorted(unit for unit in found if unit.zone == wanted.zone)
    if not zone:
        known = ", ".join(topology.zones) or "none"
        raise RefusedError(f"no bookie stands in zone {wanted.zone}: the zones are {known}")
    if wanted.domain is None:
        return tuple(zone)
    unit = Location(wanted.zone, wanted.domain)
    if unit not in zone:
        known = ", ".join(each.upgrade_domain for each in zone)
        raise RefusedError(
            f"no bookie stands in {wanted.domain} of zone {wanted.zone}: it has {known}"
        )
    return (unit,)


def planned(
    where: tuple[Location, ...], person: Person, lasts_ms: int, policy: Policy, chance: Chance
) -> tuple[Maintenance, ...]:
    """Make the declarations; raises ``RefusedError`` for what no declaration may say."""
    most_ms = policy.zone_watch.maintenance_max_ms
    if fault := person.fault():
        raise RefusedError(fault)
    if not 0 < lasts_ms <= most_ms:
        raise RefusedError(
            f"maintenance may last up to {counted_time.spelled(most_ms)} "
            f"(zoneWatch.maintenanceMax), not {counted_time.spelled(lasts_ms)}"
        )
    return tuple(
        Maintenance(
            unit=unit, token=Token(drawn_token(chance)), declared_by=person, lasts_ms=lasts_ms
        )
        for unit in where
    )


async def start(cluster: Cluster, declared: tuple[Maintenance, ...], told: Chronicle) -> None:
    """Declare all of it, or none; raises ``UnderMaintenanceError`` if a unit has one already."""
    done: list[Maintenance] = []
    try:
        for one in declared:
            await zone_store.declare(cluster, one)
            done.append(one)
    except zone_store.UnderMaintenanceError:
        for one in done:
            await zone_store.lift(cluster, one)
        raise
    for one in declared:
        reason = f"{one.declared_by}, for {counted_time.spelled(one.lasts_ms)}"
        await told.write("began", f"maintenance of {one.unit}", reason)


async def end(
    cluster: Cluster, declared: tuple[Maintenance, ...], person: Person, told: Chronicle
) -> None:
    """Lift declarations; one that was lifted meanwhile is lifted."""
    for one in declared:
        await zone_store.lift(cluster, one)
        await told.write("ended", f"maintenance of {one.unit}", str(person))
