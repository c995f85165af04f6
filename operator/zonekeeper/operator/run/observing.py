"""Reads everything that a turn decides from, at the API server and in the metadata store."""

import re

from zonekeeper.operator.cluster import desired, observed, owned_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.cluster.observed import Observed, VolumeClaim
from zonekeeper.operator.kubernetes.api import (
    CLAIMS,
    CLUSTER_LABEL,
    NODES,
    OWNED,
    PODS,
    Json,
    Kubernetes,
    NotPermittedError,
)
from zonekeeper.operator.roots.roots import Roots


async def look(
    kubernetes: Kubernetes,
    root: Roots,
    resource: Json,
    wanted: Desired | RefusedResource,
    failures: tuple[str, ...],
) -> Observed:
    """Read everything; raises ``KubernetesError`` where the API server does not answer."""
    meta = resource["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    labels = f"{CLUSTER_LABEL}={name}"
    owned = {
        (kind.plural, item["metadata"]["name"]): item
        for kind in OWNED
        for item in await kubernetes.list(kind, namespace, labels=labels)
    }
    if isinstance(wanted, Desired):
        owned |= await _by_name(kubernetes, wanted, resource, owned)
    return Observed(
        resource=resource,
        owned=owned,
        pods=observed.bookies(
            await kubernetes.list(PODS, namespace, labels=labels), resource, owned.values()
        ),
        claims=_claims(name, await kubernetes.list(CLAIMS, namespace, labels=labels)),
        nodes=await _nodes(kubernetes),
        root=await root.look(desired.metadata_uri(resource)),
        failures=failures,
    )


async def _by_name(
    kubernetes: Kubernetes, wanted: Desired, resource: Json, known: dict[tuple[str, str], Json]
) -> dict[tuple[str, str], Json]:
    """Find objects with a name that the cluster needs and without its label: mostly of others."""
    found = {}
    for kind, body in owned_objects.all_of(wanted, resource, None):
        key = (kind.plural, body["metadata"]["name"])
        if key not in known:
            item = await kubernetes.get(kind, wanted.namespace, key[1])
            if item is not None:
                found[key] = item
    return found


def _claims(cluster: str, items: list[Json]) -> dict[str, VolumeClaim]:
    """Pick the claims of bookies' volumes, of this cluster or an earlier one of its name."""
    name = re.compile(rf"{owned_objects.VOLUME}-{re.escape(cluster)}-.+-[0-9]+")
    return {
        item["metadata"]["name"]: observed.claim(item)
        for item in items
        if name.fullmatch(item["metadata"]["name"])
    }


async def _nodes(kubernetes: Kubernetes) -> dict[str, dict[str, str]] | None:
    try:
        items = await kubernetes.list(NODES, "")
    except NotPermittedError:
        return None
    return {item["metadata"]["name"]: item["metadata"].get("labels", {}) for item in items}
