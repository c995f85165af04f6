"""What is to be done for a cluster now: ``decide(wanted, observed, now)`` folds stages. Pure.

The planner is level-triggered: a turn decides only from what it sees. So it does not matter which
turns came before, were lost, or ended in the middle.

A cluster is built in the order of the stages, one step a turn: nobody has paused it → the finalizer
(if something must be removed later) → the root → its policy record → the spec is kept →
certificates → the objects → bookies that are current, ready and in their places → repair that is
at work. While the resource is refused or blocked, the cluster of the kept spec is kept up instead.
The first stage that is not settled decides; the stages after it are not asked. A deleted resource
has stages of its own, in the other direction. The stage of marking is asked beside them in every
turn: claims get their label also while another stage waits. So is the growth of volumes and
the healing of lost ones. Disruption budgets come before all of them where bookies run: a
StatefulSet of a new zone is made when it is sure how its bookies may be evicted. Only the finalizer
comes before the budgets. Where no bookie runs, they are the first of the objects. A person who
pauses the operator stops all of them. While a drill is on, none is asked: the drill alone acts.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zonekeeper.operator.cluster import kept_spec, standing_defaults
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.people import answering, answers, repair_shown
from zonekeeper.operator.people.answering import OrderTurn
from zonekeeper.operator.people.answers import AnswerPhase
from zonekeeper.operator.plan import (
    blocking,
    conditions,
    marking,
    ownership,
    pausing,
    stages,
    standing,
    taking_over,
)
from zonekeeper.operator.plan.conditions import Condition, Notice, Type
from zonekeeper.operator.plan.draining import drain_telling, draining
from zonekeeper.operator.plan.drills import drill_gates, drill_orders, drill_telling, drilling
from zonekeeper.operator.plan.drills.drill_gates import DrillHindrances
from zonekeeper.operator.plan.drills.drilling import DrillProgress
from zonekeeper.operator.plan.keeping import (
    applied,
    bookies,
    certificates,
    corrected,
    finalizer,
    last_legal,
    legality,
    locations,
    objects,
    policy,
    repair,
    roll,
    root,
    scaled,
    store,
    taken_back,
)
from zonekeeper.operator.plan.plans import Action, Obey, Release, TurnPlan
from zonekeeper.operator.plan.predicates import Waiting
from zonekeeper.operator.plan.removing import (
    forced,
    pods,
    releasing,
    repairers,
    retaining,
    root_removal,
    sets,
    volumes,
)
from zonekeeper.operator.plan.scaling import scale_telling, scaling
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled, Stage
from zonekeeper.operator.plan.volumes import (
    absence,
    filling,
    growing,
    healing,
    orphans,
    readiness,
    replacing,
    restoring,
)
from zonekeeper.operator.roll import memory, rolling, telling
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.sight.observed import Observed

#: After an act: the next turn sees its effect.
SOON_MS: Final = 200
#: During a wait: no event may tell of its end.
WAITING_MS: Final = 2_000
#: At rest: events begin a turn at once, but nodes and the metadata store have none.
RESTING_MS: Final = 30_000

#: What is noted of work that goes on over turns, beside the roll.
_NOTED: Final = ("scaling", "replacing", "growing", "lostNodes")

#: The stages that come before the first object of a cluster.
_BEFORE_OBJECTS: Final[tuple[Stage, ...]] = (
    pausing.stage,
    finalizer.stage,
    restoring.stage,
    legality.stage,
    taking_over.stage,
    root.stage,
    policy.stage,
    last_legal.stage,
    certificates.stage,
)
#: The stages of a cluster that is built and kept up.
KEEPING: Final[tuple[Stage, ...]] = (
    *_BEFORE_OBJECTS,
    objects.stage,
    taken_back.stage,
    store.stage,
    applied.stage,
    scaled.stage,
    roll.stage,
    corrected.stage,
    readiness.stage,
    bookies.stage,
    locations.stage,
    repair.stage,
    drain_telling.stage,
)
#: The stages of a deleted resource.
REMOVING: Final[tuple[Stage, ...]] = (
    orphans.stage,
    retaining.stage,
    pausing.stage,
    marking.stage,
    repairers.stage,
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
    if observed.leaving:
        return Case(wanted=wanted, blocked=(), observed=observed)
    kept = kept_spec.cluster_of(observed.kept, observed.resource, wanted)
    blocked: tuple[str, ...] = ()
    adopts: tuple[Action, ...] = ()
    if isinstance(wanted, Desired) and (over := taking_over.of(wanted, observed)) is not None:
        if over.hindrances:
            return Case(wanted=wanted, blocked=over.hindrances, observed=observed)
        observed, adopts = over.as_taken, over.acts
    if isinstance(wanted, Desired):
        blocked = (
            *blocking.changes(wanted, kept, observed),
            *blocking.not_growable(wanted, kept, observed),
            *blocking.reasons(wanted, observed),
        )
        if not blocked:
            rolled = rolling.decide(wanted, observed)
            scale = scaling.decide(wanted, observed, rolled)
            return Case(
                wanted=wanted,
                blocked=(),
                observed=observed,
                roll=rolled,
                scaling=scale,
                adopts=adopts,
            )
    if kept is not None and any(blocking.foreign(kept, observed)):
        kept = None
    if kept is None:
        return Case(wanted=wanted, blocked=blocked, observed=observed)
    rolled = rolling.decide(kept, observed)
    scale = scaling.decide(kept, observed, rolled)
    return Case(
        wanted=wanted, blocked=blocked, observed=observed, kept=kept, roll=rolled, scaling=scale
    )


def _keep(case: Case, now: str) -> TurnPlan:
    observed = case.observed
    ordered, drill = _drilled(case)
    outcome = _outcome(case, drill)
    is_free = not drill.is_on and not pausing.is_paused(observed)
    actions = _obeyed(ordered, observed)
    if is_free:
        actions += budgets(case)
    actions += stages.actions_of(outcome)
    if not drill.is_on:
        actions += drill.actions
    if is_free:
        actions += beside(case)
    zones = standing.zones(case.buildable, observed)
    said = (
        legality.condition(case),
        root.condition(observed),
        policy.condition(case),
        drill_telling.condition(drill, pausing.condition(observed)),
        applied.condition(observed),
        roll.up_to_date(case),
        roll.condition(case),
        scaled.condition(case),
        locations.condition(case),
        readiness.condition(case),
        drain_telling.condition(case),
        certificates.condition(case),
        repair.condition(observed),
        bookies.condition(case, zones),
    )
    instance = observed.instance
    if instance is None and legality.is_legal(case):
        instance = ownership.instance(observed)
    is_asked = ordered.answer is not None and not ordered.answer.phase.is_final
    resting = isinstance(outcome, Settled) and not certificates.is_under_way(case) and not is_asked
    return TurnPlan(
        actions=actions,
        waits_for=_waits(outcome, observed),
        status=_status(case, said, zones, instance, now)
        | _told_of_work(case, now, is_still=drill.is_on or pausing.is_paused(observed))
        | _told_of_people(ordered, observed)
        | drill_telling.status(drill),
        notices=(
            *_notices(said, observed),
            *_notices_of_roll(case),
            *_notices_of_order(ordered, observed),
            *drill_telling.notices(drill, observed),
        ),
        recheck_ms=SOON_MS if actions else RESTING_MS if resting else WAITING_MS,
    )


def _outcome(case: Case, drill: DrillProgress) -> Outcome:
    if (waiting := drill_telling.waits(drill)) is None:
        return stages.fold(KEEPING, case)
    return Act(drill.actions, until=waiting) if drill.actions else waiting


def _drilled(case: Case) -> tuple[OrderTurn, DrillProgress]:
    """Answer the order of a person, and decide what a drill does now."""
    observed = case.observed
    found = _in_the_way(case)
    ordered = answering.decide(
        observed,
        ownership.own_root(observed),
        lambda order: drill_orders.word(order, observed, found),
    )
    act = ordered.act if ordered.act is not None and ordered.act.asked.is_of_drill else None
    return ordered, drilling.decide(case, act, found)


def _in_the_way(case: Case) -> DrillHindrances:
    """Give what is in the way of a drill that is asked for, or has not taken its zone away yet."""
    asked = drill_orders.about(case.observed)
    if asked is None:
        return DrillHindrances()
    if not case.builds_as_asked or case.roll is None:
        return DrillHindrances(refused=("the resource is refused or blocked: see Legal",))
    outcome = stages.fold(KEEPING, case)
    busy = _waits(outcome, case.observed)
    if busy is not None:
        return drill_gates.busy(busy)
    acts = budgets(case) or beside(case)
    if not isinstance(outcome, Settled) or acts or certificates.is_under_way(case):
        why = "the cluster is being changed: see the conditions, and order it again afterwards"
        return DrillHindrances(refused=(why,))
    return drill_gates.ask(case.desired, case.observed, case.roll.sets, asked)


def budgets(case: Case) -> tuple[Action, ...]:
    """Give the writes of budgets that are due: where bookies run, they wait for no other stage.

    None is due before the finalizer is held. Where no bookie runs, none can be evicted, so the
    budgets wait like all objects until the policy and the kept spec stand.
    """
    first = (finalizer.stage,) if case.observed.pods else _BEFORE_OBJECTS
    return draining.actions(case) if isinstance(stages.fold(first, case), Settled) else ()


def beside(case: Case) -> tuple[Action, ...]:
    """Give the acts that are due beside those of the stages."""
    return (
        *stages.actions_of(marking.stage(case)),
        *growing.actions(case),
        *filling.decide(case).actions,
        *replacing.decide(case).actions,
        *healing.actions(case),
    )


def _remove(case: Case, now: str) -> TurnPlan:
    observed = case.observed
    outcome = stages.fold(REMOVING, case)
    actions = stages.actions_of(outcome)
    waiting = _waits(outcome, observed)
    said: tuple[Condition, ...] = (applied.condition(observed),)
    if actions != (Release(),):
        assert waiting is not None, "a removal that does not let go says what it waits for"
        said += (conditions.bad(Type.RELEASED, "Waiting", _told_of_removal(waiting, observed)),)
    kept = tuple(releasing.left_behind(observed)) if actions == (Release(),) else ()
    zones = standing.zones(None, observed)
    return TurnPlan(
        actions=actions,
        waits_for=waiting,
        status=_status(case, said, zones, observed.instance, now)
        | _told_of_people(answering.decide(observed, ownership.own_root(observed)), observed),
        notices=(*_notices(said, observed), *kept),
        recheck_ms=SOON_MS if actions else WAITING_MS,
    )


def _obeyed(ordered: OrderTurn, observed: Observed) -> tuple[Action, ...]:
    """Give the act of an order: it waits for no stage, and the stages not for it."""
    ours = ownership.own_root(observed)
    if ordered.act is None or ours is None or ordered.act.asked.is_of_drill:
        return ()
    return (Obey(order=ordered.act, instance=ours.instance),)


def _told_of_people(ordered: OrderTurn, observed: Observed) -> Json:
    """Give ``status.order``, and what people need to order something."""
    told = repair_shown.status(ownership.own_root(observed))
    return told if ordered.answer is None else told | {"order": answers.plain(ordered.answer)}


def _notices_of_order(ordered: OrderTurn, observed: Observed) -> Iterator[Notice]:
    """Give one event for each order that is answered."""
    answer = ordered.answer
    if answer is None or answer == answers.read(observed.status) or not answer.phase.is_final:
        return
    yield Notice(
        warning=answer.phase is not AnswerPhase.DONE,
        reason=f"Order{answer.phase}",
        message=f"{answer.order} ({answer.by}): {answer.message}",
    )


def _told_of_removal(waiting: Waiting, observed: Observed) -> str:
    """Say what a removal waits for, and at once also that its end cannot come."""
    said = [waiting.why]
    if (forcing := forced.advice(observed)) is not None and forcing not in waiting.why:
        said.append(forcing)
    said.append("to keep what is left, and let the resource go, set onDelete: Retain")
    return "; ".join(said)


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
    case: Case, said: tuple[Condition, ...], zones: list[Json], instance: str | None, now: str
) -> Json:
    observed = case.observed
    buildable = None if observed.leaving else case.buildable
    sets = () if case.roll is None else case.roll.sets
    before = observed.status.get("conditions") or []
    status: Json = {
        "observedGeneration": observed.generation,
        "conditions": conditions.timed(said, before, observed.generation, now),
        **standing.status(buildable, observed, zones, sets),
    }
    noted = status | {"defaults": str(standing_defaults.of(observed.resource))}
    return noted if instance is None else noted | {"instance": instance}


def _told_of_work(case: Case, now: str, *, is_still: bool) -> Json:
    """Give what is noted of work that goes on over turns.

    A turn that can do nothing notes nothing new.
    """
    status = case.observed.status
    if is_still:
        told = {name: status[name] for name in _NOTED if status.get(name) is not None}
    else:
        told = (
            _told_of_scaling(case)
            | replacing.status(replacing.decide(case))
            | filling.status(filling.decide(case))
            | absence.status(case, healing.giving_up(healing.actions(case)))
        )
    return _told_of_roll(case, now, is_still=is_still) | told


def _told_of_scaling(case: Case) -> Json:
    noted = case.observed.status.get("scaling")
    found = noted if case.scaling is None else scale_telling.status(case.scaling)
    return {} if found is None else {"scaling": found}


def _told_of_roll(case: Case, now: str, *, is_still: bool) -> Json:
    """Give ``status.roll``; what an earlier turn noted stays where nothing can be built.

    A paused turn notes nothing new, nor does one of a drill or of a scale-down: no step has begun
    or ended by an act of it.
    """
    if case.roll is None or case.buildable is None:
        known = case.observed.status.get("roll")
        return {} if known is None else {"roll": known}
    progress = case.roll
    if is_still or not isinstance(scaled.stage(case), Settled):
        progress = replace(progress, notes=memory.read(case.observed.status))
    return {"roll": telling.status(case.buildable, case.observed, progress, now)}


def _notices_of_roll(case: Case) -> Iterator[Notice]:
    """Give one event for each gate that is waited for since now, and for an override."""
    if case.roll is None or pausing.is_paused(case.observed):
        return
    for one in telling.fresh_waits(case.observed, case.roll):
        message = f"the roll waits: {one.what} ({one.runbook})"
        yield Notice(warning=False, reason=str(one.gate), message=message)
    if (step := case.roll.overridden) is not None:
        message = f"a person let the step {step} pass the gate {RollGate.LEDGER_AT_RISK}, once"
        yield Notice(warning=True, reason="Overridden", message=message)


def _notices(said: tuple[Condition, ...], observed: Observed) -> tuple[Notice, ...]:
    # Each gate has an event of its own.
    told = [one for one in said if one.type is not Type.ROLLING or one.reason not in list(RollGate)]
    return conditions.notices(told, observed.status.get("conditions") or [])
