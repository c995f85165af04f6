"""Every pod runs what its StatefulSet says now. Pure.

The labels of the pods say what they run. The counts in a StatefulSet's status are not used, because
they may call a revision current that no pod runs.
"""

from zonekeeper.operator.cluster.observed import Observed
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Wait until old pods were deleted, and until Kubernetes has looked at the templates."""
    return _old_pods(case.observed) or _not_observed(case.observed) or Settled()


def condition(observed: Observed) -> Condition:
    """Does every pod run what its StatefulSet says now?"""
    kind = Type.UP_TO_DATE
    if not observed.pods:
        return conditions.unknown(kind, "NoBookies", "no bookie runs yet")
    if (waiting := _old_pods(observed)) is not None:
        return conditions.waiting(kind, waiting)
    if (waiting := _not_observed(observed)) is not None:
        return conditions.unseen(kind, waiting)
    return conditions.good(kind, "UpToDate", "every pod runs the newest template")


def _old_pods(observed: Observed) -> Waiting | None:
    old = [
        f"{name}: {count}"
        for name, item in observed.sets.items()
        if (count := _old(item, observed))
    ]
    if not old:
        return None
    return Waiting(
        Predicate.OLD_PODS,
        f"pods that run an older template, by StatefulSet: {', '.join(old)}; a pod gets the new "
        "template when it is deleted: delete the pods of one zone after another",
    )


def _old(item: Json, observed: Observed) -> int:
    """Count the pods of a StatefulSet that are known not to be of its newest template."""
    newest = item.get("status", {}).get("updateRevision")
    if newest is None or not _is_looked_at(item):
        return 0
    name = item["metadata"]["name"]
    return sum(
        pod.revision != newest for pod in observed.pods if pod.name.rpartition("-")[0] == name
    )


def _not_observed(observed: Observed) -> Waiting | None:
    behind = [name for name, item in observed.sets.items() if not _is_looked_at(item)]
    if not behind:
        return None
    return Waiting(
        Predicate.NOT_OBSERVED,
        f"Kubernetes has not looked at the newest template yet: {', '.join(behind)}",
    )


def _is_looked_at(item: Json) -> bool:
    seen = item.get("status", {}).get("observedGeneration", 0)
    return int(seen) >= int(item["metadata"]["generation"])
