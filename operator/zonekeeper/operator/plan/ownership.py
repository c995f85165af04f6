"""Which root and which volumes are this resource's own. Pure.

A name alone does not say whose data a root or a volume holds. An earlier resource of the same name
may have left it. A resource of the same name in another Kubernetes cluster may have its bookies in
the same root, up or down. So two rules hold:

- A root is this resource's if its policy names this resource as its owner and no strangers are
  there. A stranger is a bookie of the root that is not this resource's.
- A volume is this resource's if its claim has the label with the instance of this resource.

A turn that builds notes the instance in the status. From then on no bookie is a stranger.
"""

from collections.abc import Callable

from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.kubernetes.api import ADOPT
from zonekeeper.operator.roots import roots
from zonekeeper.operator.shapes import quantities
from zonekeeper.operator.sight.observed import Observed, VolumeClaim
from zonekeeper.placement.base.ids import BookieId


def strangers(observed: Observed) -> list[BookieId]:
    """Name the strangers in a root that this resource could take up.

    A registered bookie without a pod of this resource is a stranger. A bookie that is down has only
    a cookie: if no bookie with a cookie has its volume here, all of them are strangers.
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

    Only a turn that builds may note it: a root with the noted instance may be removed with the
    resource.
    """
    if observed.instance is not None:
        return observed.instance
    ours = own_root(observed)
    return None if ours is None else ours.instance


def claims_of(observed: Observed, is_one: Callable[[VolumeClaim], bool]) -> list[str]:
    """Name the data claims of this very cluster's bookies of which this is so."""
    return [
        name
        for name, claim in own_claims(observed).items()
        if name.partition("-")[0] == owned_objects.VOLUME and not claim.is_left and is_one(claim)
    ]


def claims_below(observed: Observed, volume: str, size: str) -> list[str]:
    """Name the claims of this very cluster that ask for a smaller volume than this."""
    return [
        name
        for name, claim in own_claims(observed).items()
        if name.partition("-")[0] == volume and quantities.is_larger(size, claim.size)
    ]


def takes_over(observed: Observed) -> bool:
    """Has a person said that this resource takes this very root over, with all its bookies?

    Every registered bookie must be a pod of this resource.
    """
    found = observed.root
    word = (observed.resource["metadata"].get("annotations") or {}).get(ADOPT)
    return (
        isinstance(found, roots.RootFound)
        and word == found.instance
        and observed.instance in (None, found.instance)
        and bool(found.registered)
        and found.registered <= {pod.name for pod in observed.pods}
    )


def own_claims(observed: Observed) -> dict[str, VolumeClaim]:
    """Give the claims of volumes with this very cluster's data; none before it was built."""
    return {
        name: claim
        for name, claim in sorted(observed.claims.items())
        if claim.instance is not None and claim.instance == observed.instance
    }
