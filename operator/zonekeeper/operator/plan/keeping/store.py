"""The metadata store of a cluster that was built answers. Pure.

This stage comes after the objects: a cluster that was built is kept up while its store does not
answer.
"""

from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.roots import roots


def stage(case: Case) -> Outcome:
    """Wait until the store answers."""
    match case.observed.root:
        case roots.Unreachable(reason):
            return Waiting(Predicate.UNREACHABLE, reason)
        case _:
            return Settled()
