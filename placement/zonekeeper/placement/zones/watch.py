"""The zone watch: one evaluation of all zones and of the cluster.

``evaluate`` takes the stored records, what the watch sees, and the time. It gives the records to be
stored, and the effects. The shell calls it at every change of membership and every
``evaluateEvery``. The shell reads the records again before each call, because a person's ``hold``
or ``release`` writes them too, and it writes each record by compare-and-set. A step is counted only
on a record whose last evaluation was made by this watch. So where a record could not be written, or
two watches run at the same time, too little time is counted, never too much.

The shell evaluates only what it knows: while cookies, registrations or records cannot be read, it
does not call ``evaluate``. Then no counter moves, and everything is held: unknown is not "all is
well".

The zones that are evaluated are those of the policy, those that a cookie names, and those that have
a record. To give up a zone, first remove its cookies and then its record.

``release`` and ``hold`` are for persons. They work on the record alone and need no watch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy.rules import Policy, ZoneWatchRules
from zonekeeper.placement.zones import (
    cluster_gate,
    counted_time,
    freeze,
    maintenance,
    observation,
    zone_alerts,
    zone_counts,
)
from zonekeeper.placement.zones import gate as gates
from zonekeeper.placement.zones.cluster_gate import ClusterGate, ZoneIncident
from zonekeeper.placement.zones.counted_time import Moment, Watcher
from zonekeeper.placement.zones.freeze import ClusterObservation, SwitchPhase
from zonekeeper.placement.zones.gate import Gate, Judgement, Person, Threat, Token
from zonekeeper.placement.zones.maintenance import Maintenance, Ran
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_counts import Count, Counts
from zonekeeper.placement.zones.zone_effects import Effect, EndMaintenance, SwitchOff
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord

_R = TypeVar("_R", bound=Record)
_C = TypeVar("_C", bound=ClusterRecord)

_ZONE_THREATS: Mapping[Observation, Threat] = {
    Observation.UNKNOWN: Threat.DOUBT,
    Observation.UP: Threat.NONE,
    Observation.DEGRADED: Threat.NONE,
    Observation.SUSPECT: Threat.DOUBT,
    Observation.DOWN: Threat.LOSS,
    Observation.RETURNING: Threat.LOSS,
}
_CLUSTER_THREATS: Mapping[ClusterObservation, Threat] = {
    ClusterObservation.UNKNOWN: Threat.DOUBT,
    ClusterObservation.CALM: Threat.NONE,
    ClusterObservation.SUSPECT: Threat.DOUBT,
    ClusterObservation.FROZEN: Threat.LOSS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The data that the watch sees at one moment."""

    bookies: Topology
    written_off: frozenset[BookieId] = frozenset()
    maintenance: tuple[Maintenance, ...] = ()
    #: The switch for automatic replication is on.
    replication_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state: the stored records, and what this watch knows of its own time."""

    watcher: Watcher = field(default_factory=Watcher)
    #: For each record the evaluation that this watch made last; the key None is the cluster's.
    made: Mapping[ZoneName | None, int] = field(default_factory=dict)
    zones: Mapping[ZoneName, ZoneRecord] = field(default_factory=dict)
    cluster: ClusterRecord | None = None


def evaluate(
    before: Health, seen: Sighting, policy: Policy, *, now_ms: int, wall_ms: int
) -> tuple[Health, tuple[Effect, ...]]:
    """Give the state after one evaluation, and its effects."""
    rules = policy.zone_watch
    watcher, moment = counted_time.look(before.watcher, rules, now_ms=now_ms, wall_ms=wall_ms)
    ran = _ran(before, seen, moment)
    ended = maintenance.run_out(seen.maintenance, ran, most_ms=rules.maintenance_max_ms)
    standing = frozenset(one.unit for one in seen.maintenance if one not in ended)
    counts = zone_counts.measure(
        seen.bookies, written_off=seen.written_off, in_maintenance=standing
    )

    known = _obeying_the_switch(before, seen, moment)
    names = sorted({*policy.placement.zones, *counts.zones, *known.zones})
    zones = {}
    for name in names:
        count = counts.zones.get(name, Count())
        record = _zone(known.zones.get(name), name, count, policy, _own(before, name, moment))
        record = replace(record, undeclared=counts.gone.get(name))
        zones[name] = zone_alerts.standing(record, rules)
    cluster = _cluster(known.cluster, zones, counts, policy, _own(before, None, moment))
    after = Health(
        watcher=watcher,
        made=MappingProxyType(
            {None: cluster.evaluation} | {name: zones[name].evaluation for name in names}
        ),
        zones=MappingProxyType(zones),
        cluster=replace(cluster, maintenance=ran),
    )
    return after, (*_told_of_all(before, after, policy), *_asked(cluster, ended, rules))


def release(
    record: _R, *, token: Token | None, person: Person, policy: Policy, wall_ms: int
) -> tuple[_R, tuple[Effect, ...]]:
    """Give the record after a person's release, and its effects; or raise ``RefusedError``."""
    after = _released(record, token=token, person=person, wall_ms=wall_ms)
    return _told(record, after, policy)


