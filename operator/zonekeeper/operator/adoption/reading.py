"""Reads bookies that run already, and says what their adoption would change; changes nothing.

The answer is asked for twice: the resource is read off what runs, and the very decisions of a turn
say what the operator would do with it.
"""

from dataclasses import dataclass, replace

from zonekeeper.operator.adoption import rebuilt
from zonekeeper.operator.adoption.rebuilt import NotRebuiltError, StandingObjects
from zonekeeper.operator.cluster import owned_objects, tls_parts
from zonekeeper.operator.kubernetes.api import (
    CLUSTER_LABEL,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    KEEPS_LABEL,
    POLICIES,
    SECRETS,
    STATEFUL_SETS,
    Json,
    Kubernetes,
)
from zonekeeper.operator.plan.preflight import ResourcePreflight
from zonekeeper.operator.roots.roots import Opener, RootFound, Roots
from zonekeeper.operator.run import preflighting


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPreflight:
    """The resource to apply, and what would come of it."""

    resource: Json
    found: ResourcePreflight


async def look(
    kubernetes: Kubernetes, opener: Opener, namespace: str, name: str
) -> AdoptionPreflight:
    """Read what runs beside the StatefulSet of this name; raises ``NotRebuiltError``."""
    given = await kubernetes.get(STATEFUL_SETS, namespace, name)
    if given is None:
        raise NotRebuiltError(f"namespace {namespace}: there is no StatefulSet {name}")
    standing = await _standing(kubernetes, namespace, rebuilt.cluster_of(given))
    root = Roots(opener)
    try:
        seen = await root.look(rebuilt.address(standing))
    finally:
        await root.close()
    if isinstance(seen, RootFound):
        standing = replace(standing, policy=seen.policy, instance=seen.instance)
    resource = rebuilt.resource(standing)
    return AdoptionPreflight(
        resource=resource, found=await preflighting.look(kubernetes, opener, resource)
    )


async def _standing(kubernetes: Kubernetes, namespace: str, cluster: str) -> StandingObjects:
    labels = f"{CLUSTER_LABEL}={cluster}"
    revisions = await kubernetes.list(
        CONTROLLER_REVISIONS, namespace, labels=f"{KEEPS_LABEL}={cluster}"
    )
    authority = await kubernetes.get(SECRETS, namespace, tls_parts.authority_name(cluster))
    return StandingObjects(
        sets=tuple(await kubernetes.list(STATEFUL_SETS, namespace, labels=labels)),
        deployments=tuple(await kubernetes.list(DEPLOYMENTS, namespace, labels=labels)),
        revisions=tuple(one for one in revisions if owned_objects.controller_of(one) is None),
        has_policies=bool(await kubernetes.list(POLICIES, namespace, labels=labels)),
        has_authority=authority is not None,
    )
