"""The stage that labels claims with the instance whose data their volumes hold. Pure.

A new claim has the label from its StatefulSet. An older operator made claims without it. Such a
claim gets the label while its bookie is ready: a bookie does not serve with the data of another
instance, so the data is this cluster's.

This stage works beside the others, also while the resource is refused or blocked: only labelled
claims are removed with the resource. A removal asks it before it removes StatefulSets.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.plan.plans import MarkClaim
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed


def stage(case: Case) -> Outcome:
    """Write the label on claims whose bookies serve."""
    marks = tuple(_marks(case.observed))
    if not marks:
        return Settled()
    why = "volumes are being marked as this cluster's, while their bookies serve"
    return Act(marks, until=Waiting(Predicate.VOLUMES_UNMARKED, why))


def _marks(observed: Observed) -> Iterator[MarkClaim]:
    found, known = observed.root, observed.instance
    if known is None or not isinstance(found, roots.RootFound) or found.instance != known:
        return
    ours = {item["metadata"]["uid"] for item in observed.sets.values()}
    for pod in observed.pods:
        if not pod.ready or pod.controller not in ours:
            continue
        for name in owned_objects.claim_names(pod.name):
            claim = observed.claims.get(name)
            if claim is not None and claim.instance is None:
                yield MarkClaim(name=name, uid=claim.uid, instance=known, size=claim.size)
