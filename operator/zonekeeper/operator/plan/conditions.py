"""Conditions of a resource: what is true of it now, with a reason and a message. Pure.

The status of a condition is True, False or Unknown; Unknown is never shown as True or False. True
always means that all is well. Every turn gives every condition anew, so no condition outlives the
look that it was made from. The transition time changes only with the status. If only the reason or
the message changes, an event tells of it.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan.predicates import Waiting

MESSAGE_MAX: Final = 4_000


class Type(enum.StrEnum):
    """The matter of a condition."""

    #: The resource can be built: placement keeps what it promises.
    LEGAL = "Legal"
    #: The metadata store answers, and the root is this cluster's.
    METADATA_READY = "MetadataReady"
    #: The policy record belongs to this resource, and says what it asks for.
    POLICY_PUBLISHED = "PolicyPublished"
    #: The operator acts on this cluster: nobody has stopped it.
    ACTING = "Acting"
    #: No act of the last turn failed.
    APPLIED = "Applied"
    #: Each pod runs the template that is asked for.
    UP_TO_DATE = "UpToDate"
    #: The roll goes, where there is something to roll.
    ROLLING = "Rolling"
    #: Bookies, autorecovery and clients speak TLS.
    SECURE = "Secure"
    #: No more bookies run than are asked for.
    SCALED = "Scaled"
    #: Each bookie's volumes are there, and as large as is asked for.
    VOLUMES_READY = "VolumesReady"
    #: Nodes can be drained, in one zone at a time.
    DRAINABLE = "Drainable"
    #: Each bookie stands where its name and its cookie say.
    LOCATIONS_VERIFIED = "LocationsVerified"
    #: Zones are watched, and lost copies are made again.
    REPAIR_READY = "RepairReady"
    #: Every bookie that the resource asks for is ready.
    READY = "Ready"
    #: Is shown only while the operator keeps a deleted resource; it is False then.
    RELEASED = "Released"


class ConditionStatus(enum.StrEnum):
    """The three answers."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, without its transition time."""

    type: Type
    status: ConditionStatus
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that an event shall tell of."""

    warning: bool
    reason: str
    message: str
    #: The matter; one cause is one reason of one matter.
    about: str = ""


#: Their messages count or name bookies, and change often. Only a new reason makes an event.
_COUNTING: Final = frozenset(
    {
        Type.METADATA_READY,
        Type.READY,
        Type.REPAIR_READY,
        Type.UP_TO_DATE,
        Type.ROLLING,
        Type.SCALED,
        Type.LOCATIONS_VERIFIED,
        Type.VOLUMES_READY,
        Type.DRAINABLE,
        Type.SECURE,
        Type.RELEASED,
    }
)

#: The reasons that every new cluster begins with. They make no event the first time.
_BEGINNINGS: Final = frozenset(
    {
        *("NotInitialised", "NoPolicy", "BookiesNotReady", "AutorecoveryNotReady"),
        *("Plaintext", "NotIssued"),
    }
)


def good(kind: Type, reason: str, message: str) -> Condition:
    """Say that the condition holds."""
    return Condition(type=kind, status=ConditionStatus.TRUE, reason=reason, message=message)


def bad(kind: Type, reason: str, message: str) -> Condition:
    """Say that the condition does not hold."""
    return Condition(type=kind, status=ConditionStatus.FALSE, reason=reason, message=message)


def unknown(kind: Type, reason: str, message: str) -> Condition:
    """Say that it is not known whether the condition holds."""
    return Condition(type=kind, status=ConditionStatus.UNKNOWN, reason=reason, message=message)


def waiting(kind: Type, found: Waiting) -> Condition:
    """Say that the condition does not hold, and what the cluster waits for."""
    return bad(kind, str(found.predicate), found.why)


def unseen(kind: Type, found: Waiting) -> Condition:
    """Say that it is not known whether the condition holds, and what the cluster waits for."""
    return unknown(kind, str(found.predicate), found.why)


def timed(
    conditions: Iterable[Condition], before: Iterable[Json], generation: int, now: str
) -> list[Json]:
    """Give conditions as the API writes them; a status that did not change keeps its time."""
    known = {item["type"]: item for item in before}
    return [
        {
            "type": str(condition.type),
            "status": str(condition.status),
            "reason": condition.reason,
            "message": condition.message[:MESSAGE_MAX],
            "observedGeneration": generation,
            "lastTransitionTime": _since(condition, known, now),
        }
        for condition in conditions
    ]


def _since(condition: Condition, known: Mapping[str, Json], now: str) -> str:
    before = known.get(condition.type, {})
    return str(before["lastTransitionTime"]) if before.get("status") == condition.status else now


def notices(conditions: Iterable[Condition], before: Iterable[Json]) -> tuple[Notice, ...]:
    """Give an event for each condition whose change is news.

    ``Ready`` has the cause as its reason. Where another condition has that reason, too, the event
    is about that one: one cause is one event.
    """
    said, known = tuple(conditions), {item["type"]: item for item in before}
    told = {one.reason for one in said if one.type is not Type.READY}
    return tuple(
        Notice(
            warning=condition.status is ConditionStatus.FALSE,
            reason=condition.reason,
            message=f"{condition.type}: {condition.message[:MESSAGE_MAX]}",
            about=str(condition.type),
        )
        for condition in said
        if condition.status is not ConditionStatus.UNKNOWN
        and not (condition.type is Type.READY and condition.reason in told)
        and _is_news(condition, known)
    )


def _is_news(condition: Condition, known: Mapping[str, Json]) -> bool:
    before = known.get(condition.type)
    if before is None:
        return condition.status is ConditionStatus.FALSE and condition.reason not in _BEGINNINGS
    if (before["status"], before["reason"]) != (condition.status, condition.reason):
        return True
    message = condition.message[:MESSAGE_MAX]
    return condition.type not in _COUNTING and before["message"] != message
