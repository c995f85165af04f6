"""The pods of bookies are gone: a bookie never runs without its volume or its root. Pure.

Kubernetes deletes pods once their StatefulSet is gone, and the operator only waits. A pod on a node
that is away stays until a person says that the node is gone.
"""

from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Wait until no pod is left."""
    if not case.observed.pods:
        return Settled()
    on = ", ".join(sorted(f"{pod.name} (node {pod.node})" for pod in case.observed.pods))
    return Waiting(Predicate.PODS_LEFT, f"pods are not gone yet: {on}")
