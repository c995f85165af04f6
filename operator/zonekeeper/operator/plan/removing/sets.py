"""The resource's StatefulSets are gone, so nothing starts a bookie any more. Pure."""

from zonekeeper.operator.kubernetes.api import STATEFUL_SETS
from zonekeeper.operator.plan.plans import RemoveObject
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Remove all of them."""
    removals = tuple(
        RemoveObject(kind=STATEFUL_SETS, name=name, uid=item["metadata"]["uid"])
        for name, item in sorted(case.observed.sets.items())
    )
    if not removals:
        return Settled()
    why = "StatefulSets are being removed"
    return Act(removals, until=Waiting(Predicate.STATEFUL_SETS_LEFT, why))
