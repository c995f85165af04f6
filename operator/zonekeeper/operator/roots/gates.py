"""The records of the zone watch, as the operator reads them.

The zone watch and the gates stand in the autorecovery processes. The operator reads their records
and changes none. A record that cannot be read is left out: what it is about counts as unknown.
"""

from collections.abc import Awaitable
from typing import TypeVar

from zonekeeper.metadata.cluster import repair_controls, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.losses import Records

Value = TypeVar("Value")


async def read(cluster: Cluster, policy: Policy | None) -> Records:
    """Read the records of the zones that the policy names, of the cluster, and the switch.

    Without a policy nothing is read. Declared maintenance is left out.
    """
    if policy is None:
        return Records(zones={}, cluster=None)
    zones = {}
    for zone in policy.placement.zones:
        record = await _readable(zone_store.read_zone(cluster, zone))
        if record is not None and record.zone == zone:
            zones[zone] = record
    return Records(
        zones=zones,
        cluster=await _readable(zone_store.read_cluster(cluster)),
        replication_enabled=await repair_controls.is_enabled(cluster),
    )


async def _readable(record: Awaitable[Value | None]) -> Value | None:
    try:
        return await record
    except UnreadableError:
        return None
