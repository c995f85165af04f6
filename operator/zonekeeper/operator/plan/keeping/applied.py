"""No act of the last turn failed. Pure.

This stage waits only where no act is left to do. While the failed act is tried again, the plan of
the turn names the failure beside the act.
"""

from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.sight.observed import Observed


def stage(case: Case) -> Outcome:
    """Wait for a turn without a failure."""
    return waits(case.observed) or Settled()


def condition(observed: Observed) -> Condition:
    """Could the last turn do what it wanted?"""
    if (waiting := waits(observed)) is not None:
        return conditions.waiting(Type.APPLIED, waiting)
    return conditions.good(Type.APPLIED, "Applied", "no act of the last turn failed")


def waits(observed: Observed) -> Waiting | None:
    """Give what failed in the last turn, in the words of the API server or the store."""
    if not observed.failures:
        return None
    return Waiting(Predicate.FAILED, "\n".join(observed.failures))
