"""The roll: what it does next, what it waits for, and what it notes. Pure.

One step at a time, each in this order:

1. The image is vetted, and all gates hold. The zone's StatefulSet gets the template, if it does
   not have it yet.
2. The step is noted, and maintenance of its unit is declared.
3. All gates hold still. The pods of the step are deleted together, by their uids.
4. Each bookie is well: its pod is another one, ready and of the new template; it is registered and
   takes writes; the number of its start is higher; it has not lost data.
5. Maintenance ends. The roll rests.

A step that has not touched a pod is dropped when a gate does not hold any more, and when something
else is asked for. A step that has touched one is waited for. If a pod of it is in trouble, or the
time is up, the roll halts: maintenance ends, so that the losses of the unit are judged like others,
and nothing more is touched. A halted step goes on when its bookies are well after all. It ends when
something else is asked for, for example what was there before.

At most one unit is away because of the roll: no step begins while another one is noted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import OVERRIDE
from zonekeeper.operator.roll import gating, memory, order, vetting
from zonekeeper.operator.roll.gates import GateWait, RollGate
from zonekeeper.operator.roll.gating import RollGround
from zonekeeper.operator.roll.memory import BegunStep, Halt, RollMemory, TakenBookie
from zonekeeper.operator.roll.order import Step, ZoneSet
from zonekeeper.operator.roll.vetting import ImageSight
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.placement.zones.maintenance import Maintenance

#: The halted pod of a step whose time is up has these words when Kubernetes says nothing.
_NOT_WELL: Final = "is not well within spec.update.deadline ({}): {}"


@dataclass(frozen=True, slots=True)
class Reach:
    """Give a zone's StatefulSet the template that is asked for."""

    zone: ZoneName


@dataclass(frozen=True, slots=True)
class Declare:
    """Declare maintenance of a unit."""

    unit: Location


@dataclass(frozen=True, slots=True)
class Renew:
    """Let a declaration last anew."""

    declared: Maintenance


@dataclass(frozen=True, slots=True)
class Lift:
    """Lift a declaration."""

    declared: Maintenance


@dataclass(frozen=True, slots=True)
class TakeAway:
    """Delete this very pod, which Kubernetes makes anew."""

    bookie: BookieId
    uid: str


@dataclass(frozen=True, slots=True)
class AskImage:
    """Make the pod that asks the image for its formats, in this zone."""

    zone: ZoneName


@dataclass(frozen=True, slots=True)
class ForgetImage:
    """Remove this very pod that has asked an image."""

    name: str
    uid: str


Move: TypeAlias = Reach | Declare | Renew | Lift | TakeAway | AskImage | ForgetImage


@dataclass(frozen=True, slots=True, kw_only=True)
class RollProgress:
    """What one turn decides about the roll."""

    moves: tuple[Move, ...] = ()
    #: The gates that the next step waits for.
    waits: tuple[GateWait, ...] = ()
    #: What the step that has begun waits for, in words.
    stepping: str | None = None
    notes: RollMemory
    #: What was decided from.
    sets: tuple[ZoneSet, ...] = ()
    #: The steps that are left, the one that has begun left out.
    steps: tuple[Step, ...] = ()
    #: A person let this step pass, now.
    overridden: Step | None = None
    #: Nothing is to be rolled, as far as is known.
    is_done: bool = False
    #: The image that is asked for may reach templates.
    is_image_free: bool = True

    @property
    def halt(self) -> Halt | None:
        """Why the roll has stopped by itself."""
        return None if self.notes.step is None else self.notes.step.halt


def decide(desired: Desired, observed: Observed) -> RollProgress:
    """Decide what the roll does now."""
    sets = order.zone_sets(desired, observed)
    return replace(_Roll(desired, observed, sets).decide(), sets=sets)


