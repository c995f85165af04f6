"""Is an edit of a resource refused before it is stored, and in which words? Pure.

The words are those of the condition ``Legal``. The webhook refuses only what the operator would
refuse or block afterwards, so nothing depends on it: where it is away, the edit is stored, and the
operator says the same.

Some edits are never refused, because a refusal would keep a resource from being repaired or from
going: those that leave the spec as it is, and those of a resource that is deleted. A reason that
ends by itself is a warning only: an object of an earlier resource may just be going.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.admission.reviews import ALLOWED, AdmissionAnswer, Review
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Json
from zonekeeper.operator.plan import blocking, planning
from zonekeeper.operator.plan.drills import drill_record
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed

#: Only these change a spec.
_JUDGED: Final = ("CREATE", "UPDATE")
#: What is not judged here is judged by the operator, which has the last word in any case.
_LATER: Final = "; the operator judges it: see the condition Legal"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegalEdit:
    """An edit of a built cluster whose fields are legal: what is there decides the rest."""

    resource: Json
    wanted: Desired


def by_fields(review: Review, own_image: str | None) -> AdmissionAnswer | LegalEdit:
    """Judge an edit by its own fields; a new resource has nothing else to be judged by."""
    given, before = review.resource, review.before
    if review.operation not in _JUDGED or given is None:
        return ALLOWED
    if given["metadata"].get("deletionTimestamp"):
        return ALLOWED
    if before is not None and before["spec"] == given["spec"]:
        return ALLOWED
    resource = desired.with_own_image(given, own_image)
    wanted = desired.read(resource)
    if isinstance(wanted, RefusedResource):
        return AdmissionAnswer(refusal="\n".join(wanted.reasons))
    if before is None or not (given.get("status") or {}).get("instance"):
        return AdmissionAnswer(warnings=wanted.warnings)
    return LegalEdit(resource=resource, wanted=wanted)


def end_of_definition(standing: Sequence[Json]) -> AdmissionAnswer:
    """Refuse that the definition goes while there are resources: each would go with it."""
    if not standing:
        return ALLOWED
    names = [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in standing]
    return AdmissionAnswer(
        refusal=(
            f"the definition of {BOOKIE_CLUSTERS.name} cannot be deleted while there are clusters, "
            f"because they would be deleted with it: {naming.some(names)}; delete each of them "
            f"first (kubectl delete bkc NAME), or remove the webhook to go on without this check"
        )
    )


def as_edited(live: Json | None, edit: LegalEdit) -> Json | None:
    """Give the live resource with the spec of the edit; None: that cannot be looked at.

    The question may be of anybody who reaches the webhook. So it decides neither which resource is
    meant nor which metadata store is opened: the live resource does.
    """
    if live is None or live["metadata"]["uid"] != edit.resource["metadata"].get("uid"):
        return None
    if desired.metadata_uri(live) != edit.wanted.metadata_uri:
        return None  # the definition has a rule of its own against that
    return {**live, "spec": edit.resource["spec"]}


def by_what_is_there(edit: LegalEdit, observed: Observed) -> AdmissionAnswer:
    """Judge an edit by what is there."""
    passing = tuple(blocking.foreign(edit.wanted, observed))
    blocked = planning.case_of(edit.wanted, observed).blocked
    lasting = [reason for reason in blocked if reason not in passing]
    if lasting:
        return AdmissionAnswer(refusal="\n".join(lasting))
    drill = drill_record.read(observed.status)
    ends = ("a drill is on: this edit ends it",) if drill is not None and drill.is_on else ()
    return AdmissionAnswer(warnings=(*ends, *passing, *edit.wanted.warnings))


def not_looked_at(edit: LegalEdit, why: str) -> AdmissionAnswer:
    """Allow an edit that was judged by its fields only, and say so."""
    told = f"the edit was not judged by what is there ({why}){_LATER}"
    return AdmissionAnswer(warnings=(told, *edit.wanted.warnings))
