"""The volumes with this very cluster's data are gone. Pure.

Only a claim with the instance of this resource is removed. An earlier resource of the same name may
have left the others.
"""

from zonekeeper.operator.kubernetes.api import CLAIMS
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.plans import RemoveObject
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Remove the claims, and with them the volumes."""
    claims = ownership.own_claims(case.observed)
    if not claims:
        return Settled()
    removals = tuple(
        RemoveObject(kind=CLAIMS, name=name, uid=claim.uid) for name, claim in claims.items()
    )
    why = f"volumes are being removed: {', '.join(claims)}"
    return Act(removals, until=Waiting(Predicate.VOLUMES_LEFT, why))
