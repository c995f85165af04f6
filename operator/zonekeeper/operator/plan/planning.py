"""What is to be done for a cluster now: ``decide(wanted, observed, now)`` folds stages. Pure.

The planner is level-triggered: a turn decides only from what it sees. So it does not matter which
turns came before, were lost, or ended in the middle.

A cluster is built in the order of the stages, one step a turn: the finalizer (if something must be
removed later) → the root → its policy record → the objects → bookies that are ready, current and in
their places. The first stage that is not settled decides; the stages after it are not asked. A
deleted resource has stages of its own, in the other direction. The stage of marking is asked beside
them in every turn: claims get their label also while another stage waits.
"""

from typing import Final

from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.cluster.observed import Observed
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan import blocking, conditions, marking, ownership, stages
from zonekeeper.operator.plan.conditions import Condition, Notice, Type
from zonekeeper.operator.plan.keeping import (
    applied,
    bookies,
    finalizer,
    legality,
    locations,
    objects,
    policy,
    root,
    store,
    template,
)
from zonekeeper.operator.plan.plans import Release, TurnPlan
from zonekeeper.operator.plan.predicates import Waiting
from zonekeeper.operator.plan.removing import (
    pods,
    releasing,
    retaining,
    root_removal,
    sets,
    volumes,
)
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled, Stage

#: After an act: the next turn sees its effect.
SOON_MS: Final = 200
#: During a wait: no event may tell of its end.
WAITING_MS: Final = 2_000
#: At rest: events begin a turn at once, but nodes and the metadata store have none.
RESTING_MS: Final = 30_000

#: The stages of a cluster that is built and kept up.
KEEPING: Final[tuple[Stage, ...]] = (
    finalizer.stage,
    legality.stage,
    root.stage,
    policy.stage,
    objects.stage,
    store.stage,
    applied.stage,
    bookies.stage,
    template.stage,
    locations.stage,
)
#: The stages of a deleted resource.
REMOVING: Final[tuple[Stage, ...]] = (
    retaining.stage,
    marking.stage,
    sets.stage,
    pods.stage,
    volumes.stage,
    root_removal.stage,
    releasing.stage,
)


def decide(wanted: Desired | RefusedResource, observed: Observed, now: str) -> TurnPlan:
    """Decide one turn; ``now`` is wall time as the API writes it."""
    if not observed.leaving:
        return _keep(case_of(wanted, observed), now)
    if observed.held:
        return _remove(case_of(wanted, observed), now)
    return TurnPlan(
        actions=(), waits_for=None, status=observed.status, notices=(), recheck_ms=RESTING_MS
    )


def case_of(wanted: Desired | RefusedResource, observed: Observed) -> Case:
    """Give what the stages decide from; nothing blocks a deletion."""
    blocked: tuple[str, ...] = ()
    if isinstance(wanted, Desired) and not observed.leaving:
        blocked = tuple(blocking.reasons(wanted, observed))
    return Case(wanted=wanted, blocked=blocked, observed=observed)


def _keep(case: Case, now: str) -> TurnPlan:
    observed = case.observed
    outcome = stages.fold(KEEPING, case)
    actions = stages.actions_of(outcome) + stages.actions_of(marking.stage(case))
    zones = bookies.counts(case.buildable, observed)
    said = (
        legality.condition(case),
        root.condition(observed),
        policy.condition(case),
        applied.condition(observed),
        template.condition(observed),
        locations.condition(case),
        bookies.condition(zones),
    )
    instance = observed.instance
    if instance is None and legality.is_legal(case):
        instance = ownership.instance(observed)
    resting = isinstance(outcome, Settled)
    return TurnPlan(
        actions=actions,
        waits_for=_waits(outcome, observed),
        status=_status(said, zones, observed, instance, now),
        notices=_notices(said, observed),
        recheck_ms=SOON_MS if actions else RESTING_MS if resting else WAITING_MS,
    )


def _remove(case: Case, now: str) -> TurnPlan:
    observed = case.observed
    outcome = stages.fold(REMOVING, case)
    actions = stages.actions_of(outcome)
    waiting = _waits(outcome, observed)
    said: tuple[Condition, ...] = (applied.condition(observed),)
    if actions != (Release(),):
        assert waiting is not None, "a removal that does not let go says what it waits for"
        let_go = "; to keep what is left, and let the resource go, set onDelete: Retain"
        said += (conditions.bad(Type.RELEASED, "Waiting", waiting.why + let_go),)
    kept = tuple(releasing.left_behind(observed)) if actions == (Release(),) else ()
    zones = bookies.counts(None, observed)
    return TurnPlan(
        actions=actions,
        waits_for=waiting,
        status=_status(said, zones, observed, observed.instance, now),
        notices=(*_notices(said, observed), *kept),
        recheck_ms=SOON_MS if actions else WAITING_MS,
    )


def _waits(outcome: Outcome, observed: Observed) -> Waiting | None:
    """Give the wait of an outcome; for acts without one, the failure of the last turn."""
    match outcome:
        case Waiting():
            return outcome
        case Act():
            return outcome.until or applied.waits(observed)
        case Settled():
            return None


def _status(
    said: tuple[Condition, ...],
    zones: list[Json],
    observed: Observed,
    instance: str | None,
    now: str,
) -> Json:
    before = observed.status.get("conditions") or []
    status: Json = {
        "observedGeneration": observed.generation,
        "conditions": conditions.timed(said, before, observed.generation, now),
        "zones": zones,
        "bookies": sum(zone["bookies"] for zone in zones),
        "readyBookies": sum(zone["ready"] for zone in zones),
    }
    return status if instance is None else status | {"instance": instance}


def _notices(said: tuple[Condition, ...], observed: Observed) -> tuple[Notice, ...]:
    return conditions.notices(said, observed.status.get("conditions") or [])
