"""Nodes can be drained: which zone is open, what a drain waits for, what is in its way. Pure.

A zone that is open is no trouble: the condition is True, and says which bookies may be evicted.
"""

from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.draining import draining
from zonekeeper.operator.plan.draining.draining import DrainProgress
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.sight import naming


def stage(case: Case) -> Outcome:
    """Wait until every drain that asks for a zone has it, and no budget of others is in the way."""
    return _waits(case, draining.decide(case)) or Settled()


def condition(case: Case) -> Condition:
    """Can nodes be drained, and how?"""
    kind, progress = Type.DRAINABLE, draining.decide(case)
    if progress is None:
        return conditions.unknown(kind, "NotBuilt", "no cluster of this resource was built yet")
    if (waiting := _waits(case, progress)) is not None:
        return conditions.waiting(kind, waiting)
    if progress.open is not None:
        why = (
            f"all bookies of zone {progress.open} may be evicted, and none of another zone, until "
            "no node of it is cordoned and nothing is missing"
        )
        return conditions.good(kind, "ZoneOpen", why)
    if case.desired.drains_paused:
        why = "one bookie at a time may be evicted; spec.drains.paused is true: no zone is opened"
        return conditions.good(kind, "OneByOne", why)
    return conditions.good(kind, "AtRest", "one bookie at a time may be evicted")


def _waits(case: Case, progress: DrainProgress | None) -> Waiting | None:
    if progress is None:
        return None
    if names := case.observed.foreign_budgets:
        why = (
            f"PodDisruptionBudgets of somebody else choose bookies: {naming.some(list(names))}; "
            "Kubernetes evicts no pod that two budgets choose: delete them, or let them choose "
            "other pods"
        )
        return Waiting(Predicate.FOREIGN_BUDGET, why)
    if progress.kept:
        why = (
            f"PodDisruptionBudgets are deleted, and finalizers of somebody else keep them: "
            f"{naming.some(list(progress.kept))}; they are in force until the finalizers are taken "
            "off, and no zone is opened or closed past them"
        )
        return Waiting(Predicate.DRAIN_WAITS, why)
    if not progress.waits:
        return None
    told = [f"zone {zone}: {why}" for zone, why in sorted(progress.waits.items())]
    return Waiting(Predicate.DRAIN_WAITS, "\n".join(told))
