"""May this loss be repaired now? What auditor and replicators ask before they do anything.

They are other processes than the zone watch, with clocks of their own; all they have is the
records. ``follow`` keeps what such a process has to remember between two looks: how long it sees
each bookie missing (counted, see ``watching``), and when it last saw each evaluation counter move.
Two questions:

- ``what_holds``: may a loss there be repaired *now*? Asked before a task is claimed and started,
  and before each carrier of one in flight.
- ``what_holds_publishing``: may its ledgers be published for repair? That, and the bookie has been
  missing for ``bookieRecoveryDelay``, and the zone was evaluated since this process first saw it
  missing.

The answer is None, or the first thing that holds it, by name and in words. Whatever is unknown
holds: no record, a counter that has not been seen to move, a counter that stands still. So the
hold of a failing zone is in force before its first ledger is published, as long as
``bookieRecoveryDelay`` is at least ``sessionTimeout + evaluateEvery + suspectFor``: by then its
other bookies' sessions have run out too, and a watch that is alive has seen it.

A loss is seen anew (its delay begins again) when it was in maintenance, when the cluster stopped
being held, and when the records it was first seen under are gone. A bookie that is back is no loss.

A bookie whose zone nobody knows may be in any: it is held while any zone is, and while the record
of any zone that the policy names is missing.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import Policy, ZoneWatchRules
from zonekeeper.placement.zones.counted_time import counted_step_ms, longest_step_ms, spelled
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord


class HeldBy(enum.StrEnum):
    """What can hold a repair: the names that status, metrics and runbooks use."""

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
    """What is stored, as this process read it. A record that cannot be read is left out."""

    zones: Mapping[ZoneName, ZoneRecord]
    cluster: ClusterRecord | None
    #: Units with a maintenance record, run out or not: its losses are held until it is gone.
    maintenance: frozenset[Location] = frozenset()
    replication_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """An evaluation counter, and when this process last saw it move; None: not yet."""

    evaluation: int
    moved_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One missing bookie."""

    location: Location | None
    #: Counted time since it was first seen missing.
    missing_ms: int = 0
    #: The counters when it was first seen missing. None: there was no record, or it was in
    #: maintenance; the next look sees it anew.
    evaluation: int | None
    delays_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What this process knows and remembers. It begins with nothing, and everything is held."""

    last_ms: int | None = None
    records: Records = field(default_factory=lambda: Records(zones={}, cluster=None))
    #: None is the cluster's.
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
    """Give what is known after a look, to be taken at every change and every ``evaluateEvery``.

    ``missing`` is every known bookie that is not there.
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


def what_holds(
    where: Location | None, followed: Followed, policy: Policy, *, now_ms: int
) -> Held | None:
    """Say what holds the repair of a copy that was lost there; None: nothing."""
    records, rules = followed.records, policy.zone_watch
    if not records.replication_enabled:
        text = "automatic replication is switched off: `zonekeeper autorecovery enable` ends it"
        return Held(by=HeldBy.REPLICATION_DISABLED, text=text)
    if held := _by_record(None, followed, rules, now_ms):
        return held
    if where in records.maintenance:
        return Held(by=HeldBy.IN_MAINTENANCE, text=f"{where} is in maintenance")
    for zone in [where.zone] if where else sorted({*policy.placement.zones, *records.zones}):
        if held := _by_record(zone, followed, rules, now_ms):
            return held
    return None


def what_holds_publishing(
    bookie: BookieId, followed: Followed, policy: Policy, *, now_ms: int
) -> Held | None:
    """Say what holds the publication of a missing bookie's ledgers; None: nothing.

    The bookie must be among the missing that were followed.
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
    """Is it the loss that was seen before, under the same records?"""
    return (
        known.location == fresh.location
        and known.delays_epoch == fresh.delays_epoch
        and known.evaluation is not None
        and fresh.evaluation is not None
        and known.evaluation <= fresh.evaluation
    )


def _by_record(
    zone: ZoneName | None, followed: Followed, rules: ZoneWatchRules, now_ms: int
) -> Held | None:
    """Say whether a zone's record holds, or (None) the cluster's, or that nobody keeps it."""
    what = "the cluster" if zone is None else f"zone {zone}"
    record = followed.records.cluster if zone is None else followed.records.zones.get(zone)
    if record is None:
        text = f"there is no readable record of {what}: is a zone watch running?"
        return Held(by=HeldBy.NO_RECORD, text=text)
    if not record.gate.permits:
        by = HeldBy.CLUSTER_HELD if zone is None else HeldBy.ZONE_HELD
        text = f"{what} is held for {spelled(record.gate.held_ms)}: {record.gate.reason}"
        return Held(by=by, text=text)
    moved_ms = followed.pulses[zone].moved_ms
    if moved_ms is not None and 0 <= now_ms - moved_ms <= longest_step_ms(rules):
        return None
    since = (
        "not seen to move yet" if moved_ms is None else f"still for {spelled(now_ms - moved_ms)}"
    )
    text = f"the evaluations of {what} are {since}, at {record.evaluation}"
    return Held(by=HeldBy.NOT_WATCHED, text=text)
