"""Each bookie's volumes are there, and as large as is asked for; if not, why. Pure."""

from collections.abc import Iterator

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan import conditions, ownership
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.plan.volumes import filling, growing, healing, replacing, restoring
from zonekeeper.operator.plan.volumes.filling import FillingProgress
from zonekeeper.operator.shapes import quantities
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed


def stage(case: Case) -> Outcome:
    """Wait until it is so."""
    return _waits(case) or Settled()


def condition(case: Case) -> Condition:
    """Is every volume there, and large enough?"""
    kind = Type.VOLUMES_READY
    if case.buildable is None:
        return conditions.unknown(kind, "NotBuilt", "the resource is not built: see Legal")
    if (waiting := _waits(case)) is not None:
        return conditions.waiting(kind, waiting)
    told = [f"{name} {one.size}" for name, one in owned_objects.volumes(case.desired).items()]
    return conditions.good(kind, "AsAskedFor", f"no volume is short of {', '.join(told)}")


def _waits(case: Case) -> Waiting | None:
    if (lost := healing.waits(case)) is not None:
        return lost
    if (other := replacing.decide(case).waiting) is not None:
        return other
    if (waiting := restoring.waits(case.observed)) is not None:
        return waiting
    if case.buildable is None:
        return None
    filled = filling.decide(case)
    told = [*_short(case.buildable, case.observed), *_grown(filled)]
    if not told:
        return filled.waiting
    full = "" if filled.waiting is None else f"\n{filled.waiting.why}"
    return Waiting(Predicate.VOLUMES_GROWING, "; ".join(told) + full)


def _grown(filled: FillingProgress) -> Iterator[str]:
    if filled.actions:
        sizes = naming.some([f"{one.name} to {one.size}" for one in filled.actions])
        yield f"volumes that grow by themselves: {sizes}"


def _short(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Tell which volumes are not as large as is asked for, and what each kind of them waits for.

    A claim that grew by itself asks for more than the resource does.
    """
    asked, waiting, pending = owned_objects.volumes(wanted), list[str](), list[str]()
    for name, claim in ownership.own_claims(observed).items():
        volume = asked.get(name.partition("-")[0])
        if volume is None or claim.is_left or claim.leaving or not claim.is_bound:
            continue
        if any(quantities.is_larger(one, claim.capacity) for one in (volume.size, claim.size)):
            (waiting if claim.pending_ms is None else pending).append(name)
    if waiting:
        yield f"volumes that have not grown yet: {naming.some(waiting)}"
    if pending:
        yield f"volumes whose file systems grow when their pods start anew: {naming.some(pending)}"
    if others := growing.sets_with_others(wanted, observed):
        yield f"StatefulSets that still make other volumes: {naming.some(others)}"
