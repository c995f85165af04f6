"""What a zone watch asks its shell to do, and what it tells people: a closed set.

``zone`` is None where the cluster is meant. The records come first: an effect is performed only
once the record that it came with is written. A lost ``SwitchOff`` or ``EndMaintenance`` is asked
again at the next evaluation; a lost line of the timeline is lost.
"""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.gate import Token
from zonekeeper.placement.zones.maintenance import Maintenance


class Severity(enum.StrEnum):
    """What somebody has to do about an alert."""

    PAGE = "page"
    WARNING = "warning"
    INFO = "info"


class Alert(enum.StrEnum):
    """What stands until it is over. Which alerts stand is part of the record."""

    ZONE_DEGRADED = "zoneDegraded"
    ZONE_SUSPECT = "zoneSuspect"
    ZONE_DOWN = "zoneDown"
    #: Too much of the zone was lost and written off, one by one.
    ZONE_SHRUNK = "zoneShrunk"
    CLUSTER_FROZEN = "clusterFrozen"
    #: All zones are failing at once: the watch may be the one that is cut off.
    VIEW_SUSPECT = "viewSuspect"
    #: The watch switched automatic replication off; a person switches it on.
    SWITCHED_OFF = "switchedOff"
    #: What was lost is back; a person has to say so.
    AWAITS_PERSON = "awaitsPerson"
    #: A person's own hold.
    HELD_BY_PERSON = "heldByPerson"

    @property
    def severity(self) -> Severity:
        """Say whether somebody has to get up for it."""
        return _SEVERITY[self]


_SEVERITY = {
    Alert.ZONE_DEGRADED: Severity.WARNING,
    Alert.ZONE_SUSPECT: Severity.WARNING,
    Alert.ZONE_DOWN: Severity.PAGE,
    Alert.ZONE_SHRUNK: Severity.WARNING,
    Alert.CLUSTER_FROZEN: Severity.PAGE,
    Alert.VIEW_SUSPECT: Severity.PAGE,
    Alert.SWITCHED_OFF: Severity.PAGE,
    Alert.AWAITS_PERSON: Severity.INFO,
    Alert.HELD_BY_PERSON: Severity.INFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRaised:
    """Something began that stands until ``AlertCleared``."""

    zone: ZoneName | None
    alert: Alert
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCleared:
    """It is over."""

    zone: ZoneName | None
    alert: Alert
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """Repair has been held for another ``remindEvery``."""

    zone: ZoneName | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A line for the timeline: what changed, from what to what, and why."""

    zone: ZoneName | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOff:
    """Turn automatic replication off, unless it is off; the token and reason go beside it.

    Whoever has done it evaluates again at once, with the switch as it left it: only a switch that
    was seen off can be seen turned on, and a request that was not seen done is made again.
    """

    token: Token
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMaintenance:
    """Take a declaration away that has run out, if it still has its token."""

    maintenance: Maintenance
    reason: str


Effect: TypeAlias = AlertRaised | AlertCleared | Reminder | Noted | SwitchOff | EndMaintenance
