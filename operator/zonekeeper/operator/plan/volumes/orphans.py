"""Pods that have lost their StatefulSet go with a deleted resource. Pure.

While a StatefulSet is made again, no object controls its pods, so Kubernetes would leave them when
the resource goes. The finalizer holds the resource for that time, also under ``onDelete: Retain``.
"""

from zonekeeper.operator.kubernetes.api import PODS
from zonekeeper.operator.plan.plans import RemoveObject
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.sight import naming, observed


def stage(case: Case) -> Outcome:
    """Delete them by their uids."""
    again = {one.set_name for one in case.observed.kept_sets}
    left = [pod for pod in case.observed.pods if observed.is_orphan(pod, again) and not pod.leaving]
    if not left:
        return Settled()
    removals = tuple(RemoveObject(kind=PODS, name=pod.name, uid=pod.uid) for pod in left)
    why = f"pods without a StatefulSet are being removed: {naming.some([one.name for one in left])}"
    return Act(removals, until=Waiting(Predicate.PODS_LEFT, why))
