"""May this loss be repaired now? The auditor and the replicators ask this before they act.

The auditor and the replicators run in other processes than the zone watch, with clocks of their
own. They know only the records. ``follow`` keeps what such a process must remember from one look to
the next: how long it has seen each bookie missing (counted, see ``counted_time``), and when it last
saw each evaluation counter move. There are two questions:

- ``what_holds``: may a loss at this place be repaired *now*? A replicator asks it before it claims
  a task, before it starts the task, and before each carrier of the task.
- ``what_holds_publishing``: may a missing bookie's ledgers be published for repair? Three things
  must be true. A loss at its place may be repaired now. The bookie has been missing for
  ``bookieRecoveryDelay``. Its zone was evaluated after this process first saw it missing.

The answer is None, or one reason that holds the repair, by name and in words. An unknown holds:
there is no record, or the process has not yet seen a counter move, or a counter stands still. What
the records say goes before an unknown: while a zone is held its losses are held by ``zoneHeld``,
also for a process that has not yet seen a counter move. So the hold of a failing zone is in force
before the zone's first ledger is published, if
``bookieRecoveryDelay >= sessionTimeout + evaluateEvery + suspectFor``: by then the sessions of the
zone's other bookies have ended too, and a living watch has seen that.

People ask a third question, by ``what_holds_bookie``: what holds the repair of what this bookie
held? Every command that names a hold of a bookie asks this function.

A loss is seen anew, and its delay begins again, in three cases: its unit was in maintenance, the
hold of the cluster ended, or the records under which it was first seen are gone. A bookie that is
back is no loss.

A bookie whose zone is unknown may be in any zone. Its loss is held while any zone is held, and
while the record of any zone that the policy names is missing.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie
from zonekeeper.placement.policy.rules import Policy, ZoneWatchRules
from zonekeeper.placement.zones.counted_time import counted_step_ms, longest_step_ms, spelled
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord


class HeldBy(enum.StrEnum):
    """The reasons that can hold a repair; status, metrics and runbooks use these names."""

    REPLICATION_DISABLED = "replicationDisabled"
    NO_RECORD = "noZoneRecord"
    NOT_WATCHED = "zoneNotWatched"
    CLUSTER_HELD = "clusterHeld"
    ZONE_HELD = "zoneHeld"
    IN_MAINTENANCE = "inMaintenance"
    RECOVERY_DELAY = "bookieRecoveryDelay"
    NOT_EVALUATED = "notEvaluatedSince"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One reason not to repair."""

    by: HeldBy
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The stored records, as this process read them. An unreadable record is left out."""

    zones: Mapping[ZoneName, ZoneRecord]
    cluster: ClusterRecord | None
    #: Units that have a maintenance record. Even one that has run out holds, until it is removed.
    maintenance: frozenset[Location] = frozenset()
    replication_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """An evaluation counter, and when this process last saw it move; None: not seen yet."""

    evaluation: int
    moved_ms: int | None = None


_UNSEEN: Final = Pulse(evaluation=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One missing bookie."""

    location: Location | None
    #: Counted time since this process first saw the bookie missing.
    missing_ms: int = 0
    #: The counters when the bookie was first seen missing. ``evaluation`` is None if there was no
    #: record, or the unit was in maintenance; the next look then sees the loss anew.
    evaluation: int | None
    delays_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """All that this process knows and remembers. At first that is nothing: everything is held."""

    last_ms: int | None = None
    records: Records = field(default_factory=lambda: Records(zones={}, cluster=None))
    #: By zone; the key None stands for the cluster.
    pulses: Mapping[ZoneName | None, Pulse] = field(default_factory=dict)
    missing: Mapping[BookieId, Loss] = field(default_factory=dict)


def follow(
    before: Followed,
    missing: Mapping[BookieId, Location | None],
    records: Records,
    rules: ZoneWatchRules,
    *,
    now_ms: int,
) -> Followed:
    """Give what is known after a look. Look at every change and every ``evaluateEvery``.

    ``missing`` is every known bookie that is not registered.
    """
    counters: dict[ZoneName | None, int] = {
        zone: record.evaluation for zone, record in records.zones.items()
    }
    epoch = None
    if records.cluster is not None:
        counters[None] = records.cluster.evaluation
        epoch = records.cluster.delays_epoch
    pulses = {
        key: _beat(before.pulses.get(key), evaluation, now_ms)
        for key, evaluation in counters.items()
    }
    step_ms = counted_step_ms(before.last_ms, now_ms, rules) or 0
    losses = {}
    for bookie, where in missing.items():
        covered = where in records.maintenance
        evaluation = None if covered else counters.get(where.zone if where else None)
        loss = Loss(location=where, evaluation=evaluation, delays_epoch=epoch)
        known = before.missing.get(bookie)
        if known and _goes_on(known, loss):
            loss = replace(known, missing_ms=known.missing_ms + step_ms)
        losses[bookie] = loss
    return Followed(
        last_ms=now_ms,
        records=records,
        pulses=MappingProxyType(pulses),
        missing=MappingProxyType(losses),
    )


