"""The gates as they stand in the store: read behind all writes, with checks for a commit.

A look at the records may be older than they are by the time that a watch takes, and a request for a
commit may wait for a connection. A commit that carries these checks is not applied once the record
of the cluster, or of a zone that it is about, has changed since it was read here.

Not covered: the global switch and new declarations of maintenance are nodes that come and go, and
no transaction can check that a node is absent. The switch is read here, just before the commit; a
switch that is thrown while the commit is on its way stops the next one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from zonekeeper.metadata.cluster import repair_controls, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Checked
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.losses import Records
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """Some zones' records and the cluster's; None: there is none that can be read."""

    zones: Mapping[ZoneName, Checked[ZoneRecord] | None]
    cluster: Checked[ClusterRecord] | None
    replication_enabled: bool

    @property
    def checks(self) -> tuple[Check, ...]:
        """What lets a transaction pass only while all of these records stay as they are."""
        return tuple(one.check for one in (*self.zones.values(), self.cluster) if one is not None)

    def over(self, known: Records) -> Records:
        """Give the records that are known with these in place of theirs."""
        others = {zone: one for zone, one in known.zones.items() if zone not in self.zones}
        anew = {zone: one.value for zone, one in self.zones.items() if one is not None}
        return replace(
            known,
            zones=others | anew,
            cluster=None if self.cluster is None else self.cluster.value,
            replication_enabled=self.replication_enabled,
        )


async def read(cluster: Cluster, zones: Iterable[ZoneName]) -> Reread:
    """Read the records of zones and of the cluster, and then the switch; raises ``StoreError``."""
    names = sorted(zones)
    records = await together(_zone(cluster, zone) for zone in names)
    whole = await _whole(cluster)
    return Reread(
        zones=dict(zip(names, records, strict=True)),
        cluster=whole,
        replication_enabled=await repair_controls.is_enabled(cluster),
    )


async def _zone(cluster: Cluster, zone: ZoneName) -> Checked[ZoneRecord] | None:
    try:
        found = await zone_store.read_zone_checked(cluster, zone)
    except UnreadableError:
        return None  # as in a look: what cannot be read holds
    return found if found is not None and found.value.zone == zone else None


async def _whole(cluster: Cluster) -> Checked[ClusterRecord] | None:
    try:
        return await zone_store.read_cluster_checked(cluster)
    except UnreadableError:
        return None
