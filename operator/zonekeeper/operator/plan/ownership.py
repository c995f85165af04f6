"""Which root and which volumes are this resource's own. Pure.

A name says nothing of whose data something holds: an earlier resource of the same name may have
left it, and a resource of the same name in another Kubernetes cluster may have its bookies in the
same root, up or down. So a root is this resource's if the policy in it names this resource as its
owner and no strangers are there, and a volume is if its claim carries the instance that this
resource was built as. The instance is noted in the status once the cluster is built; from then on
it alone counts.
"""

from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.observed import Observed, VolumeClaim
from zonekeeper.operator.roots import roots
from zonekeeper.placement.base.ids import BookieId


def strangers(observed: Observed) -> list[BookieId]:
    """Name bookies of a root that this resource could take up, and that are not its own pods.

    Bookies that run are registered. Bookies that are down have a cookie: where none of them has its
    volume here, all of them belong somewhere else.
    """
    found = observed.root
    if observed.instance is not None or not isinstance(found, roots.RootFound):
        return []
    if found.policy is not None and found.policy.owner != desired.owner(observed.resource):
        return []
    running = sorted(found.registered - {pod.name for pod in observed.pods})
    if running or any(_has_volume_here(bookie, found, observed) for bookie in found.locations):
        return running
    return sorted(found.locations)


def _has_volume_here(bookie: BookieId, found: roots.RootFound, observed: Observed) -> bool:
    claim = observed.claims.get(owned_objects.claim_name(bookie))
    return claim is not None and claim.instance in (None, found.instance)


def own_root(observed: Observed) -> roots.RootFound | None:
    """Give the root, if the policy in it is this resource's and no strangers are there."""
    found = observed.root
    if not isinstance(found, roots.RootFound) or found.policy is None or strangers(observed):
        return None
    return found if found.policy.owner == desired.owner(observed.resource) else None


def instance(observed: Observed) -> str | None:
    """Give the instance that this cluster was built as, or is built as now; None: not yet.

    A turn that builds notes it, once: the root of the noted instance may be removed with the
    resource.
    """
    if observed.instance is not None:
        return observed.instance
    ours = own_root(observed)
    return None if ours is None else ours.instance


def own_claims(observed: Observed) -> dict[str, VolumeClaim]:
    """Give the claims of volumes with this very cluster's data; none before it was built."""
    return {
        name: claim
        for name, claim in sorted(observed.claims.items())
        if claim.instance is not None and claim.instance == observed.instance
    }
