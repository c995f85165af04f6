"""What people are told of the roll: ``status.roll``, and one event for each gate. Pure."""

from collections.abc import Iterator
from typing import Final

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.roll import memory
from zonekeeper.operator.roll.gates import GateWait, RollGate
from zonekeeper.operator.roll.rolling import RollProgress
from zonekeeper.operator.sight.observed import Observed

#: So many steps of the plan are shown.
STEPS_MAX: Final = 50


def status(desired: Desired, observed: Observed, progress: RollProgress, now: str) -> Json:
    """Give ``status.roll``; ``now`` is wall time as the API writes it."""
    sets = progress.sets
    # Bookies that are to be removed are rolled like others as long as they run.
    total = sum(max(desired.bookies_per_zone, len(zone.pods)) for zone in sets)
    old = sum(zone.is_old(pod) for zone in sets for pod in zone.pods)
    told: Json = {
        "phase": phase(progress),
        "updated": sum(len(zone.pods) for zone in sets) - old,
        "total": total,
    }
    if progress.stepping is not None:
        told["doing"] = progress.stepping
    since = memory.read(observed.status).waits_since
    if progress.waits:
        told["waitingFor"] = [
            {
                "gate": str(one.gate),
                "what": one.what,
                "since": since.get(one.gate, now),
                "runbook": one.runbook,
            }
            for one in progress.waits
        ]
    if progress.steps:
        shown = [str(step) for step in progress.steps[:STEPS_MAX]]
        more = len(progress.steps) - len(shown)
        told["plan"] = shown + ([f"and {more} steps more"] if more else [])
    return told | memory.plain(progress.notes)


def phase(progress: RollProgress) -> str:
    """Give the state of the roll in one word."""
    if progress.halt is not None:
        return "Halted"
    if any(one.gate is RollGate.PAUSED for one in progress.waits):
        return "Paused"
    if progress.waits:
        return "Waiting"
    return "Settled" if progress.is_done else "Stepping"


def fresh_waits(observed: Observed, progress: RollProgress) -> Iterator[GateWait]:
    """Give the gates that the roll waits for since now."""
    known = memory.read(observed.status).waits_since
    yield from (one for one in progress.waits if one.gate not in known)
