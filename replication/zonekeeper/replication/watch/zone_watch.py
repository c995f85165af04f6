"""The zone watch at work: the elected process evaluates, writes the records, then performs effects.

``placement.zones.watch`` decides what a record says; here it is fetched and carried out:

- An evaluation uses what is known *now*. Before it, the records, the switch and the registrations
  are read from the store, because a view that was cut off may show the past. If one cannot be read,
  there is no evaluation: no counter moves, and everything is held.
- Each record is written by compare-and-set against the one that was evaluated. If another writer
  was faster (a person's release, another zone watch), that evaluation is dropped with its effects,
  and everything is evaluated again.
- Effects come after the record that they came with. A lost effect is asked for again by the next
  evaluation; only a line of the timeline may be lost.
- After a ``SwitchOff`` comes an evaluation that saw the switch off, before a person can turn it on
  unseen.

It evaluates at every change of what it judges by, and every ``evaluateEvery``. Its own writes are
no such change. A candidate that stands in votes only where no process has watched for
``standInAfter``.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar, assert_never

from zonekeeper.metadata.bookies import bookie_watch
from zonekeeper.metadata.cluster import elections, repair_controls, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.elections import Leadership
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Registration, Topology
from zonekeeper.placement.zones import watch
from zonekeeper.placement.zones.watch import Health, Sighting
from zonekeeper.placement.zones.zone_effects import (
    AlertCleared,
    AlertRaised,
    Effect,
    EndMaintenance,
    Noted,
    Reminder,
    SwitchOff,
)
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord
from zonekeeper.replication.view import alerts
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View
from zonekeeper.wire.formats.exposition import number

_R = TypeVar("_R", bound=Record)
#: None is the cluster's record.
_Key: TypeAlias = ZoneName | None

#: At most so many evaluations follow each other at once. Then the zone watch waits for a change, or
#: for ``evaluateEvery``.
ROUNDS_MAX: Final = 4

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class WatchCounters:
    """Whether the zone watch of one process leads, and what it has done."""

    leading: int = number("1 while this process is the zone watch, else 0.")
    evaluations_total: int = number("Evaluations of all zones by this process.")
    skipped_total: int = number(
        "Evaluations that an unreadable record or an error of the store has ended."
    )
    overtaken_total: int = number(
        "Records that another writer wrote between an evaluation's read and its write."
    )
    alerts_raised_total: int = number("Alerts that this process has raised.")
    reminders_total: int = number("Reminders of alerts that stand.")


class ZoneWatch:
    """One candidate for the zone watch."""

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        *,
        name: BookieId,
        chance: Chance,
        wall_ms: Callable[[], int],
        stands_in: bool,
    ) -> None:
        """Make a candidate. One that ``stands_in`` votes only after ``standInAfter``."""
        self._cluster = cluster
        self._view = view
        self._name = name
        self._wall_ms = wall_ms
        self._stands_in = stands_in
        self._health = Health()
        self.chronicle = Chronicle(cluster, by=f"zone watch {name}", chance=chance, wall_ms=wall_ms)
        self.counters = WatchCounters()
        #: Why the last evaluation was left out; None: it was not.
        self._skipped: type[Exception] | None = None

    async def run(self) -> None:
        """Stand for election, and watch while elected; until cancelled."""
        await self._view.known()
        votes = elections.zone_watch_votes(self._cluster)
        watching: asyncio.Task[None] | None = None
        async with (
            alongside() as group,
            elections.stand(
                self._cluster.store,
                votes,
                self._name,
                stand_in_after_ms=self._stand_in_after_ms if self._stands_in else None,
            ) as states,
        ):
            try:
                async for leadership in states:
                    if watching is not None:
                        watching.cancel()
                        await asyncio.wait([watching])
                    self._log_lead(leads=leadership is not None)
                    self.counters.leading = leadership is not None
                    watching = None
                    if leadership is not None:
                        watching = group.create_task(self._watch(leadership))
            finally:
                self.counters.leading = False
                if watching is not None:
                    watching.cancel()

    def _log_lead(self, *, leads: bool) -> None:
        if leads != self.counters.leading:
            text = "is the zone watch now" if leads else "is not the zone watch any more"
            _logger.info("%s %s", self._name, text, extra={"role": "zone watch"})

    def _stand_in_after_ms(self) -> int:
        return self._view.policy.zone_watch.stand_in_after_ms

    async def _watch(self, leadership: Leadership) -> None:
        """Evaluate at every change, and every ``evaluateEvery``, as long as this process leads."""
        while True:
            judged_by = self._judged_by()
            due_s = _now_s() + self._view.policy.zone_watch.evaluate_every_ms / 1000
            await self._evaluate(leadership)
            await self._changed(judged_by, due_s)

    async def _changed(self, judged_by: tuple[object, ...], due_s: float) -> None:
        """Wait until what is judged by has changed, or until ``due_s``."""
        looks = self._view.looks
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due_s):
                while self._judged_by() == judged_by:
                    looks = await self._view.changed(looks)

    def _judged_by(self) -> tuple[object, ...]:
        view = self._view
        return (
            _standing(view.topology),
            view.written_off,
            dict(view.maintenance),
            view.replication_enabled,
            view.policy,
            view.unreadable,
        )

    # ── one evaluation ──

    async def _evaluate(self, leadership: Leadership) -> None:
        """Evaluate. Do so again at once if another writer was faster, or the switch was set."""
        switch: bool | None = None
        for _ in range(ROUNDS_MAX):
            try:
                outcome = await self._round(leadership, switch)
            except UnreadableError as error:
                self._skip(logging.ERROR, error)
                return
            except StoreError as error:
                if not (error.retryable or error.maybe_applied):
                    raise
                self._skip(logging.WARNING, error)
                return
            if self._skipped is not None:
                self._skipped = None
                _logger.info("zones are evaluated again")
            switch = outcome.switch
            if not outcome.again:
                return

    def _skip(self, level: int, why: Exception) -> None:
        self.counters.skipped_total += 1
        if type(why) is not self._skipped:
            self._skipped = type(why)
            _logger.log(level, "nothing is evaluated now, and what stands still is held: %s", why)

    async def _round(self, leadership: Leadership, switch: bool | None) -> "_Outcome":
        """Evaluate once. ``switch`` is how this watch has just set the switch; None: read it."""
        sighting = await self._seen(switch)
        before = replace(self._health, zones=await self._zones(), cluster=await self._of_cluster())
        session = self._cluster.store.session
        if not session.connected or session.id != leadership.session:
            return _Outcome()  # another process may lead by now
        after, effects = watch.evaluate(
            before,
            sighting,
            self._view.policy,
            now_ms=int(_now_s() * 1000),
            wall_ms=self._wall_ms(),
        )
        self._health = after
        self.counters.evaluations_total += 1
        written = await self._write(before, after)
        lost = len(after.zones) + 1 - len(written)
        self.counters.overtaken_total += lost
        thrown = False
        for effect in effects:
            if _record_of(effect) in written:
                thrown |= await self._perform(effect)
        return _Outcome(again=thrown or lost > 0, switch=False if thrown else None)

    async def _seen(self, switch: bool | None) -> Sighting:
        """Give what an evaluation judges by. Switch and registrations are read by this call."""
        view = self._view
        if view.unreadable:
            names = ", ".join(view.unreadable)
            raise MalformedError(
                Flaw.OUT_OF_RANGE, f"{self._cluster}: {names} cannot be read: mend or remove it"
            )
        enabled = await repair_controls.is_enabled(self._cluster) if switch is None else switch
        # After a read that is in step with the store, no later read shows an older state.
        registered = await bookie_watch.registrations(self._cluster)
        return Sighting(
            bookies=_as_registered(view.topology, registered),
            written_off=view.written_off,
            maintenance=tuple(one for _, one in sorted(view.maintenance.items())),
            replication_enabled=enabled,
        )

    async def _zones(self) -> dict[ZoneName, ZoneRecord]:
        directory = self._cluster.root.beside("zones")
        names = await self._cluster.store.children(directory, sync=True) or ()
        found = {}
        for name in map(ZoneName, names):
            record = await zone_store.read_zone(self._cluster, name)
            if record is not None and record.zone != name:
                raise MalformedError(
                    Flaw.OUT_OF_RANGE, f"{directory}/{name} is the record of zone {record.zone}"
                )
            if record is not None:
                found[name] = record
        return found

    async def _of_cluster(self) -> ClusterRecord | None:
        return await zone_store.read_cluster(self._cluster)

    async def _write(self, before: Health, after: Health) -> set[_Key]:
        """Write the records; give the keys of those in which no other writer was faster."""
        written: set[_Key] = set()
        for zone, record in after.zones.items():
            with suppress(_OvertakenError):
                await zone_store.change_zone(
                    self._cluster, zone, _unless_overtaken(before.zones.get(zone), record)
                )
                written.add(zone)
        assert after.cluster is not None, "an evaluation gives the cluster's record"
        with suppress(_OvertakenError):
            await zone_store.change_cluster(
                self._cluster, _unless_overtaken(before.cluster, after.cluster)
            )
            written.add(None)
        return written

    # ── what follows ──

    async def _perform(self, effect: Effect) -> bool:
        """Carry out one effect; say whether it turned the switch off."""
        try:
            match effect:
                case AlertRaised() | AlertCleared() | Noted() | Reminder():
                    self.counters.alerts_raised_total += isinstance(effect, AlertRaised)
                    self.counters.reminders_total += isinstance(effect, Reminder)
                    await alerts.tell(self.chronicle, effect)
                case SwitchOff():
                    await repair_controls.set_enabled(self._cluster, enabled=False)
                    reason = f"{effect.reason} (incident {effect.token})"
                    await self.chronicle.write("switched off", "automatic replication", reason)
                    return True
                case EndMaintenance():
                    await zone_store.lift(self._cluster, effect.maintenance)
                    unit = f"maintenance of {effect.maintenance.unit}"
                    await self.chronicle.write("ended", unit, effect.reason)
                case _:
                    assert_never(effect)
        except StoreError as error:
            if not (error.retryable or error.maybe_applied):
                raise
            _logger.warning("not done, the next evaluation asks again: %s", error)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What one round leaves to be done."""

    again: bool = False
    #: How this zone watch has set the switch; None: it has not.
    switch: bool | None = None


class _OvertakenError(Exception):
    """Another writer wrote the record since it was read."""


def _unless_overtaken(before: _R | None, after: _R) -> Callable[[_R | None], _R | None]:
    def decide(standing: _R | None) -> _R | None:
        if standing not in (before, after):
            raise _OvertakenError
        return after

    return decide


def _record_of(effect: Effect) -> _Key:
    """Give the key of the record that an effect came with."""
    match effect:
        case AlertRaised() | AlertCleared() | Reminder() | Noted():
            return effect.zone
        case SwitchOff() | EndMaintenance():
            return None
        case _:
            assert_never(effect)


def _standing(bookies: Topology) -> tuple[object, ...]:
    """Give what a judgement depends on; the room of bookies, which changes often, is not in it."""
    return tuple((one.id, one.location, one.registration, one.draining) for one in bookies)


def _as_registered(seen: Topology, registered: Mapping[BookieId, Registration]) -> Topology:
    """Give the bookies of a topology with these registrations."""
    changed = [
        replace(bookie, registration=now)
        for bookie in seen
        if bookie.registration is not (now := registered.get(bookie.id, Registration.ABSENT))
    ]
    return seen.updated(put=changed) if changed else seen


def _now_s() -> float:
    return asyncio.get_running_loop().time()
