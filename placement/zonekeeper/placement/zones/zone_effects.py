"""The requests of a zone watch to its shell, and its reports to people: a closed set.

``zone`` is None in an effect that concerns the cluster. The shell writes the record first, and
performs an effect only after its record is written. If a ``SwitchOff`` or ``EndMaintenance`` is
lost, the next evaluation asks for it again. If a line of the timeline is lost, it stays lost.
"""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.gate import Token
from zonekeeper.placement.zones.maintenance import Maintenance


class Severity(enum.StrEnum):
    """The urgency of an alert for a person."""

    PAGE = "page"
    WARNING = "warning"
    INFO = "info"


class Alert(enum.StrEnum):
    """A state that lasts until it is cleared. The record says which alerts stand."""

    ZONE_DEGRADED = "zoneDegraded"
    ZONE_SUSPECT = "zoneSuspect"
    ZONE_DOWN = "zoneDown"
    #: Too many bookies of the zone were lost one by one and written off.
    ZONE_SHRUNK = "zoneShrunk"
    #: One upgrade domain is gone as a whole, the others are well: planned work, not declared.
    UNDECLARED_WORK = "undeclaredWork"
    #: So much of the zone is planned away that an outage of it would hardly be seen.
    REDUCED_SIGHT = "reducedSight"
    CLUSTER_FROZEN = "clusterFrozen"
    #: All zones are failing at the same time: perhaps the watch itself is cut off.
    VIEW_SUSPECT = "viewSuspect"
    #: The watch switched automatic replication off; only a person switches it on again.
    SWITCHED_OFF = "switchedOff"
    #: The lost zone is back; the gate opens only once a person says so.
    AWAITS_PERSON = "awaitsPerson"
    #: A person set a hold.
    HELD_BY_PERSON = "heldByPerson"

    @property
    def severity(self) -> Severity:
        """Say whether the alert is a page."""
        return _SEVERITY[self]


_SEVERITY = {
    Alert.ZONE_DEGRADED: Severity.WARNING,
    Alert.ZONE_SUSPECT: Severity.WARNING,
    Alert.ZONE_DOWN: Severity.PAGE,
    Alert.ZONE_SHRUNK: Severity.WARNING,
    Alert.UNDECLARED_WORK: Severity.WARNING,
    Alert.REDUCED_SIGHT: Severity.WARNING,
    Alert.CLUSTER_FROZEN: Severity.PAGE,
    Alert.VIEW_SUSPECT: Severity.PAGE,
    Alert.SWITCHED_OFF: Severity.PAGE,
    Alert.AWAITS_PERSON: Severity.INFO,
    Alert.HELD_BY_PERSON: Severity.INFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRaised:
    """An alert began; it stands until ``AlertCleared``."""

    zone: ZoneName | None
    alert: Alert
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCleared:
    """An alert ended."""

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
    """Turn automatic replication off unless it is off; store the token and the reason beside it.

    After the act the shell evaluates again at once, with the switch as it then is. The watch must
    see the switch off: only then can it see that a person turns it on. If the watch has not seen
    it off, it asks again.
    """

    token: Token
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMaintenance:
    """Remove a declaration that has run out, if it still has this token."""

    maintenance: Maintenance
    reason: str


Effect: TypeAlias = AlertRaised | AlertCleared | Reminder | Noted | SwitchOff | EndMaintenance
