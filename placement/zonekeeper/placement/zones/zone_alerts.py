"""The reports to people: the alerts that stand, and the changes from record to record.

Alerts are derived from the record, and the record remembers which alerts stood. So a raised alert
is cleared again, also by another watch. A hold that is more than a doubt has reminders: one each
time that its held time passes another multiple of ``remindEvery``.

A released zone in which no bookie is counted any more may be down for good. Its alert for what was
written off (``zoneShrunk``) stands until those bookies are replaced or removed. The zone itself
raises no page any more, not even when it comes back.
"""

from dataclasses import replace
from typing import TypeVar, assert_never

from zonekeeper.placement.policy.rules import RepairRules, ZoneWatchRules
from zonekeeper.placement.zones import freeze
from zonekeeper.placement.zones.counted_time import spelled
from zonekeeper.placement.zones.freeze import ClusterObservation, SwitchPhase
from zonekeeper.placement.zones.gate import Gate, Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_effects import (
    Alert,
    AlertCleared,
    AlertRaised,
    Effect,
    Noted,
    Reminder,
)
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord

_R = TypeVar("_R", bound=Record)


def standing(record: _R, rules: ZoneWatchRules) -> _R:
    """Give the record with its alerts: they follow from the record and from the last alerts."""
    found = _of_gate(record.gate)
    if isinstance(record, ZoneRecord):
        found |= _of_zone(record, rules)
    else:
        found |= _of_cluster(record)
    return replace(record, alerts=tuple(sorted(found)))


def told(before: Record | None, after: Record, rules: RepairRules) -> tuple[Effect, ...]:
    """Give the effects that tell people of a change."""
    zone = after.zone if isinstance(after, ZoneRecord) else None
    effects: list[Effect] = [Noted(zone=zone, text=line) for line in _changes(before, after)]
    stood = before.alerts if before else ()
    for alert in after.alerts:
        if alert not in stood:
            effects.append(AlertRaised(zone=zone, alert=alert, text=text(alert, after)))
    for alert in stood:
        if alert not in after.alerts:
            effects.append(AlertCleared(zone=zone, alert=alert, text=_cleared(alert, after)))
    if before is not None and _reminded(before.gate, after.gate, rules):
        held = f"repair held for {spelled(after.gate.held_ms)}: {after.gate.reason}"
        effects.append(Reminder(zone=zone, text=held))
    return tuple(effects)


def _of_gate(gate: Gate) -> set[Alert]:
    found = set()
    if gate.awaits_person and gate.over:
        found.add(Alert.AWAITS_PERSON)
    if gate.held_by is not None:
        found.add(Alert.HELD_BY_PERSON)
    return found


def _of_zone(record: ZoneRecord, rules: ZoneWatchRules) -> set[Alert]:
    found = set()
    if record.evidence.shrunk_by(rules.written_off_alert):
        found.add(Alert.ZONE_SHRUNK)
    if record.undeclared is not None and record.observed.state is not Observation.UNKNOWN:
        found.add(Alert.UNDECLARED_WORK)
    if record.evidence.sight_is_reduced(rules.min_lost):
        found.add(Alert.REDUCED_SIGHT)
    match record.observed.state:
        case Observation.DEGRADED:
            found.add(Alert.ZONE_DEGRADED)
        case Observation.SUSPECT:
            found.add(Alert.ZONE_SUSPECT)
        case Observation.DOWN:
            if not _done_with(record):
                found.add(Alert.ZONE_DOWN)
        case Observation.RETURNING:
            # The return of a zone is no reason to page a person.
            if Alert.ZONE_DOWN in record.alerts and not _done_with(record):
                found.add(Alert.ZONE_DOWN)
        case Observation.UNKNOWN | Observation.UP:
            pass
        case _:
            assert_never(record.observed.state)
    return found


def _done_with(record: ZoneRecord) -> bool:
    """Was the zone released, and is no bookie of it counted or in maintenance any more?"""
    nothing_counts = not record.evidence.total and not record.evidence.in_maintenance
    return record.gate.permission is Permission.RELEASED and nothing_counts


