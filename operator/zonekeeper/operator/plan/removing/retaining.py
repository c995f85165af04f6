"""Under ``onDelete: Retain`` a deleted resource is let go at once. Pure.

Kubernetes removes the objects that the resource owns, with or without the operator. Volumes and
root stay.
"""

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.choices import OnDelete
from zonekeeper.operator.plan.plans import Release
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Let go where everything is to be retained."""
    if desired.on_delete(case.observed.resource) is OnDelete.RETAIN:
        return Act((Release(),))
    return Settled()
