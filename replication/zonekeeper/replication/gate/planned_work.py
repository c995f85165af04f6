"""Planned work: declared before bookies are taken down, lifted when they are back.

A declaration is of one unit, a zone's upgrade domain. For a whole zone there is one declaration for
each of its units. While a declaration stands, the unit's bookies are not counted and their losses
are held. It ends by itself after the time that was asked for, and never later than after
``maintenanceMax``.
"""

from dataclasses import dataclass

from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base import misnamed
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
    """What a person wants to work on."""

    zone: ZoneName
    #: None: all upgrade domains of the zone.
    domain: UpgradeDomain | None


def units(wanted: Wanted, topology: Topology) -> tuple[Location, ...]:
    """Give the units that are wanted; raises ``RefusedError`` if no bookie stands in them."""
    found = {bookie.location for bookie in topology if bookie.location is not None}
    zone = sorted(unit for unit in found if unit.zone == wanted.zone)
    if not zone:
        known = ", ".join(topology.zones) or "none"
        raise RefusedError(
            f"no bookie stands in zone {wanted.zone}: the zones are {known}"
            f"{misnamed.question(wanted.zone, topology.zones)}"
        )
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
    """Make the declarations; raises ``RefusedError`` for a person or a time that is not legal."""
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
    """Write the declarations. If a unit has one already, lift those that were written.

    Raises ``UnderMaintenanceError`` then.
    """
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
    """Lift declarations. A declaration that was lifted meanwhile is no error."""
    for one in declared:
        await zone_store.lift(cluster, one)
        await told.write("ended", f"maintenance of {one.unit}", str(person))
