"""The zone watch's records in the store: one a zone, the cluster's, and declared maintenance.

Placement defines what they mean (``zone_records``). This module reads and watches them, and changes
them by compare-and-set. An unreadable record holds whatever it is about: a watcher gets the error
in its place, and must not take it for an absent record. Maintenance is declared once and never
changed. Its node has the name of the unit, but the unit in the record counts.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Checked, Codec
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.zones import zone_record_data
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord

Value = TypeVar("Value")


class UnderMaintenanceError(Refusal):
    """Maintenance of this unit is declared already, by another person or for another time."""


def _read_by(
    read: Callable[[Mapping[str, Plain]], Value],
) -> Callable[[dict[str, Plain]], Value]:
    def parse(data: dict[str, Plain]) -> Value:
        try:
            return read({k: v for k, v in data.items() if k not in ("format", "instance")})
        except ValueError as error:
            raise MalformedError(Flaw.OUT_OF_RANGE, str(error)) from error

    return parse


ZONE: Final[Codec[ZoneRecord]] = Codec(
    render=zone_record_data.plain, parse=_read_by(zone_record_data.zone_record)
)
CLUSTER: Final[Codec[ClusterRecord]] = Codec(
    render=zone_record_data.plain, parse=_read_by(zone_record_data.cluster_record)
)
MAINTENANCE: Final[Codec[Maintenance]] = Codec(
    render=zone_record_data.plain, parse=_read_by(zone_record_data.maintenance)
)


async def read_zone(cluster: Cluster, zone: ZoneName) -> ZoneRecord | None:
    """Read a zone's record; None if no watch has watched the zone yet."""
    return await record_store.read(cluster, cluster.root.gate(zone), ZONE)


async def read_zone_checked(cluster: Cluster, zone: ZoneName) -> Checked[ZoneRecord] | None:
    """Read a zone's record with a check of its version."""
    return await record_store.read_checked(cluster, cluster.root.gate(zone), ZONE)


async def zone_names(cluster: Cluster) -> tuple[ZoneName, ...]:
    """Name the zones that have a record, behind all writes."""
    names = await cluster.store.children(cluster.root.beside("zones"), sync=True)
    return tuple(map(ZoneName, sorted(names or ())))


async def change_zone(
    cluster: Cluster, zone: ZoneName, decide: Callable[[ZoneRecord | None], ZoneRecord | None]
) -> ZoneRecord | None:
    """Change a zone's record as ``decide`` wants."""
    return await record_store.change(cluster, cluster.root.gate(zone), ZONE, decide)


def watch_zones(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[dict[str, ZoneRecord | UnreadableError]]]:
    """Follow the records of all zones, by the zones' names."""
    return record_store.watch_all(cluster, cluster.root.beside("zones"), ZONE)


async def read_cluster(cluster: Cluster) -> ClusterRecord | None:
    """Read the cluster's record; None if no watch has watched the cluster yet."""
    return await record_store.read(cluster, cluster.root.beside("cluster"), CLUSTER)


async def read_cluster_checked(cluster: Cluster) -> Checked[ClusterRecord] | None:
    """Read the cluster's record with a check of its version."""
    return await record_store.read_checked(cluster, cluster.root.beside("cluster"), CLUSTER)


async def change_cluster(
    cluster: Cluster, decide: Callable[[ClusterRecord | None], ClusterRecord | None]
) -> ClusterRecord | None:
    """Change the cluster's record as ``decide`` wants."""
    return await record_store.change(cluster, cluster.root.beside("cluster"), CLUSTER, decide)


def watch_cluster(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[ClusterRecord | UnreadableError | None]]:
    """Follow the cluster's record."""
    return record_store.watch(cluster, cluster.root.beside("cluster"), CLUSTER)


async def declare(cluster: Cluster, maintenance: Maintenance) -> None:
    """Declare planned work on a unit; the same declaration may be repeated."""

    def decide(standing: Maintenance | None) -> Maintenance:
        if standing is not None and standing.token != maintenance.token:
            raise UnderMaintenanceError(
                f"maintenance of {maintenance.unit} is declared already, by "
                f"{standing.declared_by}: lift it before declaring it anew"
            )
        return standing or maintenance

    await record_store.change(
        cluster, _maintenance_path(cluster, maintenance.unit), MAINTENANCE, decide
    )


async def lift(cluster: Cluster, maintenance: Maintenance) -> None:
    """End a declaration; another one of the same unit stays."""

    def decide(standing: Maintenance | None) -> Maintenance | None:
        return standing if standing and standing.token != maintenance.token else None

    await record_store.change(
        cluster, _maintenance_path(cluster, maintenance.unit), MAINTENANCE, decide
    )


async def renew(cluster: Cluster, before: Maintenance, after: Maintenance) -> None:
    """Put a new declaration of the same unit in place of this very one; another one stays."""
    assert before.unit == after.unit, "a renewal is of the same unit"

    def decide(standing: Maintenance | None) -> Maintenance | None:
        return after if standing is not None and standing.token == before.token else standing

    await record_store.change(cluster, _maintenance_path(cluster, before.unit), MAINTENANCE, decide)


async def maintenance_names(cluster: Cluster) -> tuple[str, ...]:
    """Give the names of the nodes with declarations, behind all writes."""
    names = await cluster.store.children(_maintenance(cluster), sync=True)
    return tuple(sorted(names or ()))


async def read_maintenance(cluster: Cluster, name: str) -> Maintenance | None:
    """Read the declaration in a node; None: it is gone, or of another cluster."""
    return await record_store.read(cluster, f"{_maintenance(cluster)}/{name}", MAINTENANCE)


def watch_maintenance(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[dict[str, Maintenance | UnreadableError]]]:
    """Follow all declarations, by the names of their records."""
    return record_store.watch_all(cluster, _maintenance(cluster), MAINTENANCE)


def _maintenance(cluster: Cluster) -> str:
    return cluster.root.beside("maintenance")


def _maintenance_path(cluster: Cluster, unit: Location) -> str:
    return cluster.root.maintenance(unit.zone, unit.upgrade_domain)