def _of_cluster(record: ClusterRecord) -> set[Alert]:
    found = set()
    if record.observed.state is ClusterObservation.FROZEN:
        found.add(Alert.CLUSTER_FROZEN)
    if record.observed.view_suspect:
        found.add(Alert.VIEW_SUSPECT)
    if record.switch.phase is SwitchPhase.OFF or freeze.still_asked(record.switch, record.gate):
        found.add(Alert.SWITCHED_OFF)
    return found


def _changes(before: Record | None, after: Record) -> list[str]:
    """Say what is different, in the order in which it happened."""
    texts = []
    was = before.observed.state if before else None
    if after.observed.state is not was:
        since = f"{was} → " if was else ""
        texts.append(f"{since}{after.observed.state}: {after.observed.reason}")
    gate, old = after.gate, before.gate if before else None
    if old is None or (gate.permission, gate.held_by) != (old.permission, old.held_by):
        since = f"{old.permission} → " if old else ""
        texts.append(f"repair {since}{gate.permission}: {gate.reason}")
    elif gate.token is not None and gate.token != old.token:
        texts.append(f"repair {gate.permission}, a new incident: {gate.reason}")
    return texts


def text(alert: Alert, record: Record) -> str:
    """Say why an alert stands, with the numbers of the record."""
    match alert:
        case Alert.UNDECLARED_WORK | Alert.REDUCED_SIGHT:
            assert isinstance(record, ZoneRecord), "an alert of zones only"
            return _text_of_zone(alert, record)
        case Alert.ZONE_DEGRADED | Alert.ZONE_SUSPECT | Alert.ZONE_DOWN | Alert.CLUSTER_FROZEN:
            return record.observed.reason
        case Alert.ZONE_SHRUNK:
            return f"{record.evidence}: replace what was lost, or decommission it"
        case Alert.VIEW_SUSPECT:
            return "all zones are failing at once: is this watch cut off?"
        case Alert.SWITCHED_OFF:
            why = record.gate.reason
            return f"automatic replication is switched off, a person enables it: {why}"
        case Alert.AWAITS_PERSON | Alert.HELD_BY_PERSON:
            return record.gate.reason
        case _:
            assert_never(alert)


def runbook(alert: Alert, *, of_zone: bool) -> str:
    """Name the runbook of an alert; an alert without one of its own shares another's."""
    match alert:
        case Alert.ZONE_DEGRADED | Alert.ZONE_SHRUNK | Alert.UNDECLARED_WORK | Alert.REDUCED_SIGHT:
            return str(alert)
        case Alert.ZONE_SUSPECT | Alert.ZONE_DOWN:
            return str(HeldBy.ZONE_HELD)
        case Alert.CLUSTER_FROZEN | Alert.VIEW_SUSPECT:
            return str(HeldBy.CLUSTER_HELD)
        case Alert.SWITCHED_OFF:
            return str(HeldBy.REPLICATION_DISABLED)
        case Alert.AWAITS_PERSON | Alert.HELD_BY_PERSON:
            return str(HeldBy.ZONE_HELD if of_zone else HeldBy.CLUSTER_HELD)
        case _:
            assert_never(alert)


def _text_of_zone(alert: Alert, record: ZoneRecord) -> str:
    count = record.evidence
    if alert is Alert.UNDECLARED_WORK:
        return (
            f"all {count.lost} bookies of {record.undeclared} are away and the other "
            f"{count.available} are there: is this planned work that nobody declared? If so: "
            f"zonekeeper maintenance start --zone {record.zone} "
            f"--upgrade-domain {record.undeclared}"
        )
    return (
        f"{count.planned_away} of {count.size} bookies are planned away, and the zone is judged "
        f"by the other {count.total}: {count}"
    )


def _cleared(alert: Alert, record: Record) -> str:
    """Say why an alert was cleared."""
    if alert is Alert.ZONE_DOWN and isinstance(record, ZoneRecord) and _done_with(record):
        return f"{record.evidence}: its losses were released, and none is left to be repaired"
    return record.observed.reason


def _reminded(before: Gate, after: Gate, rules: RepairRules) -> bool:
    """Has the held time passed a multiple of ``remindEvery``?"""
    if after.permits or not after.lasting:
        return False
    every = rules.remind_every_ms
    return before.held_ms // every < after.held_ms // every
