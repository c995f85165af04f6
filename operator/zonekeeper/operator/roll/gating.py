"""Which gates does a step wait for now? Pure.

Every gate is asked, and all that wait are given: a person sees at once all that is in the way. A
step that takes away nothing that works asks less. Its bookies are not registered, so no ledger is
worse off, and its pods may be what other gates wait for. Such a step waits for people, for the
metadata store, and for bookies that were made anew already and are not well: those show that what
the roll brings is bad.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from zonekeeper.operator.cluster import desired as desired_
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.roll.gates import GateWait, RollGate
from zonekeeper.operator.roll.order import Step, ZoneSet
from zonekeeper.operator.roots.planned import WorkFacts
from zonekeeper.operator.roots.roots import RootFound, Unreachable
from zonekeeper.operator.sight import budget_sight, naming
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.operator.sight.watch_sight import UNSEEN
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class RollGround:
    """What the gates are asked about: the cluster that is built, and what was seen of it."""

    desired: Desired
    observed: Observed
    sets: tuple[ZoneSet, ...]
    #: The roll rests still.
    is_baking: bool = False
    #: A person lets the step pass ``ledgerAtRisk``.
    is_overridden: bool = False

    @property
    def bookies(self) -> Iterator[tuple[BookieId, ZoneSet, Pod | None]]:
        """Every bookie that is asked for, with its zone and its pod."""
        for zone in self.sets:
            name = zone.made["metadata"]["name"]
            pods = {str(pod.name): pod for pod in zone.pods}
            for ordinal in range(self.desired.bookies_per_zone):
                bookie = BookieId(f"{name}-{ordinal}")
                yield bookie, zone, pods.get(bookie)


def ours(observed: Observed) -> tuple[Maintenance, ...]:
    """Give the declarations of maintenance that this resource made."""
    if not isinstance(observed.root, RootFound):
        return ()
    owner = desired_.owner(observed.resource)
    found = observed.root.declared.standing
    return tuple(one for one in found if one.declared_by.name == owner)


def waits(ground: RollGround, step: Step) -> tuple[GateWait, ...]:
    """Give every gate that this step waits for; none: it may begin, or go on."""
    root = ground.observed.root
    if not isinstance(root, RootFound) or root.work is None or root.policy is None:
        why = root.reason if isinstance(root, Unreachable) else "the root was not read"
        return (*_paused(ground), GateWait(RollGate.METADATA_UNREACHABLE, why))
    asked = [
        *_paused(ground),
        *_missing(ground, root, step),
        *_in_maintenance(ground, root, step),
    ]
    if step.away:
        return tuple(asked)
    asked += [
        *_read_only(ground, root, step),
        *_records(root.work),
        *_not_up(ground, root.policy),
        *_held(ground, root.policy),
        *_not_evaluated(ground, root.policy),
        *_marked(root.work),
        *_at_risk(ground, root, step),
        *_baking(ground),
    ]
    return tuple(asked)


def _paused(ground: RollGround) -> Iterator[GateWait]:
    if ground.desired.update.paused:
        yield GateWait(RollGate.PAUSED, "spec.update.paused is true")


def _baking(ground: RollGround) -> Iterator[GateWait]:
    if ground.is_baking:
        yield GateWait(RollGate.BAKING, "the roll rests for spec.update.bake after a step")


def _missing(ground: RollGround, root: RootFound, step: Step) -> Iterator[GateWait]:
    missing = []
    for bookie, zone, pod in ground.bookies:
        if bookie in step.bookies:
            continue
        is_well = pod is not None and pod.ready and not pod.leaving and bookie in root.registered
        # Its own step makes this bookie anew, before any bookie that is ready.
        has_a_turn = pod is not None and step.unready and zone.is_old(pod) and not pod.ready
        if not is_well and not has_a_turn:
            missing.append(bookie)
    if missing:
        yield GateWait(RollGate.BOOKIE_MISSING, naming.some(missing))


def _read_only(ground: RollGround, root: RootFound, step: Step) -> Iterator[GateWait]:
    asked = {bookie for bookie, _, pod in ground.bookies if pod is not None}
    if step.unready:
        # The new template may be what cures a bookie that is read-only and not ready.
        asked -= {
            b for b, zone, pod in ground.bookies if pod and not pod.ready and zone.is_old(pod)
        }
    if found := root.read_only & asked:
        yield GateWait(RollGate.BOOKIE_READ_ONLY, naming.some(found))


def _records(work: WorkFacts) -> Iterator[GateWait]:
    filling = [
        name for name, one in work.records.items() if one is not None and one.lost_data is not None
    ]
    if filling:
        yield GateWait(RollGate.BOOKIE_FILLS_IN, naming.some(filling))
    draining = [
        name for name, one in work.records.items() if one is not None and one.draining is not None
    ]
    unreadable = [name for name, one in work.records.items() if one is None]
    told = [naming.some(draining)] if draining else []
    told += [f"the record cannot be read of {naming.some(unreadable)}"] if unreadable else []
    if told:
        yield GateWait(RollGate.DRAINING, "; ".join(told))


def _not_up(ground: RollGround, policy: Policy) -> Iterator[GateWait]:
    records = ground.observed.watched.followed.records.zones
    told = [
        f"zone {zone} is {records[zone].observed.state}"
        for zone in policy.placement.zones
        if zone in records and records[zone].observed.state is not Observation.UP
    ]
    if told:
        yield GateWait(RollGate.ZONE_NOT_UP, "; ".join(told))


def _held(ground: RollGround, policy: Policy) -> Iterator[GateWait]:
    held = [
        (zone, one) for zone, one in ground.observed.watched.holds(policy) if one.by not in UNSEEN
    ]
    if not held:
        return
    (_, first), told = held[0], []
    for zone, one in held:
        of_all = one.by in (HeldBy.CLUSTER_HELD, HeldBy.REPLICATION_DISABLED)
        told.append("every zone" if of_all else f"zone {zone}")
    what = f"{first.by}: {', '.join(dict.fromkeys(told))}"
    yield GateWait(RollGate.ZONE_HELD, what, page=str(first.by))


def _not_evaluated(ground: RollGround, policy: Policy) -> Iterator[GateWait]:
    """Wait for each zone to be looked at after the last change, and for a zone watch at all."""
    watched, changed_ms = ground.observed.watched, ground.observed.changed_ms
    unseen = {zone: one.by for zone, one in watched.holds(policy) if one.by in UNSEEN}
    pulses = watched.followed.pulses
    stale: list[ZoneName] = []
    for zone in policy.placement.zones:
        moved_ms = pulses[zone].moved_ms if zone in pulses else None
        if (
            zone in unseen
            or moved_ms is None
            or (changed_ms is not None and moved_ms <= changed_ms)
        ):
            stale.append(zone)
    if stale:
        page = next(iter(unseen.values()), None)
        what = f"{'zone' if len(stale) == 1 else 'zones'} {naming.some(stale)}"
        wait = GateWait(RollGate.NOT_EVALUATED, what)
        yield wait if page is None else replace(wait, page=str(page))


def _marked(work: WorkFacts) -> Iterator[GateWait]:
    if work.marked:
        what = f"{work.marked} ledgers are marked for repair, the first is {work.first_marked}"
        yield GateWait(RollGate.UNDER_REPLICATED, what)


def _at_risk(ground: RollGround, root: RootFound, step: Step) -> Iterator[GateWait]:
    sight = ground.observed.ledgers
    if sight is None:
        yield GateWait(RollGate.LEDGER_AT_RISK, "the ledgers are being read")
        return
    away = root.locations.keys() - root.registered
    found = sight.kinds.at_risk(step.unit, root.locations, away)
    if found is not None and not ground.is_overridden:
        what = f"{found.ledgers} ledgers, the first is {found.first}, while {step.unit} is away"
        yield GateWait(RollGate.LEDGER_AT_RISK, what)


def _in_maintenance(ground: RollGround, root: RootFound, step: Step) -> Iterator[GateWait]:
    own = set(ours(ground.observed))
    told = [f"{one.unit} by {one.declared_by}" for one in root.declared.standing if one not in own]
    told += [f"{name}, which cannot be read" for name in root.declared.unreadable]
    if step.unit.zone in budget_sight.closed(ground.observed):
        told.append(f"zone {step.unit.zone} is closed while another one is open to a drain")
    if told:
        yield GateWait(RollGate.IN_MAINTENANCE, "; ".join(sorted(told)))
