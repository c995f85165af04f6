"""Every pod of a bookie runs what is asked for; where it does not, the roll goes on. Pure.

The labels of the pods say what they run. The counts in a StatefulSet's status are not used, because
they may call a revision current that no pod runs.
"""

from typing import assert_never

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.kubernetes.api import PODS, STATEFUL_SETS, ZONE_LABEL
from zonekeeper.operator.plan import conditions, ownership, shaping
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.plans import (
    Action,
    Apply,
    DeclareMaintenance,
    LiftMaintenance,
    RemoveObject,
    RenewMaintenance,
)
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.roll import rolling, templates
from zonekeeper.operator.roll.rolling import Move, RollProgress
from zonekeeper.operator.sight import formats_pod


def stage(case: Case) -> Outcome:
    """Do what the roll does now, or wait for what it waits for."""
    progress = case.roll
    assert progress is not None, "the stage of legality waits"
    waiting = _waits(case, progress)
    actions = tuple(_action(move, case) for move in progress.moves)
    if actions:
        return Act(actions, until=waiting)
    return waiting or Settled()


def up_to_date(case: Case) -> Condition:
    """Does every pod run what is asked for?"""
    kind = Type.UP_TO_DATE
    if not case.observed.pods and _not_done(case) is None:
        return conditions.unknown(kind, "NoBookies", "no bookie runs yet")
    if case.buildable is None:
        return conditions.unknown(kind, "NotBuilt", "nothing is asked for that can be built")
    if (waiting := _old_pods(case)) is not None:
        return conditions.waiting(kind, waiting)
    if (waiting := _not_observed(case)) is not None:
        return conditions.unseen(kind, waiting)
    if (waiting := _not_done(case)) is not None:
        return conditions.waiting(kind, waiting)
    return conditions.good(kind, "UpToDate", "every pod runs what is asked for")


def condition(case: Case) -> Condition:
    """Does the roll go, where there is something to roll?"""
    kind, progress = Type.ROLLING, case.roll
    if progress is None:
        return conditions.unknown(kind, "NotBuilt", "nothing is asked for that can be built")
    if progress.halt is not None or progress.waits:
        waiting = _waits(case, progress)
        assert waiting is not None, "it halts or waits"
        return conditions.waiting(kind, waiting)
    if progress.is_done:
        return conditions.good(kind, "Settled", "nothing is to be rolled")
    return conditions.good(kind, "Stepping", progress.stepping or "the roll goes on")


def _waits(case: Case, progress: RollProgress) -> Waiting | None:
    if (halt := progress.halt) is not None:
        why = f"{halt.pod}: {halt.words}"
        cure = "nothing more is touched; correct the resource, or put back what was there before"
        return Waiting(Predicate.HALTED, f"{why}; {cure}")
    if progress.waits:
        told = [f"{one.gate}: {one.what}; {one.runbook}" for one in progress.waits]
        return Waiting(progress.waits[0].gate, "\n".join(told))
    return _old_pods(case) or _not_observed(case) or _not_done(case)


def _old_pods(case: Case) -> Waiting | None:
    """Count the pods that are known not to run what is asked for."""
    old = [
        f"{zone.made['metadata']['name']}: {count}"
        for zone in (() if case.roll is None else case.roll.sets)
        if (count := sum(zone.is_old(pod) for pod in zone.pods))
    ]
    if not old:
        return None
    return Waiting(
        Predicate.OLD_PODS, f"pods that run another template, by StatefulSet: {', '.join(old)}"
    )


def _not_done(case: Case) -> Waiting | None:
    """Give what the last step waits for when every pod runs what is asked for already."""
    if case.roll is None or case.roll.is_done:
        return None
    return Waiting(Predicate.OLD_PODS, case.roll.stepping or "the roll goes on")


def _not_observed(case: Case) -> Waiting | None:
    sets = case.observed.sets
    behind = [name for name, item in sets.items() if not templates.is_looked_at(item)]
    if not behind:
        return None
    return Waiting(
        Predicate.NOT_OBSERVED,
        f"Kubernetes has not looked at the newest template yet: {', '.join(behind)}",
    )


def _action(move: Move, case: Case) -> Action:
    instance = ownership.instance(case.observed)
    assert instance is not None, "a roll is of a cluster that was built"
    match move:
        case rolling.Reach(zone):
            body = next(
                body
                for kind, body in shaping.objects(case, reaching=zone)
                if kind is STATEFUL_SETS and body["metadata"]["labels"][ZONE_LABEL] == zone
            )
            return Apply(kind=STATEFUL_SETS, body=body)
        case rolling.Declare(unit):
            owner = desired.owner(case.observed.resource)
            return DeclareMaintenance(unit=unit, instance=instance, owner=owner)
        case rolling.Renew(declared):
            return RenewMaintenance(declared=declared, instance=instance)
        case rolling.Lift(declared):
            return LiftMaintenance(declared=declared, instance=instance)
        case rolling.TakeAway(name, uid) | rolling.ForgetImage(name, uid):
            return RemoveObject(kind=PODS, name=name, uid=uid)
        case rolling.AskImage(zone):
            first = next(one for one in case.desired.zones if one.name == zone)
            body = formats_pod.made(case.desired, first, case.observed.resource)
            return Apply(kind=PODS, body=body)
        case _:
            assert_never(move)