def hold(
    record: _R, *, person: Person, policy: Policy, wall_ms: int
) -> tuple[_R, tuple[Effect, ...]]:
    """Give the record after a person's hold, and its effects; or raise ``RefusedError``."""
    gate = gates.hold(record.gate, person=person, wall_ms=wall_ms)
    return _told(record, _with_gate(record, gate), policy)


def _own(before: Health, zone: ZoneName | None, moment: Moment) -> Moment:
    """Give the moment for one record; without a step if another watch evaluated it meanwhile."""
    record = before.cluster if zone is None else before.zones.get(zone)
    if record is not None and record.evaluation != before.made.get(zone):
        return replace(moment, step_ms=0)
    return moment


def _ran(before: Health, seen: Sighting, moment: Moment) -> tuple[Ran, ...]:
    ran = before.cluster.maintenance if before.cluster else ()
    step_ms = _own(before, None, moment).step_ms
    return maintenance.run(seen.maintenance, ran, step_ms=step_ms)


def _told_of_all(before: Health, after: Health, policy: Policy) -> list[Effect]:
    assert after.cluster is not None
    effects: list[Effect] = []
    for name, record in after.zones.items():
        effects += zone_alerts.told(before.zones.get(name), record, policy.repair)
    return [*effects, *zone_alerts.told(before.cluster, after.cluster, policy.repair)]


def _asked(
    cluster: ClusterRecord, ended: tuple[Maintenance, ...], rules: ZoneWatchRules
) -> list[Effect]:
    effects: list[Effect] = []
    if freeze.still_asked(cluster.switch, cluster.gate):
        assert cluster.switch.token is not None, "asked for an incident"
        effects.append(SwitchOff(token=cluster.switch.token, reason=cluster.gate.reason))
    for one in ended:
        lasted_ms = min(one.lasts_ms, rules.maintenance_max_ms)
        reason = f"{one.unit}: its maintenance has lasted {counted_time.spelled(lasted_ms)}"
        effects.append(EndMaintenance(maintenance=one, reason=reason))
    return effects


def _told(before: _R, after: _R, policy: Policy) -> tuple[_R, tuple[Effect, ...]]:
    after = zone_alerts.standing(after, policy.zone_watch)
    return after, zone_alerts.told(before, after, policy.repair)


def _with_gate(record: _R, gate: Gate) -> _R:
    """Give the record with another gate; the end of the cluster's hold begins all delays again.

    The end of a mere doubt does not: doubts that come and go must not keep losses from repair.
    """
    match record:
        case ClusterRecord() if gate.permits and not record.gate.permits and record.gate.lasting:
            return replace(record, gate=gate, delays_epoch=record.delays_epoch + 1)
        case _:
            return replace(record, gate=gate)


def _with_cluster_gate(record: _C, gated: ClusterGate) -> _C:
    after = _with_gate(record, gated.gate)
    return replace(after, covers=gated.covers, suspended=gated.suspended)


