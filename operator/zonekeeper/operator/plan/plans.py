"""The plan of a turn: acts from a closed set, the status, the events, the time of the next look."""

from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.operator.certificates.renewing import CertificateStep
from zonekeeper.operator.kubernetes.api import Json, ObjectKind
from zonekeeper.operator.plan.conditions import Notice
from zonekeeper.operator.plan.predicates import Waiting
from zonekeeper.operator.roots.resource_orders import ResourceOrder
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.maintenance import Maintenance


@dataclass(frozen=True, slots=True)
class Hold:
    """Put the finalizer on the resource: volumes and root must be removed before it goes."""


@dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off the resource."""


@dataclass(frozen=True, slots=True)
class InitialiseRoot:
    """Make the root in the metadata store, with its policy."""

    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPolicy:
    """Write the policy record in place of version ``replaces`` (0: there is none)."""

    policy: Policy
    instance: str
    replaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Create an object, or change it to what is wanted."""

    kind: ObjectKind
    body: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Let the resource control this very object, as it was seen; nothing else of it changes."""

    kind: ObjectKind
    item: Json

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.item["metadata"]["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSpec:
    """Change these fields of the spec of this very object, as it was seen."""

    kind: ObjectKind
    item: Json
    spec: Json

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.item["metadata"]["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkClaim:
    """Write the label on this very claim that names the instance of its volume's data."""

    name: str
    uid: str
    instance: str
    #: The size that the claim asks for: an apply that does not name it would take it back.
    size: str = ""
    #: The bookie that was removed and leaves the volume; None: its bookie serves.
    left_by: BookieId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowClaim:
    """Let this very claim ask for a larger volume; its label is said again, so that it stays."""

    name: str
    uid: str
    instance: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveObject:
    """Delete this very object."""

    kind: ObjectKind
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSetAlone:
    """Delete this very StatefulSet; its pods stay, and run on."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveZoneRecord:
    """Remove the zone watch's record of a zone that has left this very cluster."""

    zone: ZoneName
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRoot:
    """Remove the root of this very cluster from the metadata store."""

    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareMaintenance:
    """Declare maintenance of a unit of this very cluster, in the name of the resource."""

    unit: Location
    instance: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewMaintenance:
    """Let this very declaration last anew."""

    declared: Maintenance
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftMaintenance:
    """End this very declaration."""

    declared: Maintenance
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRecovery:
    """Give the order to recover a bookie of this very cluster that is lost."""

    bookie: BookieId
    instance: str
    owner: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDrain:
    """Give the order to empty a bookie of this very cluster that goes on to run."""

    bookie: BookieId
    instance: str
    owner: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmEmptied:
    """Refuse all acts after this one unless this very order stands, and says that it is emptied."""

    bookie: BookieId
    token: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRemoval:
    """Give the order to remove a bookie of this very cluster, in the name of the resource."""

    bookie: BookieId
    instance: str
    owner: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRemovalBack:
    """Take this very order back."""

    bookie: BookieId
    token: str
    instance: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obey:
    """Carry out what a person has ordered, in the root of this very cluster."""

    order: ResourceOrder
    instance: str


Action: TypeAlias = (
    Hold
    | Release
    | InitialiseRoot
    | PublishPolicy
    | Apply
    | Adopt
    | ChangeSpec
    | MarkClaim
    | GrowClaim
    | RemoveObject
    | RemoveSetAlone
    | RemoveZoneRecord
    | RemoveRoot
    | DeclareMaintenance
    | RenewMaintenance
    | LiftMaintenance
    | OrderDrain
    | OrderRecovery
    | OrderRemoval
    | ConfirmEmptied
    | TakeRemovalBack
    | Obey
    | CertificateStep
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """The decision of one turn."""

    #: They are performed in this order; the first that fails ends the turn.
    actions: tuple[Action, ...]
    #: The wait that keeps the cluster from being settled; None: settled, or acts without a wait.
    waits_for: Waiting | None
    status: Json
    notices: tuple[Notice, ...]
    recheck_ms: int
