"""The finalizer stands on the resource while there is, or will be, something to remove. Pure.

The finalizer lets a deleted resource stay until the operator has removed its volumes and its root.
So it is put on before anything is built, and it is taken off when ``onDelete`` becomes ``Retain``.
A resource that is refused before anything was built gets none. A cluster that was built gets it
also while its resource is refused, because its volumes and its root are to be removed all the same.
While a StatefulSet is made again it stands in any case, because its pods would be left
(``volumes.orphans``).
"""

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.choices import OnDelete
from zonekeeper.operator.plan.keeping import legality
from zonekeeper.operator.plan.plans import Hold, Release
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Put the finalizer on, or take it off."""
    observed = case.observed
    deletes = desired.on_delete(observed.resource) is OnDelete.DELETE
    wants_hold = deletes or bool(observed.kept_sets)
    if observed.held and not wants_hold:
        return Act((Release(),))
    something_to_remove = observed.instance is not None or legality.is_legal(case)
    if wants_hold and not observed.held and something_to_remove:
        return Act((Hold(),))
    return Settled()
