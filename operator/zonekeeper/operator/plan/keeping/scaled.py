"""No more bookies run than are asked for; those that are too many are emptied first. Pure.

The stage comes before the roll: while a bookie is being emptied, the roll begins no step. Where the
roll has something to do, no further bookie gets its order, and this stage lets the roll go on.
"""

from typing import assert_never

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.kubernetes.api import CLAIMS
from zonekeeper.operator.plan import conditions, ownership
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.plans import (
    Action,
    MarkClaim,
    OrderRemoval,
    RemoveObject,
    TakeRemovalBack,
)
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.scaling import leaving, scaling
from zonekeeper.operator.plan.scaling.scaling import ScaleMove
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Do what the scale-down does now, or wait for what it waits for."""
    progress = case.scaling
    assert progress is not None, "the stage of legality waits"
    actions = tuple(_action(move, case) for move in progress.moves)
    if actions:
        return Act(actions, until=_doing(case))
    if progress.waiting is None or progress.yields:
        return Settled()
    return progress.waiting


def condition(case: Case) -> Condition:
    """Do no more bookies run than are asked for?"""
    kind, progress = Type.SCALED, case.scaling
    if progress is None:
        return conditions.unknown(kind, "NotBuilt", "nothing is asked for that can be built")
    if progress.is_done is None:
        return conditions.unknown(kind, "NotSeen", "the root was not read")
    if (waiting := progress.waiting or (_doing(case) if progress.moves else None)) is not None:
        return conditions.waiting(kind, waiting)
    if not progress.is_done:
        return conditions.bad(kind, "MoreRun", "bookies run that are not asked for: see Legal")
    return conditions.good(kind, "Scaled", "no more bookies run than are asked for")


def _doing(case: Case) -> Waiting | None:
    """Say what is shown while the acts take effect."""
    progress = case.scaling
    assert progress is not None, "it has moves"
    return progress.waiting or Waiting(Predicate.REMOVING, scaling.told_of(progress.moves))


def _action(move: ScaleMove, case: Case) -> Action:
    instance = ownership.instance(case.observed)
    assert instance is not None, "a scale-down is of a cluster that was built"
    owner = desired.owner(case.observed.resource)
    match move:
        case scaling.GiveOrder(bookie):
            count, zone = case.desired.bookies_per_zone, leaving.zone_of(case.desired, bookie)
            reason = f"the resource asks for {count} bookies in each zone"
            if zone in leaving.zones_going(case.desired, case.observed):
                reason = f"the resource does not name zone {zone} any more"
            return OrderRemoval(bookie=bookie, instance=instance, owner=owner, reason=reason)
        case scaling.ReturnOrder(bookie, token):
            return TakeRemovalBack(bookie=bookie, token=token, instance=instance, owner=owner)
        case scaling.DropClaim(claim):
            return RemoveObject(kind=CLAIMS, name=claim.name, uid=claim.uid)
        case scaling.LabelClaim(claim, bookie):
            known = case.observed.claims.get(claim.name)
            return MarkClaim(
                name=claim.name,
                uid=claim.uid,
                instance=instance,
                size="" if known is None else known.size,
                left_by=bookie,
            )
        case _:
            assert_never(move)
