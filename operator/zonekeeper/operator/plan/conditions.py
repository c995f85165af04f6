"""Conditions of a resource: what is true of it now, each with a reason and words. Pure.

A condition says True, False or Unknown; Unknown is never shown as one of the others. All are worded
so that True is well. A turn gives all of them, so a condition never outlives what it was said of.
Its transition time moves only when its status does; what changed in between is told by an event.
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
    """What a condition is about."""

    #: The resource can be built: placement keeps what it promises.
    LEGAL = "Legal"
    #: The metadata store answers, and the root in it is this cluster's.
    METADATA_READY = "MetadataReady"
    #: The policy record is the resource's, and ours.
    POLICY_PUBLISHED = "PolicyPublished"
    #: What had to be done in the last turn could be done.
    APPLIED = "Applied"
    #: Each pod runs what the resource says.
    UP_TO_DATE = "UpToDate"
    #: Each bookie stands where its cookie says.
    LOCATIONS_VERIFIED = "LocationsVerified"
    #: All bookies are ready.
    READY = "Ready"
    #: Nothing keeps a deleted resource any more; only shown while one is kept.
    RELEASED = "Released"


class ConditionStatus(enum.StrEnum):
    """Three answers."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, before it has a time."""

    type: Type
    status: ConditionStatus
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to be told as an event."""

    warning: bool
    reason: str
    message: str


#: Their words count or name bookies: each step would be an event, so only a new reason is one.
_COUNTING: Final = frozenset(
    {Type.METADATA_READY, Type.READY, Type.UP_TO_DATE, Type.LOCATIONS_VERIFIED, Type.RELEASED}
)

#: How a new cluster begins: no news until it was different.
_BEGINNINGS: Final = frozenset({"NotInitialised", "NoPolicy", "BookiesNotReady", "Refused"})


def good(kind: Type, reason: str, message: str) -> Condition:
    """Say that it holds."""
    return Condition(type=kind, status=ConditionStatus.TRUE, reason=reason, message=message)


def bad(kind: Type, reason: str, message: str) -> Condition:
    """Say that it does not hold."""
    return Condition(type=kind, status=ConditionStatus.FALSE, reason=reason, message=message)


def unknown(kind: Type, reason: str, message: str) -> Condition:
    """Say that nobody knows."""
    return Condition(type=kind, status=ConditionStatus.UNKNOWN, reason=reason, message=message)


def waiting(kind: Type, found: Waiting) -> Condition:
    """Say that it does not hold, and that this is waited for."""
    return bad(kind, str(found.predicate), found.why)


def unseen(kind: Type, found: Waiting) -> Condition:
    """Say that nobody knows until this has happened."""
    return unknown(kind, str(found.predicate), found.why)


def some(names: Sequence[str]) -> str:
    """Name a few of many, and count the others."""
    more = len(names) - _NAMED_MAX
    return ", ".join(sorted(names)[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def timed(
    conditions: Iterable[Condition], before: Iterable[Json], generation: int, now: str
) -> list[Json]:
    """Give conditions as the API has them; a status that did not change keeps its time."""
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
    """Give what changed since the last turn and is worth an event."""
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
