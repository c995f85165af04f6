"""The autorecovery processes are gone. Pure.

They go first. A process that still runs would write its records into the root while the root is
being removed, and would take the end of each bookie for a loss.
"""

from zonekeeper.operator.kubernetes.api import DEPLOYMENTS
from zonekeeper.operator.plan.plans import RemoveObject
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.sight import naming


def stage(case: Case) -> Outcome:
    """Remove the Deployments, and wait until their pods are gone."""
    observed = case.observed
    removals = tuple(
        RemoveObject(kind=DEPLOYMENTS, name=name, uid=item["metadata"]["uid"])
        for name, item in sorted(observed.deployments.items())
    )
    if removals:
        why = "Deployments of autorecovery processes are being removed"
        return Act(removals, until=Waiting(Predicate.DEPLOYMENTS_LEFT, why))
    if observed.repairers:
        left = naming.some([pod.name for pod in observed.repairers])
        why = f"pods of autorecovery processes are not gone yet: {left}"
        return Waiting(Predicate.DEPLOYMENTS_LEFT, why)
    return Settled()
