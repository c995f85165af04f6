"""What a line of a zone transcript can say: things that happen, and things that are to be seen.

Both sets are closed. ``clauses`` reads them, ``machine_player`` and ``watch_player`` make the acts
happen, ``judging`` says whether an expectation is met.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.freeze import ClusterObservation
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_effects import Alert

#: A zone's gate; None is the cluster's.
GateName: TypeAlias = ZoneName | None
State: TypeAlias = Observation | ClusterObservation

# ── what happens ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Lose:
    """Registrations end, all at once."""

    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Lost bookies register again."""

    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """New bookies register; those that are not placed have a cookie without a location."""

    bookies: tuple[BookieId, ...]
    placed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decommission:
    """Bookies are drained, one after the other, and their cookies removed."""

    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A person begins to empty bookies; they stay registered."""

    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A person releases what a gate holds."""

    gate: GateName


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A person holds."""

    gate: GateName


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A person turns the switch for automatic replication."""

    on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Declare:
    """A person declares the maintenance of a unit."""

    unit: Location
    lasts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """A person takes a declaration away."""

    unit: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDies:
    """The process of the zone watch is killed; no zone watch runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchBegins:
    """A new process stands for the zone watch, on another machine."""


OfBookies: TypeAlias = Lose | Return | Add | Decommission | Drain
OfPeople: TypeAlias = Release | Hold | Turn | Declare | Lift
OfWatches: TypeAlias = WatchDies | WatchBegins
Act: TypeAlias = OfBookies | OfPeople | OfWatches

# ── what is to be seen ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """A zone, or the cluster, is in a state, its gate has a permission; None: either may be."""

    gate: GateName
    state: State | None
    permission: Permission | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A zone's, or the cluster's, states since the beginning, no more and no fewer."""

    gate: GateName
    states: tuple[tuple[State, Permission], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The missing bookies whose ledgers were published, no more and no fewer; None: whenever."""

    at_ms: Mapping[BookieId, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsHeld:
    """What holds a missing bookie's publication; None: nothing."""

    bookie: BookieId
    by: HeldBy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """The alerts that stand, no more and no fewer."""

    gate: GateName
    alerts: frozenset[Alert]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many bookies of a zone are counted, and how many of the others are not, and why."""

    zone: ZoneName
    #: By the name of the count's field.
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldUp:
    """How long a zone that is returning has to stay."""

    zone: ZoneName
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTime:
    """The counted time that the incident of a gate has been held."""

    gate: GateName
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incidents:
    """How many incidents a gate has had since the beginning."""

    gate: GateName
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The switch for automatic replication is on, or off."""

    on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The units in maintenance, no more and no fewer."""

    units: frozenset[Location]


class Kind(enum.StrEnum):
    """What a person was told, or the watch did."""

    RAISED = "raised"
    CLEARED = "cleared"
    REMINDED = "reminded"
    SWITCHED_OFF = "switched off"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """How often something happened since the beginning, or when."""

    kind: Kind
    #: The alert, or the unit; nothing else has any.
    what: str
    times: int
    at_ms: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldNothing:
    """No person was told anything since the beginning, and nothing was noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """The next line of the timeline about a zone or the cluster; None: there is no more."""

    gate: GateName
    text: str | None


#: What a record says, or what an auditor makes of it.
OfState: TypeAlias = (
    Stands | Published | IsHeld | Alerts | Counted | HoldUp | HeldTime | Switched | Declared
)
#: What has been since the beginning.
OfHistory: TypeAlias = Passed | Incidents | Happened | ToldNothing | Noted
Expectation: TypeAlias = OfState | OfHistory
