"""A drill as ``status.drill`` has it. Pure.

The record is all that a drill is. The status is written before a turn acts, so the record says that
a zone goes away before its first pod does. A record that is lost, or that cannot be read, is no
drill: the stages of keeping then bring the zone back, and so does an operator of a version that
knows no drills.

A drill that has ended stays in the status as its report, until the next one begins.
"""

import enum
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base.ids import ZoneName

#: What is told of why a drill ended is no longer.
WHY_MAX: Final = 1_000
#: Nor are the figures of a probe.
PROBE_MAX: Final = 4_096


class DrillPhase(enum.StrEnum):
    """How far a drill is."""

    #: The probe starts; nothing has been taken away.
    PROBING = "Probing"
    #: The pods of the zone are away.
    AWAY = "Away"
    #: They come back.
    RETURNING = "Returning"
    #: It is over.
    ENDED = "Ended"


class DrillOutcome(enum.StrEnum):
    """How a drill ended."""

    #: The zone was away for as long as was asked for, and nothing was lost.
    COMPLETED = "Completed"
    #: It was ended before its time, or something was lost.
    ABORTED = "Aborted"
    #: The zone was never away.
    NOT_BEGUN = "NotBegun"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRecord:
    """One drill."""

    #: That of its order.
    token: str
    zone: ZoneName
    by: str
    #: For so long the zone is to be away.
    for_ms: int
    #: The version of the spec that it began under: another one ends it.
    generation: int
    #: The bookies that the zone's StatefulSet had.
    bookies: int
    phase: DrillPhase
    #: Wall time of the operator, as all that follow. ``begun <= away <= back <= ended``.
    begun_ms: int
    away_ms: int | None = None
    #: When the zone was called back.
    back_ms: int | None = None
    ended_ms: int | None = None
    #: When the gate of the zone was seen held for the first time while it was away.
    held_ms: int | None = None
    #: The Secret that the probe shows; None: that of the client ``drill``.
    secret: str | None = None
    outcome: DrillOutcome | None = None
    why: str = ""
    #: The figures of the probe, as its last words say them; empty: it left none.
    probe: str = ""

    @property
    def is_on(self) -> bool:
        """Is the drill not over yet?"""
        return self.phase is not DrillPhase.ENDED


def read(status: Json) -> DrillRecord | None:
    """Read the record; None: there is none, or none that can be read."""
    told = status.get("drill")
    if not isinstance(told, dict):
        return None
    try:
        return _read(told)
    except (KeyError, TypeError, ValueError):
        return None


def plain(record: DrillRecord) -> Json:
    """Give the record as the status has it."""
    told: Json = {
        "token": record.token,
        "zone": str(record.zone),
        "by": record.by,
        "forMs": record.for_ms,
        "generation": record.generation,
        "bookies": record.bookies,
        "phase": str(record.phase),
        "begunMs": record.begun_ms,
    }
    for name, value in (
        ("awayMs", record.away_ms),
        ("backMs", record.back_ms),
        ("endedMs", record.ended_ms),
        ("heldMs", record.held_ms),
        ("secret", record.secret),
        ("outcome", None if record.outcome is None else str(record.outcome)),
        ("why", record.why[:WHY_MAX] or None),
        ("probe", record.probe or None),
    ):
        if value is not None:
            told[name] = value
    return told


def _read(told: Json) -> DrillRecord:
    outcome = told.get("outcome")
    return DrillRecord(
        token=str(told["token"]),
        zone=ZoneName(str(told["zone"])),
        by=str(told["by"]),
        for_ms=int(told["forMs"]),
        generation=int(told["generation"]),
        bookies=int(told["bookies"]),
        phase=DrillPhase(told["phase"]),
        begun_ms=int(told["begunMs"]),
        away_ms=_number(told.get("awayMs")),
        back_ms=_number(told.get("backMs")),
        ended_ms=_number(told.get("endedMs")),
        held_ms=_number(told.get("heldMs")),
        secret=None if told.get("secret") is None else str(told["secret"]),
        outcome=None if outcome is None else DrillOutcome(outcome),
        why=str(told.get("why", "")),
        probe=str(told.get("probe", "")),
    )


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))
