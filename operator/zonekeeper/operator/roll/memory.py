"""What the roll notes in ``status.roll``: the step that has begun, the end of the last one. Pure.

The status is written before a turn acts. So the step is noted before its first pod is deleted, with
the uid of each pod and the number of each bookie's start. An operator that has just started goes on
with it, and deletes no pod but these.

If the note is lost, nothing is deleted because of it: the bookies of a unit that is in maintenance
are waited for, and a new step begins. A note that cannot be read counts as lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBookie:
    """A bookie of a step, as it was before the step."""

    bookie: BookieId
    #: The uid of the pod that is to be made anew.
    uid: str
    #: The number of the start that this pod's bookie had; None: it was not known.
    boot_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Why the roll has stopped by itself."""

    pod: BookieId
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunStep:
    """The step that has begun."""

    unit: Location
    taken: tuple[TakenBookie, ...]
    #: Names the templates that the step brings.
    brings: str
    #: Wall time.
    begun_ms: int
    is_canary: bool = False
    #: No bookie of the step was ready.
    is_unready: bool = False
    #: None of them was registered either.
    is_away: bool = False
    #: A person let the step pass the gate ``ledgerAtRisk``.
    is_overridden: bool = False
    halt: Halt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollMemory:
    """The notes as a whole."""

    step: BegunStep | None = None
    #: Wall time of the end of the last step; None: there was none in this roll.
    ended_ms: int | None = None
    #: The templates whose canary was well.
    proven: str | None = None
    #: The override that has let a step pass, and is not taken again.
    used: str | None = None
    #: Since when each gate is waited for, as the API writes it.
    waits_since: Mapping[str, str] = field(default_factory=dict)


def read(status: Json) -> RollMemory:
    """Read the notes; what cannot be read is lost."""
    told = status.get("roll")
    if not isinstance(told, dict):
        return RollMemory()
    try:
        return _read(told)
    except (KeyError, TypeError, ValueError):
        return RollMemory()


def plain(memory: RollMemory) -> Json:
    """Give the notes as the status has them, without the waits."""
    told: Json = {}
    if memory.step is not None:
        told["step"] = _step(memory.step)
    if memory.ended_ms is not None:
        told["endedMs"] = memory.ended_ms
    if memory.proven is not None:
        told["proven"] = memory.proven
    if memory.used is not None:
        told["overrideUsed"] = memory.used
    return told


def _step(step: BegunStep) -> Json:
    told: Json = {
        "unit": str(step.unit),
        "brings": step.brings,
        "begunMs": step.begun_ms,
        "bookies": [
            {"name": one.bookie, "uid": one.uid}
            | ({} if one.boot_epoch is None else {"bootEpoch": one.boot_epoch})
            for one in step.taken
        ],
    }
    for name, is_so in (
        ("canary", step.is_canary),
        ("unready", step.is_unready),
        ("away", step.is_away),
        ("overridden", step.is_overridden),
    ):
        if is_so:
            told[name] = True
    if step.halt is not None:
        told["halt"] = {"pod": step.halt.pod, "words": step.halt.words}
    return told


def _read(told: Json) -> RollMemory:
    waits = {str(one["gate"]): str(one["since"]) for one in told.get("waitingFor") or ()}
    ended_ms, proven, used = (told.get(name) for name in ("endedMs", "proven", "overrideUsed"))
    return RollMemory(
        step=_read_step(told["step"]) if "step" in told else None,
        ended_ms=None if ended_ms is None else int(ended_ms),
        proven=None if proven is None else str(proven),
        used=None if used is None else str(used),
        waits_since=waits,
    )


def _read_step(told: Json) -> BegunStep:
    unit = locations.parse(str(told["unit"]))
    if unit is None:
        raise ValueError(f"{told['unit']!r} is no unit")
    halt = told.get("halt")
    return BegunStep(
        unit=unit,
        taken=tuple(
            TakenBookie(
                bookie=BookieId(str(one["name"])),
                uid=str(one["uid"]),
                boot_epoch=int(one["bootEpoch"]) if "bootEpoch" in one else None,
            )
            for one in told["bookies"]
        ),
        brings=str(told["brings"]),
        begun_ms=int(told["begunMs"]),
        is_canary=told.get("canary") is True,
        is_unready=told.get("unready") is True,
        is_away=told.get("away") is True,
        is_overridden=told.get("overridden") is True,
        halt=Halt(pod=BookieId(str(halt["pod"])), words=str(halt["words"])) if halt else None,
    )
