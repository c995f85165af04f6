"""What a turn decides: acts from a closed set, what the status shall say, when to look again."""

from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.operator.kubernetes.api import Json, ObjectKind
from zonekeeper.operator.plan.conditions import Notice
from zonekeeper.operator.plan.predicates import Waiting
from zonekeeper.placement.policy.rules import Policy


@dataclass(frozen=True, slots=True)
class Hold:
    """Put our finalizer on the resource: something must be removed before it goes."""


@dataclass(frozen=True, slots=True)
class Release:
    """Take our finalizer off."""


@dataclass(frozen=True, slots=True)
class InitialiseRoot:
    """Make the root in the metadata store, with its policy."""

    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPolicy:
    """Set the policy record in place of version ``replaces`` (0: there was none)."""

    policy: Policy
    instance: str
    replaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Let an object be as we want it."""

    kind: ObjectKind
    body: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkClaim:
    """Write on this very claim whose data its volume holds."""

    name: str
    uid: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveObject:
    """Delete this very object."""

    kind: ObjectKind
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRoot:
    """Remove the root of this very cluster from the metadata store."""

    instance: str


Action: TypeAlias = (
    Hold | Release | InitialiseRoot | PublishPolicy | Apply | MarkClaim | RemoveObject | RemoveRoot
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """The decision of one turn."""

    #: In order; the first that fails ends the turn.
    actions: tuple[Action, ...]
    #: What keeps the cluster from being settled; None: nothing, or acts that need no name.
    waits_for: Waiting | None
    status: Json
    notices: tuple[Notice, ...]
    recheck_ms: int
