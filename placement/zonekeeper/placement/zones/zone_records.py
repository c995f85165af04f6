"""The records of a zone and of the cluster: the zone watch's whole state, as values.

The record is the state: a watch keeps nothing else between two evaluations but its own time. So a
new watch continues where the last one stopped. The auditor and the replicators obey the record,
also if a person wrote it. ``zone_record_data`` turns it into plain data and back.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from zonekeeper.placement.base.fields import LATER
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.zones.cluster_gate import SuspendedRelease
from zonekeeper.placement.zones.freeze import ClusterObserved, Switch
from zonekeeper.placement.zones.gate import Gate, Token
from zonekeeper.placement.zones.maintenance import Ran
from zonekeeper.placement.zones.observation import ZoneObservation
from zonekeeper.placement.zones.zone_counts import Count
from zonekeeper.placement.zones.zone_effects import Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRecord:
    """One zone: ``<root>.zonekeeper/zones/<zone>``."""

    zone: ZoneName
    #: Increased at every evaluation, so that a stopped watch can be told from a quiet one.
    evaluation: int
    evidence: Count
    observed: ZoneObservation
    gate: Gate
    #: The one upgrade domain that is gone as a whole, the others well, without maintenance.
    undeclared: UpgradeDomain | None = field(default=None, metadata=LATER)
    #: The alerts that stand, sorted.
    alerts: tuple[Alert, ...] = ()
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """The cluster as a whole: ``<root>.zonekeeper/cluster``."""

    evaluation: int
    evidence: Count
    observed: ClusterObserved
    gate: Gate
    #: The zones' incidents that this hold or release covers; sorted.
    covers: tuple[Token, ...] = ()
    #: The release that stands again when this hold is over; None if there is none.
    suspended: SuspendedRelease | None = field(default=None, metadata=LATER)
    switch: Switch = field(default_factory=Switch)
    #: Increased at the end of a hold that was more than a doubt; every loss is then seen anew.
    delays_epoch: int = 0
    #: How long each declared maintenance has run; sorted by token.
    maintenance: tuple[Ran, ...] = ()
    alerts: tuple[Alert, ...] = ()
    unknown: str = "{}"


Record: TypeAlias = ZoneRecord | ClusterRecord
