"""The objects of a zone that is not asked for any more are gone. Pure.

The stage of legality waits while a bookie of such a zone may hold something, so nothing is lost:
this is how a slip is undone. It comes after the policy, by which no writer chooses the zone any
more. Volumes and cookies stay.
"""

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, POLICIES, STATEFUL_SETS
from zonekeeper.operator.plan.plans import RemoveObject
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Remove the StatefulSets, Deployments and NetworkPolicies that nobody asks for."""
    if not case.builds_as_asked:
        return Settled()
    observed = case.observed
    wanted = {(kind.plural, name) for kind, name in owned_objects.names(case.desired)}
    removals = tuple(
        RemoveObject(kind=kind, name=name, uid=item["metadata"]["uid"])
        for kind, items in (
            (STATEFUL_SETS, observed.sets),
            (DEPLOYMENTS, observed.deployments),
            (POLICIES, observed.policies),
        )
        for name, item in items.items()
        if (kind.plural, name) not in wanted
    )
    return Act(removals) if removals else Settled()
