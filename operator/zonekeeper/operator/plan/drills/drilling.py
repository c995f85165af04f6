"""A drill: what it does next, and how it ends. Pure.

1. A probe writes beside the applications, from another zone. All gates hold still.
2. No bookie of another zone may be evicted, and then the zone's StatefulSet gets no replicas. The
   bookies keep their volumes and cookies: nobody removes them, and the gate of the zone holds the
   repair of what they held.
3. The time is over, or something is wrong: the StatefulSet gets its replicas back.
4. The bookies serve again, the zone is up and not held, the probe has read back all that was
   acknowledged. The drill ends with a report.

While a drill is on, no other stage is asked: nothing else changes the cluster. It ends whatever
happens to the operator. The record has the time until which the zone is away. An operator that
finds it later calls the zone back, and one that finds no record, or does not know it, keeps up the
StatefulSet as it is asked for. What is not known ends a drill: the store that does not answer, the
probe that is gone, a clock that goes back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.operator.cluster import desired as desired_
from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import BUDGETS, PODS, STATEFUL_SETS, Json
from zonekeeper.operator.plan.drills import drill_gates, drill_record
from zonekeeper.operator.plan.drills.drill_gates import DrillHindrances
from zonekeeper.operator.plan.drills.drill_record import DrillOutcome, DrillPhase, DrillRecord
from zonekeeper.operator.plan.plans import Action, Apply, ChangeSpec, RemoveObject
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import naming, probe_pod
from zonekeeper.operator.sight.formats_pod import FormatsPod
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base import units
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_records import ZoneRecord

#: The probe has this time to start and to have its first entries acknowledged.
PROBE_MS_MAX: Final = 2 * units.MINUTE_MS
#: Once the zone is back, the probe has this time to read all back.
READ_BACK_MS_MAX: Final = 2 * units.MINUTE_MS
WORDS_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillProgress:
    """What one turn decides about a drill."""

    #: What is noted; None: there was no drill so far.
    record: DrillRecord | None = None
    actions: tuple[Action, ...] = ()

    @property
    def is_on(self) -> bool:
        """Is nothing else done?"""
        return self.record is not None and self.record.is_on


def decide(case: Case, ordered: ResourceOrder | None, found: DrillHindrances) -> DrillProgress:
    """Decide what a drill does now.

    ``ordered`` is an order that is carried out now. ``found`` is what is in the way of a drill that
    has not taken its zone away yet.
    """
    record = drill_record.read(case.observed.status)
    begins = ordered is not None and ordered.asked is AskedFor.DRILL
    if ordered is not None and begins and (record is None or not record.is_on):
        record = _begun(case, ordered)
    elif record is not None and record.is_on:
        ends = ordered is not None and ordered.asked is AskedFor.END_DRILL
        record = _followed(record, case, ordered if ends else None, found)
    if record is None:
        return DrillProgress()
    return DrillProgress(record=record, actions=tuple(_actions(record, case)))


def told(record: DrillRecord) -> str:
    """Say how far a drill is that is on."""
    back = f"its pods come back{f' ({record.why})' if record.why else ''}"
    doing = {
        DrillPhase.PROBING: "the probe starts",
        DrillPhase.AWAY: f"its pods are away, for {units.duration_text(record.for_ms)} in all",
        DrillPhase.RETURNING: back,
        DrillPhase.ENDED: "it is over",
    }[record.phase]
    return f"a drill of zone {record.zone} by {record.by}: {doing}; nothing else is done meanwhile"


def _begun(case: Case, order: ResourceOrder) -> DrillRecord:
    assert order.zone is not None, "the format was checked"
    assert order.for_ms is not None, "the format was checked"
    return DrillRecord(
        token=order.token,
        zone=order.zone,
        by=str(order.person),
        for_ms=order.for_ms,
        generation=case.observed.generation,
        bookies=case.desired.bookies_per_zone,
        phase=DrillPhase.PROBING,
        begun_ms=case.observed.wall_ms,
        secret=order.secret,
    )


# the phases


def _followed(
    record: DrillRecord, case: Case, ending: ResourceOrder | None, found: DrillHindrances
) -> DrillRecord:
    observed = case.observed
    why = _interrupted(record, observed)
    if why is None and ending is not None and ending.incident == record.token:
        why = f"ended by {ending.person}"
    match record.phase:
        case DrillPhase.PROBING:
            return _probing(record, observed, why, found)
        case DrillPhase.AWAY:
            return _away(record, case, why)
        case DrillPhase.RETURNING:
            return _returning(record, observed)
        case DrillPhase.ENDED:
            return record


def _interrupted(record: DrillRecord, observed: Observed) -> str | None:
    """Say what ends a drill in each phase; None: nothing does."""
    if desired_.is_paused(observed.resource):
        return "spec.paused is true"
    if observed.generation != record.generation:
        return "the spec was changed"
    if observed.wall_ms < max(record.begun_ms, record.away_ms or 0):
        return "the clock of the operator has gone back"
    return None


def _probing(
    record: DrillRecord, observed: Observed, why: str | None, found: DrillHindrances
) -> DrillRecord:
    pod = _probe(observed, record)
    if why is None and found.refused:
        why = found.refused[0]
    if why is None and pod is not None and pod.exit_code is not None:
        why = f"the probe could not write: {pod.words[-WORDS_MAX:] or 'it left no words'}"
    if why is None and observed.wall_ms - record.begun_ms > PROBE_MS_MAX:
        trouble = None if pod is None or pod.trouble is None else pod.trouble.told
        late = found.passing[0] if found.passing else trouble or "the probe is not ready"
        why = f"after {units.duration_text(PROBE_MS_MAX)}: {late}"
    if why is not None:
        return _ended(record, observed, DrillOutcome.NOT_BEGUN, why)
    if pod is None or not pod.ready or found.passing:
        return record
    return replace(record, phase=DrillPhase.AWAY, away_ms=observed.wall_ms)


def _away(record: DrillRecord, case: Case, why: str | None) -> DrillRecord:
    observed, since_ms = case.observed, record.away_ms
    assert since_ms is not None, "the zone is away"
    gate = _zone_record(record, observed)
    if record.held_ms is None and gate is not None and not gate.gate.permits:
        record = replace(record, held_ms=observed.wall_ms)
    why = why or next(_alarms(record, observed), None)
    is_over = observed.wall_ms - since_ms >= record.for_ms
    if why is None and not is_over:
        return record
    outcome = DrillOutcome.COMPLETED if why is None else DrillOutcome.ABORTED
    back = DrillPhase.RETURNING
    return replace(
        record, phase=back, back_ms=observed.wall_ms, outcome=outcome, why=why or record.why
    )


def _alarms(record: DrillRecord, observed: Observed) -> Iterator[str]:
    """Give what calls the zone back before its time."""
    root, zone = observed.root, record.zone
    if not isinstance(root, RootFound) or root.policy is None:
        yield "the metadata store is not read: what becomes of the cluster is not known"
        return
    pod = _probe(observed, record)
    if pod is None or pod.leaving:
        yield "the probe is gone: whether acknowledged entries stay is not known"
    elif pod.exit_code is not None:
        yield f"the probe ended: {pod.words[-WORDS_MAX:] or 'it left no words'}"
    if lost := _lost_elsewhere(record, observed, root):
        yield f"a second loss: {naming.some(lost)}"
    for other, one in sorted(observed.watched.followed.records.zones.items()):
        if other != zone and one.observed.state is not Observation.UP:
            yield f"zone {other} is {one.observed.state}"
    ours = _zone_record(record, observed)
    if ours is not None and ours.gate.permission is Permission.RELEASED:
        yield f"the losses of zone {zone} are released: {ours.gate.reason}"
    away_ms = observed.wall_ms - (record.away_ms or 0)
    if record.held_ms is None and away_ms > root.policy.repair.bookie_recovery_delay_ms // 2:
        yield f"the losses of zone {zone} are not held after {units.duration_text(away_ms)}"


def _lost_elsewhere(record: DrillRecord, observed: Observed, root: RootFound) -> list[str]:
    """Name the bookies of other zones that are missing."""
    there = {str(one) for one, at in root.locations.items() if at is None or at.zone != record.zone}
    sets = {
        f"{name}-{ordinal}"
        for name, item in observed.sets.items()
        if name != _set_name(record, observed)
        for ordinal in range(int(item["spec"]["replicas"]))
    }
    well = {str(pod.name) for pod in observed.pods if pod.ready and not pod.leaving}
    return sorted((there - {str(one) for one in root.registered}) | (sets - well))


def _returning(record: DrillRecord, observed: Observed) -> DrillRecord:
    assert record.back_ms is not None, "the zone was called back"
    outcome = record.outcome or DrillOutcome.ABORTED
    since_ms = observed.wall_ms - record.back_ms
    missing = next(_not_back(record, observed), None)
    pod = _probe(observed, record)
    has_ended = pod is None or pod.exit_code is not None
    if missing is not None:
        # A clock that went back must not keep a drill on for ever.
        if 0 <= since_ms <= drill_gates.RETURN_MS_MAX:
            return record
        why = "; ".join(filter(None, (record.why, f"the zone does not come back: {missing}")))
        return _ended(record, observed, DrillOutcome.ABORTED, why, pod)
    if not has_ended and 0 <= since_ms <= drill_gates.RETURN_MS_MAX + READ_BACK_MS_MAX:
        return record
    if outcome is DrillOutcome.COMPLETED and (pod is None or pod.exit_code != 0):
        words = "it is gone, or did not end" if pod is None or not pod.words else pod.words
        why = f"the probe did not read everything back: {words[-WORDS_MAX:]}"
        return _ended(record, observed, DrillOutcome.ABORTED, why, pod)
    return _ended(record, observed, outcome, record.why, pod)


def _not_back(record: DrillRecord, observed: Observed) -> Iterator[str]:
    root, found = observed.root, _set(record, observed)
    if not isinstance(root, RootFound):
        yield "the metadata store is not read"
        return
    if found is None:
        return  # Somebody has removed it: the stage of objects makes it anew.
    well = {str(pod.name) for pod in observed.pods if pod.ready and not pod.leaving}
    names = [f"{found['metadata']['name']}-{ordinal}" for ordinal in range(record.bookies)]
    registered = {str(one) for one in root.registered}
    if away := [one for one in names if one not in well or one not in registered]:
        yield f"{naming.some(away)} is not ready and registered"
    one = _zone_record(record, observed)
    if one is None or one.observed.state is not Observation.UP:
        yield f"zone {record.zone} is not up, as the zone watch sees it"
    elif not one.gate.permits:
        yield f"zone {record.zone} is held: {one.gate.reason}"


def _ended(
    record: DrillRecord,
    observed: Observed,
    outcome: DrillOutcome,
    why: str,
    pod: FormatsPod | None = None,
) -> DrillRecord:
    figures = "" if pod is None or pod.exit_code is None else pod.words
    return replace(
        record,
        phase=DrillPhase.ENDED,
        outcome=outcome,
        why=why[: drill_record.WHY_MAX],
        ended_ms=observed.wall_ms,
        probe=figures[: drill_record.PROBE_MAX],
    )


# the acts


def _actions(record: DrillRecord, case: Case) -> Iterator[Action]:
    observed = case.observed
    match record.phase:
        case DrillPhase.PROBING:
            if _probe(observed, record) is None and case.buildable is not None:
                body = probe_pod.made(
                    case.desired,
                    observed.resource,
                    record.zone,
                    probe_pod.name_of(case.desired.name, record.token),
                    record.secret,
                )
                yield Apply(kind=PODS, body=body)
        case DrillPhase.AWAY:
            # First no other bookie may be evicted: the budget does not count pods that are away
            # because nobody asks for them.
            for item in _budgets(observed):
                if item["spec"].get("maxUnavailable") != 0:
                    yield ChangeSpec(kind=BUDGETS, item=item, spec={"maxUnavailable": 0})
            yield from _scaled(record, observed, 0)
        case DrillPhase.RETURNING:
            yield from _scaled(record, observed, record.bookies)
        case DrillPhase.ENDED:
            for pod in observed.probes:
                if not pod.leaving:
                    yield RemoveObject(kind=PODS, name=pod.name, uid=pod.uid)


def _scaled(record: DrillRecord, observed: Observed, count: int) -> Iterator[ChangeSpec]:
    found = _set(record, observed)
    if found is not None and int(found["spec"]["replicas"]) != count:
        yield ChangeSpec(kind=STATEFUL_SETS, item=found, spec={"replicas": count})


def _budgets(observed: Observed) -> Iterator[Json]:
    for (plural, _), item in sorted(observed.owned.items()):
        if plural == BUDGETS.plural and owned_objects.controller_of(item) == observed.uid:
            yield item


def _set(record: DrillRecord, observed: Observed) -> Json | None:
    return observed.sets.get(_set_name(record, observed))


def _set_name(record: DrillRecord, observed: Observed) -> str:
    return owned_objects.set_name(observed.resource["metadata"]["name"], record.zone)


def _zone_record(record: DrillRecord, observed: Observed) -> ZoneRecord | None:
    return observed.watched.followed.records.zones.get(record.zone)


def _probe(observed: Observed, record: DrillRecord) -> FormatsPod | None:
    name = probe_pod.name_of(observed.resource["metadata"]["name"], record.token)
    return next((one for one in observed.probes if one.name == name), None)