def at_present(followed: Followed, records: Records) -> Followed:
    """Give what is known with records that were read anew, without a look.

    A counter that was not followed yet has not been seen to move, and so its record holds.
    """
    keys: list[ZoneName | None] = [*records.zones, *([None] if records.cluster else ())]
    unseen = {key: _UNSEEN for key in keys if key not in followed.pulses}
    return replace(followed, records=records, pulses={**followed.pulses, **unseen})


def what_holds(
    where: Location | None, followed: Followed, policy: Policy, *, now_ms: int
) -> Held | None:
    """Say what holds the repair of a copy that was lost there; None if nothing does.

    The order: the switch; the gate of the cluster; maintenance; the gates of the zones; the records
    that are missing, and the counters that are not seen to move.
    """
    records, rules = followed.records, policy.zone_watch
    zones = [where.zone] if where else sorted({*policy.placement.zones, *records.zones})
    if not records.replication_enabled:
        text = "automatic replication is switched off: `zonekeeper autorecovery enable` ends it"
        return Held(by=HeldBy.REPLICATION_DISABLED, text=text)
    if held := _by_gate(None, followed, rules, now_ms):
        return held
    if where in records.maintenance:
        return Held(by=HeldBy.IN_MAINTENANCE, text=f"{where} is in maintenance")
    for zone in zones:
        if held := _by_gate(zone, followed, rules, now_ms):
            return held
    for key in (None, *zones):
        if held := _unknown(key, followed, rules, now_ms):
            return held
    return None


def what_holds_bookie(
    bookie: Bookie, followed: Followed, policy: Policy, *, written_off: bool, now_ms: int
) -> Held | None:
    """Say what holds the repair of the copies that a bookie held; None if nothing does.

    Nothing is to be repaired of a bookie that is registered, or that is written off.
    """
    if bookie.readable or written_off:
        return None
    return what_holds(bookie.location, followed, policy, now_ms=now_ms)


def what_holds_publishing(
    bookie: BookieId, followed: Followed, policy: Policy, *, now_ms: int
) -> Held | None:
    """Say what holds the publication of a missing bookie's ledgers; None if nothing does.

    The last ``follow`` must have been given the bookie as missing.
    """
    loss = followed.missing[bookie]
    if held := what_holds(loss.location, followed, policy, now_ms=now_ms):
        return held
    delay_ms = policy.repair.bookie_recovery_delay_ms
    if loss.missing_ms < delay_ms:
        text = f"missing for {spelled(loss.missing_ms)}, repaired after {spelled(delay_ms)}"
        return Held(by=HeldBy.RECOVERY_DELAY, text=text)
    pulse = followed.pulses[loss.location.zone if loss.location else None]
    if loss.evaluation is None or pulse.evaluation <= loss.evaluation:
        text = f"not evaluated since it is missing (evaluation {pulse.evaluation})"
        return Held(by=HeldBy.NOT_EVALUATED, text=text)
    return None


def _beat(before: Pulse | None, evaluation: int, now_ms: int) -> Pulse:
    if before is None:
        return Pulse(evaluation=evaluation)
    if evaluation == before.evaluation:
        return before
    return Pulse(evaluation=evaluation, moved_ms=now_ms)


def _goes_on(known: Loss, fresh: Loss) -> bool:
    """Is this the loss that was seen before, under the same records?"""
    return (
        known.location == fresh.location
        and known.delays_epoch == fresh.delays_epoch
        and known.evaluation is not None
        and fresh.evaluation is not None
        and known.evaluation <= fresh.evaluation
    )


def _by_gate(
    zone: ZoneName | None, followed: Followed, rules: ZoneWatchRules, now_ms: int
) -> Held | None:
    """Give the hold of the gate of a zone (None: of the cluster), as its record says it."""
    record = _record(zone, followed)
    if record is None or record.gate.permits:
        return None
    by = HeldBy.CLUSTER_HELD if zone is None else HeldBy.ZONE_HELD
    text = f"{_named(zone)} is held for {spelled(record.gate.held_ms)}: {record.gate.reason}"
    moved_ms = followed.pulses[zone].moved_ms
    if moved_ms is not None and now_ms - moved_ms > longest_step_ms(rules):
        text += f"; its evaluations are still for {spelled(now_ms - moved_ms)}"
    return Held(by=by, text=text)


def _unknown(
    zone: ZoneName | None, followed: Followed, rules: ZoneWatchRules, now_ms: int
) -> Held | None:
    """Give what is not known of a zone (None: of the cluster), and so holds."""
    what, record = _named(zone), _record(zone, followed)
    if record is None:
        text = f"there is no readable record of {what}: is a zone watch running?"
        return Held(by=HeldBy.NO_RECORD, text=text)
    moved_ms = followed.pulses[zone].moved_ms
    if moved_ms is not None and 0 <= now_ms - moved_ms <= longest_step_ms(rules):
        return None
    since = (
        "not seen to move yet" if moved_ms is None else f"still for {spelled(now_ms - moved_ms)}"
    )
    text = f"the evaluations of {what} are {since}, at {record.evaluation}"
    return Held(by=HeldBy.NOT_WATCHED, text=text)


def _record(zone: ZoneName | None, followed: Followed) -> Record | None:
    records = followed.records
    return records.cluster if zone is None else records.zones.get(zone)


def _named(zone: ZoneName | None) -> str:
    return "the cluster" if zone is None else f"zone {zone}"