class _Roll:
    """One decision; it is thrown away afterwards."""

    def __init__(self, desired: Desired, observed: Observed, sets: tuple[ZoneSet, ...]) -> None:
        self._desired = desired
        self._observed = observed
        self._sets = sets
        self._notes = memory.read(observed.status)
        self._brings = order.brought(self._sets)
        self._ours = gating.ours(observed)
        self._domains = RoundRobin(upgrade_domains=desired.policy.placement.upgrade_domains)
        has_canary = self._notes.proven != self._brings
        self._steps = order.remaining(desired, observed, has_canary=has_canary, sets=self._sets)

    def decide(self) -> RollProgress:
        override = self._observed.resource["metadata"].get("annotations", {}).get(OVERRIDE)
        if self._notes.used is not None and override != self._notes.used:
            self._notes = replace(self._notes, used=None)
        step = self._notes.step
        if step is not None and step.brings == self._brings:
            return self._go_on(step)
        self._notes = replace(self._notes, step=None)
        return self._begin(override)

    # a step that has begun

    def _go_on(self, step: BegunStep) -> RollProgress:
        pods = {pod.name: pod for zone in self._sets for pod in zone.pods}
        left = [one for one in step.taken if _stands(one, pods.get(one.bookie))]
        if len(left) == len(step.taken):
            return self._before(step)
        pending = dict(self._pending(step, pods))
        touched = {one.bookie for one in step.taken} - {one.bookie for one in left}
        if left and not touched & pending.keys():
            return self._finish(step)
        if left and step.halt is None and not self._gates(step):
            return self._stepping(step, tuple(TakeAway(o.bookie, o.uid) for o in left), pending)
        if not pending:
            return self._finish(step)
        return self._wait(step, pods, {name: pending[name] for name in pending if name in touched})

    def _before(self, step: BegunStep) -> RollProgress:
        """Go on with a step that has touched nothing."""
        standing = self._declared(step.unit)
        waits = self._gates(step)
        if waits:
            notes = replace(self._notes, step=None)
            ends = tuple(Lift(one) for one in self._ours)
            return self._waiting(waits, notes, moves=ends)
        if standing is None:
            return self._stepping(step, (Declare(step.unit),), {})
        return self._stepping(step, tuple(TakeAway(o.bookie, o.uid) for o in step.taken), {})

    def _wait(
        self, step: BegunStep, pods: dict[BookieId, Pod], pending: dict[BookieId, str]
    ) -> RollProgress:
        """Wait for the bookies of a step, or halt."""
        halt = step.halt or self._halts(step, pods, pending)
        standing = self._declared(step.unit)
        moves: tuple[Move, ...]
        if halt is not None:
            moves = () if standing is None else (Lift(standing),)
        elif standing is None:
            moves = (Declare(step.unit),)
        else:
            moves = (Renew(standing),) if self._is_half_over(standing) else ()
        found = self._stepping(replace(step, halt=halt), moves, pending)
        is_seen = isinstance(self._observed.root, RootFound)
        return (
            found if is_seen or halt is not None else replace(found, waits=self._gates(step)[-1:])
        )

    def _finish(self, step: BegunStep) -> RollProgress:
        """Lift maintenance first, and then the step."""
        standing = self._declared(step.unit)
        if standing is not None:
            return self._stepping(step, (Lift(standing),), {})
        proven = self._brings if step.is_canary else self._notes.proven
        notes = replace(self._notes, step=None, ended_ms=self._observed.wall_ms, proven=proven)
        steps = self._steps
        return RollProgress(
            notes=notes, steps=steps, is_done=not steps, stepping="a step has ended"
        )

    def _pending(
        self, step: BegunStep, pods: dict[BookieId, Pod]
    ) -> Iterator[tuple[BookieId, str]]:
        """Give the bookies of a step that are not well yet, and what each lacks."""
        zone = next(one for one in self._sets if one.zone == step.unit.zone)
        root = self._observed.root
        for one in step.taken:
            lacks = self._lacks(one, zone, pods.get(one.bookie), root)
            if lacks is not None:
                yield one.bookie, lacks

    def _lacks(self, one: TakenBookie, zone: ZoneSet, pod: Pod | None, root: object) -> str | None:
        """Say what a bookie of the step lacks to be well; None: nothing."""
        if pod is None or pod.leaving or pod.uid == one.uid:
            return "its pod is being made anew"
        if not zone.is_reached or zone.revision is None or pod.revision != zone.revision:
            return "its pod is not known to run what is asked for"
        if not pod.ready:
            return "its pod is not ready"
        return _lacks_in_root(one, root)

    def _halts(
        self, step: BegunStep, pods: dict[BookieId, Pod], pending: dict[BookieId, str]
    ) -> Halt | None:
        for name in pending:
            pod = pods.get(name)
            if pod is not None and pod.trouble is not None:
                return Halt(pod=name, words=f"{pod.trouble.kind}: {pod.trouble.told}")
        deadline_ms = self._desired.update.deadline_ms
        if pending and self._observed.wall_ms - step.begun_ms >= deadline_ms:
            name, lacks = next(iter(pending.items()))
            return Halt(pod=name, words=_NOT_WELL.format(units.duration_text(deadline_ms), lacks))
        return None

    # a new step

    def _begin(self, override: str | None) -> RollProgress:
        image = vetting.sight(self._desired, self._observed, self._sets)
        return replace(self._begin_with(image, override), is_image_free=image.is_free)

    def _begin_with(self, image: ImageSight, override: str | None) -> RollProgress:
        forgets = (ForgetImage(one.name, one.uid) for one in image.forget)
        stray: tuple[Move, ...] = (*self._stray(), *forgets)
        if image.wait is not None:
            return self._wait_for_image(image, image.wait, stray)
        if not order.is_pending(self._sets):
            notes = RollMemory(used=self._notes.used, proven=self._notes.proven)
            return RollProgress(moves=stray, notes=notes, is_done=True)
        if not self._steps:
            return RollProgress(
                moves=stray, notes=self._notes, stepping="Kubernetes looks at the template"
            )
        step = self._steps[0]
        waits = gating.waits(self._ground(is_overridden=False), step)
        is_free = self._notes.used is None and override == RollGate.LEDGER_AT_RISK
        passes = is_free and [one.gate for one in waits] == [RollGate.LEDGER_AT_RISK]
        if passes and self._observed.ledgers is not None:
            waits = ()
        else:
            passes = False
        if waits:
            return self._waiting(waits, self._notes, moves=stray)
        zone = next(one for one in self._sets if one.zone == step.unit.zone)
        if not zone.is_reached:
            moves: tuple[Move, ...] = (*stray, Reach(zone.zone))
            return RollProgress(
                moves=moves, notes=self._notes, steps=self._steps, stepping=f"zone {zone.zone}"
            )
        begun = self._begun(step, zone, is_overridden=passes)
        used = override if passes else self._notes.used
        notes = replace(self._notes, step=begun, used=used)
        declare = () if self._declared(step.unit) else (Declare(step.unit),)
        return RollProgress(
            moves=declare,
            notes=notes,
            steps=self._steps[1:],
            stepping=f"maintenance of {step.unit}",
            overridden=step if passes else None,
        )

    def _wait_for_image(
        self, image: ImageSight, wait: GateWait, stray: tuple[Move, ...]
    ) -> RollProgress:
        """Wait until the image has said its formats; all that the step waits for is told, too.

        Where no pod stands there is no step, and the templates wait for the image all the same.
        """
        step = self._steps[0] if self._steps else None
        zone = self._sets[0].zone if step is None else step.unit.zone
        asks = (AskImage(zone),) if image.ask else ()
        ground = self._ground(is_overridden=False)
        waits = (wait, *(() if step is None else gating.waits(ground, step)))
        return self._waiting(waits, self._notes, moves=(*stray, *asks))

    def _begun(self, step: Step, zone: ZoneSet, *, is_overridden: bool) -> BegunStep:
        pods = {pod.name: pod for pod in zone.pods}
        root = self._observed.root
        assert isinstance(root, RootFound), "its gates hold"
        assert root.work is not None, "its gates hold"
        records = root.work.records
        taken = []
        for name in step.bookies:
            record = records.get(name)
            epoch = None if record is None else record.boot_epoch
            taken.append(TakenBookie(bookie=name, uid=pods[name].uid, boot_epoch=epoch))
        return BegunStep(
            unit=step.unit,
            taken=tuple(taken),
            brings=self._brings,
            begun_ms=self._observed.wall_ms,
            is_canary=step.canary,
            is_unready=step.unready,
            is_away=step.away,
            is_overridden=is_overridden,
        )

    # what both need

    def _gates(self, begun: BegunStep) -> tuple[GateWait, ...]:
        step = Step(
            unit=begun.unit,
            bookies=tuple(one.bookie for one in begun.taken),
            canary=begun.is_canary,
            unready=begun.is_unready,
            away=begun.is_away,
        )
        return gating.waits(self._ground(is_overridden=begun.is_overridden), step)

    def _ground(self, *, is_overridden: bool) -> RollGround:
        bake_ms, ended_ms = self._desired.update.bake_ms, self._notes.ended_ms
        rested_ms = None if ended_ms is None else self._observed.wall_ms - ended_ms
        return RollGround(
            desired=self._desired,
            observed=self._observed,
            sets=self._sets,
            is_baking=rested_ms is not None and 0 <= rested_ms < bake_ms,
            is_overridden=is_overridden,
        )

    def _declared(self, unit: Location) -> Maintenance | None:
        return next((one for one in self._ours if one.unit == unit), None)

    def _stray(self) -> Iterator[Lift]:
        """Find declarations of ours that no step needs.

        One is left where something else was asked for in the midst of a step, and where the note of
        a step was lost. If the unit has a bookie that is not well, it stands until the time of a
        step is up: the bookie may just start, or the next step is of this unit and takes it over.
        """
        for one in self._ours:
            is_over = self._ran_ms(one) >= self._desired.update.deadline_ms
            if is_over or self._is_unit_well(one.unit):
                yield Lift(one)

    def _is_unit_well(self, unit: Location) -> bool:
        root = self._observed.root
        return isinstance(root, RootFound) and all(
            pod is not None and pod.ready and not pod.leaving and bookie in root.registered
            for bookie, zone, pod in self._ground(is_overridden=False).bookies
            if order.unit_of(bookie, zone.zone, self._domains) == unit
        )

    def _ran_ms(self, declared: Maintenance) -> int:
        """Give the counted time that a declaration has run; 0 where no zone watch has counted."""
        record = self._observed.watched.followed.records.cluster
        ran = () if record is None else record.maintenance
        return next((one.ms for one in ran if one.token == declared.token), 0)

    def _is_half_over(self, declared: Maintenance) -> bool:
        return 2 * self._ran_ms(declared) >= declared.lasts_ms

    def _waiting(
        self, waits: tuple[GateWait, ...], notes: RollMemory, *, moves: tuple[Move, ...]
    ) -> RollProgress:
        return RollProgress(moves=moves, waits=waits, notes=notes, steps=self._steps)

    def _stepping(
        self, step: BegunStep, moves: tuple[Move, ...], pending: dict[BookieId, str]
    ) -> RollProgress:
        lacking = "; ".join(f"{name}: {lacks}" for name, lacks in sorted(pending.items()))
        words = lacking or f"the pods of {step.unit} are made anew"
        taken = {one.bookie for one in step.taken}
        return RollProgress(
            moves=moves,
            stepping=words,
            notes=replace(self._notes, step=step),
            steps=tuple(one for one in self._steps if not taken & {*one.bookies}),
        )


def _stands(taken: TakenBookie, pod: Pod | None) -> bool:
    """Is this the pod that is to be made anew, still untouched?"""
    return pod is not None and pod.uid == taken.uid and not pod.leaving


def _lacks_in_root(one: TakenBookie, root: object) -> str | None:
    """Say what a bookie lacks by the metadata store; unknown is not well."""
    if not isinstance(root, RootFound) or root.work is None:
        return "the metadata store was not read"
    record = root.work.records.get(one.bookie)
    if one.bookie not in root.registered:
        return "it is not registered"
    if one.bookie in root.read_only:
        return "it is read-only"
    if record is None or record.boot_epoch <= (one.boot_epoch or 0):
        return "no new start of it is noted"
    return None if record.lost_data is None else "it has lost data, and fills in what is missing"
