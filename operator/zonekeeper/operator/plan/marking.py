"""Claims that an older operator made get the label of the cluster whose data their volume holds.

A claim has the label from its StatefulSet. A claim that was made before there was such a label gets
it while its bookie is ready: a bookie does not serve with the data of another instance, so the
volume's data is this cluster's. It gets the label at the latest before the StatefulSets are
removed, and it does not matter what can be made of the resource now: claims are to go with it.
Pure.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.observed import Observed
from zonekeeper.operator.plan.plans import MarkClaim
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.roots import roots


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
        name = owned_objects.claim_name(pod.name)
        claim = observed.claims.get(name)
        if pod.ready and pod.controller in ours and claim is not None and claim.instance is None:
            yield MarkClaim(name=name, uid=claim.uid, instance=known)
