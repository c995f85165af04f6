"""Conditions of a resource: what is true of it now, with a reason and a message. Pure.

The status of a condition is True, False or Unknown; Unknown is never shown as True or False. True
always means that all is well. Every turn gives every condition anew, so no condition outlives the
look that it was made from. The transition time changes only with the status. If only the reason or
the message changes, an event tells of it.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan.predicates import Waiting

MESSAGE_MAX: Final = 4_000
#: So many of a long list are named.
_NAMED_MAX: Final = 5


class Type(enum.StrEnum):
    """The matter of a condition."""

    #: The resource can be built: placement keeps what it promises.
    LEGAL = "Legal"
    #: The metadata store answers, and the root is this cluster's.
    METADATA_READY = "MetadataReady"
    #: The policy record belongs to this resource, and says what it asks for.
    POLICY_PUBLISHED = "PolicyPublished"
    #: No act of the last turn failed.
    APPLIED = "Applied"
    #: Each pod runs the newest template of its StatefulSet.
    UP_TO_DATE = "UpToDate"
    #: Each bookie stands where its name and its cookie say.
    LOCATIONS_VERIFIED = "LocationsVerified"
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


#: Their messages count or name bookies, and change often. Only a new reason makes an event.
_COUNTING: Final = frozenset(
    {Type.METADATA_READY, Type.READY, Type.UP_TO_DATE, Type.LOCATIONS_VERIFIED, Type.RELEASED}
)

#: The reasons that every new cluster begins with. They make no event the first time.
_BEGINNINGS: Final = frozenset({"NotInitialised", "NoPolicy", "BookiesNotReady", "Refused"})


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


def some(names: Sequence[str]) -> str:
    """Name the first few, and count the others."""
    more = len(names) - _NAMED_MAX
    return ", ".join(sorted(names)[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


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
    """Give an event for each condition whose change is news."""
    known = {item["type"]: item for item in before}
    return tuple(
        Notice(
            warning=condition.status is ConditionStatus.FALSE,
            reason=condition.reason,
            message=f"{condition.type}: {condition.message[:MESSAGE_MAX]}",
        )
        for condition in conditions
        if condition.status is not ConditionStatus.UNKNOWN and _is_news(condition, known)
    )


def _is_news(condition: Condition, known: Mapping[str, Json]) -> bool:
    before = known.get(condition.type)
    if before is None:
        is_new = condition.reason not in _BEGINNINGS or condition.type is Type.LEGAL
        return condition.status is ConditionStatus.FALSE and is_new
    if (before["status"], before["reason"]) != (condition.status, condition.reason):
        return True
    message = condition.message[:MESSAGE_MAX]
    return condition.type not in _COUNTING and before["message"] != message
