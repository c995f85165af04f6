"""The spec that is built is kept, so that a later edit which is refused stops nothing. Pure.

It is kept before the first object is made of it: whatever interrupts the operator, the kept spec is
never older than what stands. While the resource is refused or blocked, this stage changes nothing.
"""

from zonekeeper.operator.cluster import kept_spec
from zonekeeper.operator.kubernetes.api import CONTROLLER_REVISIONS
from zonekeeper.operator.plan.plans import Apply, RemoveObject
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Keep the resource's spec, then remove those that were kept before it."""
    if not case.builds_as_asked:
        return Settled()
    resource, known = case.observed.resource, case.observed.kept
    if not known or known[0].spec != resource["spec"]:
        number = known[0].number + 1 if known else 1
        body = kept_spec.revision(resource, number=number)
        return Act((Apply(kind=CONTROLLER_REVISIONS, body=body),))
    older = tuple(
        RemoveObject(kind=CONTROLLER_REVISIONS, name=one.name, uid=one.uid) for one in known[1:]
    )
    return Act(older) if older else Settled()
