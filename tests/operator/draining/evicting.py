"""The Eviction API over the budgets of a twin, and the one rule that must hold at any moment."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    CLUSTER_LABEL,
    PODS,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
)
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes


def bookies(items: Iterable[Json], cluster: str) -> list[Json]:
    """Pick the pods of bookies."""
    return [one for one in items if one["metadata"]["labels"].get(CLUSTER_LABEL) == cluster]


def is_healthy(pod: Json) -> bool:
    said = pod.get("status", {}).get("conditions") or ()
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in said)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def chooses(budget: Json, pod: Json) -> bool:
    labels = pod["metadata"]["labels"].items()
    return bool(budget["spec"]["selector"]["matchLabels"].items() <= labels)


def may_evict(
    name: str, pods: Sequence[Json], budgets: Sequence[Json], expected: Mapping[str, int]
) -> bool:
    """Answer as the API server does, with counts that are fresh.

    ``expected`` is the number of bookies that shall run, by zone.
    """
    pod = next((one for one in pods if one["metadata"]["name"] == name), None)
    if pod is None:
        return False
    found = [one for one in budgets if chooses(one, pod)]
    if len(found) > 1:
        return False  # the API server says 500
    if not found:
        return True
    of_budget, policy = [one for one in pods if chooses(found[0], one)], found[0]["spec"]
    zone = policy["selector"]["matchLabels"].get(ZONE_LABEL)
    shall = sum(expected.values()) if zone is None else expected.get(zone, 0)
    healthy = sum(map(is_healthy, of_budget))
    if not is_healthy(pod) and policy.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    least = shall - int(policy["maxUnavailable"])
    return healthy > least if is_healthy(pod) else healthy >= least


def broken_rule(pods: Sequence[Json], budgets: Sequence[Json], expected: Mapping[str, int]) -> str:
    """Say which two zones may lose bookies by evictions alone; empty: no two may.

    The first eviction takes a pod of one zone. Then no healthy pod of another zone may be evicted.
    """
    healthy = [one for one in pods if is_healthy(one)]
    for first, second in itertools.permutations(healthy, 2):
        zones = [one["metadata"]["labels"][ZONE_LABEL] for one in (first, second)]
        if zones[0] == zones[1]:
            continue
        names = [one["metadata"]["name"] for one in (first, second)]
        if not may_evict(names[0], pods, budgets, expected):
            continue
        left = [one for one in pods if one is not first]
        gone = first | {"status": {}}
        if may_evict(names[1], [*left, gone], budgets, expected):
            return f"{names[0]} and {names[1]} may be evicted"
    return ""


def of_twin(kubernetes: MemoryKubernetes, space: str, cluster: str) -> str:
    """Ask the same of what a twin holds now; budgets of others only make evictions fail.

    A pod that is away may be there again at any time, while no operator runs. So the rule is also
    asked as if every pod was there and ready.
    """
    pods, budgets = bookies(held(kubernetes, PODS.plural, space), cluster), ours(kubernetes, space)
    expected = sizes(kubernetes, space)
    whole = [
        {
            "metadata": {
                "name": f"{cluster}-{zone}-{number}",
                "labels": {CLUSTER_LABEL: cluster, ZONE_LABEL: zone},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for zone, count in expected.items()
        for number in range(count)
    ]
    return broken_rule(pods, budgets, expected) or broken_rule(whole, budgets, expected)


def sizes(kubernetes: MemoryKubernetes, space: str) -> dict[str, int]:
    """Give the bookies that the StatefulSet of each zone asks for."""
    return {
        item["spec"]["selector"]["matchLabels"][ZONE_LABEL]: item["spec"]["replicas"]
        for item in held(kubernetes, STATEFUL_SETS.plural, space)
    }


def ours(kubernetes: MemoryKubernetes, space: str) -> list[Json]:
    """Give the budgets that have an owner."""
    found = held(kubernetes, BUDGETS.plural, space)
    return [one for one in found if one["metadata"].get("ownerReferences")]


def held(kubernetes: MemoryKubernetes, plural: str, space: str) -> list[Json]:
    """Give the objects of a kind past all that may disturb a call."""
    found = kubernetes._objects.items()  # a look that no fate meets
    return [
        item for key, item in sorted(found, key=lambda one: one[0]) if key[:2] == (plural, space)
    ]
