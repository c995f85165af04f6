"""The objects of a cluster as they shall be now: each template where the roll is. Pure."""

from collections.abc import Iterator

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.operator.plan import ownership, taking
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.roll import order, templates
from zonekeeper.placement.base.ids import ZoneName


def objects(case: Case, *, reaching: ZoneName | None = None) -> Iterator[tuple[ObjectKind, Json]]:
    """Give every object but the disruption budgets; the roll reaches the zone ``reaching`` now."""
    observed, instance = case.observed, ownership.instance(case.observed)
    assert case.roll is not None, "there is a cluster that can be built"
    is_free = order.are_deployments_free(case.roll.sets, observed)
    counts = taking.replicas(case.desired, observed)
    for kind, made in owned_objects.all_of(case.desired, observed.resource, instance):
        if kind is BUDGETS:
            continue  # ``draining`` says which of them stand
        name = made["metadata"]["name"]
        found = observed.owned.get((kind.plural, name))
        if found is None:
            yield kind, owned_objects.with_replicas(made, counts[name]) if name in counts else made
        elif kind is STATEFUL_SETS:
            zone = ZoneName(made["metadata"]["labels"][ZONE_LABEL])
            sized = owned_objects.with_replicas(made, counts[name])
            body = owned_objects.with_standing_claims(templates.asked_for(sized, found), found)
            pods = [pod for pod in observed.pods if pod.zone == zone]
            is_reached = (
                zone == reaching
                or templates.stands(body, found)
                or (
                    templates.is_in_midst(found, pods)
                    and (case.roll.is_image_free or templates.puts_back(body, found, pods))
                )
            )
            yield kind, body if is_reached else templates.keeping(body, found)
        elif kind is DEPLOYMENTS:
            body = templates.asked_for(made, found)
            keeps = not is_free and not templates.stands(body, found)
            yield kind, templates.keeping(body, found) if keeps else body
        else:
            yield kind, made