def _cluster_gate(record: ClusterRecord) -> ClusterGate:
    return ClusterGate(gate=record.gate, covers=record.covers, suspended=record.suspended)


def _released(record: _R, *, token: Token | None, person: Person, wall_ms: int) -> _R:
    """Give the record after a person's release; or raise ``RefusedError``."""
    if not isinstance(record, ClusterRecord):
        gate = gates.release(record.gate, token=token, person=person, wall_ms=wall_ms)
        return _with_gate(record, gate)
    gated = cluster_gate.release(_cluster_gate(record), token=token, person=person, wall_ms=wall_ms)
    return _with_cluster_gate(record, gated)


def _obeying_the_switch(before: Health, seen: Sighting, moment: Moment) -> Health:
    """Release everything that the watch holds, if a person turned the switch on again."""
    if before.cluster is None:
        return before
    switch = freeze.follow(before.cluster.switch, enabled=seen.replication_enabled)
    cluster = replace(before.cluster, switch=switch)
    if switch.phase is before.cluster.switch.phase or switch.phase is not SwitchPhase.ENABLED:
        return replace(before, cluster=cluster)
    return replace(
        before,
        zones={zone: _enabled(record, moment) for zone, record in before.zones.items()},
        cluster=_enabled(cluster, moment),
    )


def _enabled(record: _R, moment: Moment) -> _R:
    if record.gate.permits or record.gate.held_by is not None:
        return record
    person = Person(name="a person", reason="automatic replication was switched on")
    return _released(record, token=record.gate.token, person=person, wall_ms=moment.wall_ms)


def _zone(
    before: ZoneRecord | None, zone: ZoneName, count: Count, policy: Policy, moment: Moment
) -> ZoneRecord:
    if before is None:
        before = ZoneRecord(
            zone=zone,
            evaluation=0,
            evidence=count,
            observed=observation.first(moment),
            gate=gates.first(moment),
        )
    evaluation = before.evaluation + 1
    observed = observation.observe(before.observed, count, policy.zone_watch, moment)
    judged = Judgement(
        threat=_ZONE_THREATS[observed.state],
        why=f"zone {zone} is {observed.state}: {observed.reason}",
        token=Token(f"{zone}-{evaluation}"),
    )
    gate = gates.decide(before.gate, judged, moment, policy.repair)
    return replace(before, evaluation=evaluation, evidence=count, observed=observed, gate=gate)


def _cluster(
    before: ClusterRecord | None,
    zones: Mapping[ZoneName, ZoneRecord],
    counts: Counts,
    policy: Policy,
    moment: Moment,
) -> ClusterRecord:
    if before is None:
        before = ClusterRecord(
            evaluation=0,
            evidence=counts.everywhere,
            observed=freeze.first(moment),
            gate=gates.first(moment),
        )
    evaluation = before.evaluation + 1
    counted = {zone: one.observed.state for zone, one in zones.items() if one.evidence.total}
    view = freeze.ClusterView(zones=counted, everywhere=counts.everywhere)
    observed = freeze.observe(before.observed, view, policy, moment)
    judged = Judgement(
        threat=_CLUSTER_THREATS[observed.state],
        why=f"the cluster is {observed.state}: {observed.reason}",
        token=Token(f"cluster-{evaluation}"),
    )
    gated = cluster_gate.decide(
        _cluster_gate(before), _incidents(zones), judged, moment, policy.repair
    )
    after = replace(
        _with_cluster_gate(before, gated),
        evaluation=evaluation,
        evidence=counts.everywhere,
        observed=observed,
        switch=freeze.ask(before.switch, gated.gate, policy),
    )
    return zone_alerts.standing(after, policy.zone_watch)


def _incidents(zones: Mapping[ZoneName, ZoneRecord]) -> dict[Token, ZoneIncident]:
    """Give the zones' incidents that are not over, held or released."""
    return {
        record.gate.token: ZoneIncident(zone=zone, real=record.gate.real)
        for zone, record in zones.items()
        if record.gate.token is not None and not record.gate.over
    }
