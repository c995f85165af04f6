"""Every object of the cluster is there, with every field that is wanted. Pure.

Only objects that differ are applied. The claim templates of a StatefulSet cannot change, so a
StatefulSet that stands keeps the templates that it was made with. The template of pods of an object
that stands changes only where the roll is (``shaping``).
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import drift
from zonekeeper.operator.plan import shaping
from zonekeeper.operator.plan.plans import Apply
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Apply each object that is missing or differs."""
    differing = tuple(_differing(case))
    return Act(differing) if differing else Settled()


def _differing(case: Case) -> Iterator[Apply]:
    for kind, body in shaping.objects(case):
        found = case.observed.owned.get((kind.plural, body["metadata"]["name"]))
        if found is None or not drift.holds(body, found):
            yield Apply(kind=kind, body=body)
