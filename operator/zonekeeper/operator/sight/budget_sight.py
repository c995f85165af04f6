"""What a look says of evictions: cordoned nodes, budgets that stand, and budgets of others. Pure.

The Eviction API refuses a pod that two budgets choose, whatever they allow. So a budget that
somebody else has made over bookies makes them impossible to evict, and is told.
"""

from collections.abc import Iterable, Iterator

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.owned_objects import controller_of
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.placement.base.ids import ZoneName


def cordoned(observed: Observed) -> frozenset[ZoneName]:
    """Give the zones with a bookie on a node that is cordoned."""
    return frozenset(pod.zone for pod in observed.pods if observed.nodes.is_cordoned(pod.node))


def closed(observed: Observed) -> frozenset[ZoneName]:
    """Give the zones over which a budget of this resource stands that allows no eviction.

    One that is being deleted counts: its deletion may hang, and until then it is in force.
    """
    before, after = owned_objects.budget_name(observed.resource["metadata"]["name"], "/").split("/")
    return frozenset(
        ZoneName(name.removeprefix(before).removesuffix(after))
        for name in observed.budgets
        if name.startswith(before) and name.endswith(after)
    )


def is_asked_for(observed: Observed) -> bool:
    """Does a drain perhaps ask for a zone that is not open yet?"""
    name = owned_objects.budget_name(str(observed.resource["metadata"]["name"]))
    return bool(cordoned(observed)) and name in observed.budgets


def is_drain(observed: Observed) -> bool:
    """Is a drain perhaps under way? Then the look reads what planned work asks."""
    return bool(cordoned(observed) or closed(observed))


def nodes_of_leavers(pods: Iterable[Pod], counts: Iterable[int]) -> frozenset[str]:
    """Name the nodes of zones in which a bookie has just gone, or is going, and others serve."""
    least, by_zone = max(counts, default=0), dict[ZoneName, list[Pod]]()
    for pod in pods:
        by_zone.setdefault(pod.zone, []).append(pod)
    return frozenset(
        pod.node
        for found in by_zone.values()
        if any(one.ready for one in found)
        and (len(found) < least or any(one.leaving or one.node is None for one in found))
        for pod in found
        if pod.node is not None
    )


def foreign(budgets: Iterable[Json], pods: Iterable[Json], resource: Json) -> tuple[str, ...]:
    """Name the budgets that this resource does not control and that choose a bookie of it."""
    meta, standing = resource["metadata"], list(pods)
    ours = owned_objects.budget_name(meta["name"])
    return tuple(
        sorted(
            str(item["metadata"]["name"])
            for item in budgets
            if controller_of(item) != meta["uid"]
            and item["metadata"]["name"] != ours  # the resource is blocked, and says so
            and any(_chooses(item["spec"].get("selector"), pod) for pod in standing)
        )
    )


def _chooses(selector: Json | None, pod: Json) -> bool:
    """Does a selector choose a pod? An empty one chooses all; one that is not there, none."""
    if selector is None:
        return False
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    asked = (selector.get("matchLabels") or {}).items() <= labels.items()
    return asked and all(_expressions(selector.get("matchExpressions") or (), labels))


def _expressions(asked: Iterable[Json], labels: dict[str, str]) -> Iterator[bool]:
    for one in asked:
        value, values = labels.get(one["key"]), one.get("values") or ()
        match one["operator"]:
            case "In":
                yield value in values
            case "NotIn":
                yield value not in values
            case "Exists":
                yield value is not None
            case "DoesNotExist":
                yield value is None
            case _:
                yield True  # an operator of later: it may choose the pod
