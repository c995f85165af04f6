"""While ``spec.paused`` is true, the operator looks and writes the status, and no more. Pure.

This stage comes first, so that none after it is asked. What is to be done is still told: the other
conditions say what they see, and ``operator plan`` shows the acts. What runs goes on by itself:
Kubernetes keeps pods up, and autorecovery repairs.

A deletion waits, too, where there is something to remove. Under ``onDelete: Retain`` there is
nothing, so the resource is let go.
"""

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.sight.observed import Observed


def stage(case: Case) -> Outcome:
    """Wait for as long as a person has stopped the acts."""
    return _waits(case.observed) or Settled()


def condition(observed: Observed) -> Condition:
    """Does the operator act?"""
    if (waiting := _waits(observed)) is not None:
        return conditions.waiting(Type.ACTING, waiting)
    return conditions.good(Type.ACTING, "Acting", "the operator does what is to be done")


def is_paused(observed: Observed) -> bool:
    """Has a person stopped the acts on this cluster?"""
    return desired.is_paused(observed.resource)


def _waits(observed: Observed) -> Waiting | None:
    if not is_paused(observed):
        return None
    why = "spec.paused is true: nothing is done for this cluster until it is false"
    return Waiting(Predicate.ACTS_PAUSED, why)
