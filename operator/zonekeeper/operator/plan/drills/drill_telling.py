"""What is told of a drill: its record, whether the operator acts, an event for each phase. Pure."""

from collections.abc import Iterator

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Notice, Type
from zonekeeper.operator.plan.drills import drill_record, drilling
from zonekeeper.operator.plan.drills.drill_record import DrillOutcome
from zonekeeper.operator.plan.drills.drilling import DrillProgress
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.sight.observed import Observed


def status(drill: DrillProgress) -> Json:
    """Give ``status.drill``; nothing, if there was none."""
    return {} if drill.record is None else {"drill": drill_record.plain(drill.record)}


def waits(drill: DrillProgress) -> Waiting | None:
    """Say that nothing else is done while a drill is on; None: none is."""
    if drill.record is None or not drill.is_on:
        return None
    return Waiting(Predicate.DRILL, drilling.told(drill.record))


def condition(drill: DrillProgress, otherwise: Condition) -> Condition:
    """Does the operator act? ``otherwise`` says so of a cluster without a drill."""
    waiting = waits(drill)
    return otherwise if waiting is None else conditions.waiting(Type.ACTING, waiting)


def notices(drill: DrillProgress, observed: Observed) -> Iterator[Notice]:
    """Give one event for each phase of a drill."""
    record, before = drill.record, drill_record.read(observed.status)
    if record is None or (
        before is not None and (before.token, before.phase) == (record.token, record.phase)
    ):
        return
    said = drilling.told(record)
    if record.outcome is not None:
        why = f": {record.why}" if record.why else ""
        said = f"a drill of zone {record.zone} by {record.by}: {record.outcome}{why}"
    warning = record.outcome is DrillOutcome.ABORTED
    yield Notice(warning=warning, reason=f"Drill{record.phase}", message=said)
