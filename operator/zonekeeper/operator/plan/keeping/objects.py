"""Every object of the cluster is there, with every field that is wanted. Pure.

Only objects that differ are applied. The claim templates of a StatefulSet cannot change, so a
StatefulSet that stands keeps the templates that it was made with.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import drift, owned_objects
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.plans import Apply
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Apply each object that is missing or differs."""
    differing = tuple(_differing(case))
    return Act(differing) if differing else Settled()


def _differing(case: Case) -> Iterator[Apply]:
    observed, instance = case.observed, ownership.instance(case.observed)
    for kind, made in owned_objects.all_of(case.desired, observed.resource, instance):
        found = observed.owned.get((kind.plural, made["metadata"]["name"]))
        body = made if found is None else owned_objects.with_standing_claims(made, found)
        if found is None or not drift.holds(body, found):
            yield Apply(kind=kind, body=body)
