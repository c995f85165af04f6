"""A StatefulSet that was deleted to be made again with other volumes is made again. Pure.

This stage decides from what was kept, and from nothing that the resource asks for now: pods without
a StatefulSet get theirs back as it was, and all else follows from there. What was kept is removed
once the new StatefulSet stands.
"""

from zonekeeper.operator.kubernetes.api import CONTROLLER_REVISIONS, STATEFUL_SETS
from zonekeeper.operator.plan.plans import Apply, RemoveObject
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.sight.observed import Observed


def stage(case: Case) -> Outcome:
    """Make what is missing, or remove what is kept for nothing."""
    observed = case.observed
    waiting = waits(observed)
    missing = {
        one.set_name: Apply(kind=STATEFUL_SETS, body=one.body)
        for one in reversed(observed.kept_sets)
        if (STATEFUL_SETS.plural, one.set_name) not in observed.owned
    }
    if missing:
        return Act(tuple(missing.values()), until=waiting)
    if waiting is not None:
        return waiting
    done = tuple(
        RemoveObject(kind=CONTROLLER_REVISIONS, name=one.name, uid=one.uid)
        for one in observed.kept_sets
        if observed.owned[STATEFUL_SETS.plural, one.set_name]["metadata"]["uid"] != one.replaces
    )
    return Act(done) if done else Settled()


def waits(observed: Observed) -> Waiting | None:
    """Name the StatefulSets that are being made again; None: there is none."""
    left = sorted({one.set_name for one in observed.kept_sets if _is_away(one.set_name, observed)})
    if not left:
        return None
    why = f"StatefulSets are made again with other volumes, their pods run on: {', '.join(left)}"
    return Waiting(Predicate.VOLUMES_GROWING, why)


def _is_away(name: str, observed: Observed) -> bool:
    found = observed.owned.get((STATEFUL_SETS.plural, name))
    return found is None or bool(found["metadata"].get("deletionTimestamp"))
