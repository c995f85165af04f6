"""What people are told of a scale-down: ``status.scaling``. Pure."""

from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan.predicates import Predicate
from zonekeeper.operator.plan.scaling import scale_memory, scaling
from zonekeeper.operator.plan.scaling.scaling import ScaleProgress

#: So many bookies of the plan are shown.
STEPS_MAX: Final = 50


def status(progress: ScaleProgress) -> Json | None:
    """Give ``status.scaling``; None: no more bookies run than are asked for."""
    notes = scale_memory.plain(progress.notes)
    if not notes and not progress.steps and progress.waiting is None and not progress.moves:
        return None
    told: Json = {"phase": _phase(progress)}
    if progress.waiting is not None:
        told["doing"] = progress.waiting.why
    elif progress.moves:
        told["doing"] = scaling.told_of(progress.moves)
    if progress.steps:
        more = len(progress.steps) - STEPS_MAX
        shown = [str(one) for one in progress.steps[:STEPS_MAX]]
        told["plan"] = shown + ([f"and {more} bookies more"] if more > 0 else [])
    return told | notes


def _phase(progress: ScaleProgress) -> str:
    if progress.is_done is None:
        return "Unknown"
    if progress.waiting is None:
        return "Removing"
    match progress.waiting.predicate:
        case Predicate.REMOVAL_STUCK:
            return "Stuck"
        case Predicate.REMOVAL_WAITS:
            return "Waiting"
        case _:
            return "Removing"
