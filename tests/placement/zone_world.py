"""Zones, a zone watch and an auditor in virtual time: what the scenarios are played on.

The watch and the auditor run the real code against the records; they look at every change and at
every tick, each by a monotonic clock of its own. Repair is a wait: what was published is repaired
``repair_ms`` later, and its bookie is then written off.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from zonekeeper.placement.base import units
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.policy.rules import PlacementRules, Policy, RepairRules, ZoneWatchRules
from zonekeeper.placement.zones import losses, zone_record_data
from zonekeeper.placement.zones import watch as zone_watch
from zonekeeper.placement.zones.freeze import ClusterObservation
from zonekeeper.placement.zones.gate import Permission, Person, Token
from zonekeeper.placement.zones.losses import Followed, Held, Records
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.watch import Health, Sighting
from zonekeeper.placement.zones.zone_effects import (
    Alert,
    AlertCleared,
    AlertRaised,
    Effect,
    EndMaintenance,
    Noted,
    Reminder,
    SwitchOff,
)
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord

SECOND = units.SECOND_MS
MINUTE = units.MINUTE_MS
HOUR = units.HOUR_MS

A, B, C = ZoneName("a"), ZoneName("b"), ZoneName("c")
ANNA = Person(name="anna", reason="the zone is gone for good")


def policy(
    watch: ZoneWatchRules | None = None,
    repair: RepairRules | None = None,
    zones: tuple[ZoneName, ...] = (A, B, C),
) -> Policy:
    """Give the defaults, but for what is given."""
    return Policy(
        placement=PlacementRules(zones=zones),
        zone_watch=watch or ZoneWatchRules(),
        repair=repair or RepairRules(),
    )


def members(zone: ZoneName, *numbers: int) -> list[BookieId]:
    """Name bookies of a zone; all of the usual ten without numbers."""
    return [BookieId(f"{zone}-{number}") for number in numbers or range(10)]


def where(bookie: BookieId) -> Location:
    """Say where a bookie stands: three upgrade domains a zone."""
    zone, _, number = bookie.rpartition("-")
    return Location(ZoneName(zone), UpgradeDomain(f"ud-{int(number) % 3}"))


def reread(health: Health) -> Health:
    """Give what a new watch finds: the records, through their stored form, and nothing else."""
    assert health.cluster is not None
    return Health(
        zones={zone: zone_record_data.zone_record(_stored(r)) for zone, r in health.zones.items()},
        cluster=zone_record_data.cluster_record(_stored(health.cluster)),
    )


def _stored(record: Record) -> dict[str, Plain]:
    text = json.dumps(zone_record_data.plain(record), sort_keys=True)
    data = json.loads(text)
    assert isinstance(data, dict)
    return data


@dataclass
class World:
    """Everything there is, and what happened to it."""

    policy: Policy = field(default_factory=policy)
    #: None: what was published is never repaired.
    repair_ms: int | None = 0
    now_ms: int = 0
    #: What the clocks of the watch and the auditor show at time 0.
    watch_clock_ms: int = 7_000_000
    auditor_clock_ms: int = 3_000_000
    watching: bool = True
    auditing: bool = True
    present: dict[BookieId, bool] = field(default_factory=dict)
    #: Bookies whose cookies have no location.
    nowhere: set[BookieId] = field(default_factory=set)
    draining: set[BookieId] = field(default_factory=set)
    written_off: set[BookieId] = field(default_factory=set)
    maintenance: dict[Location, Maintenance] = field(default_factory=dict)
    enabled: bool = True
    health: Health = field(default_factory=Health)
    followed: Followed = field(default_factory=Followed)
    published: dict[BookieId, int] = field(default_factory=dict)
    happened: list[tuple[int, Effect]] = field(default_factory=list)
    #: The bookies as they were seen last, and what was seen.
    shown: tuple[object, Topology] = (None, Topology())

    # ── what happens ──

    def lose(self, bookies: Iterable[BookieId]) -> None:
        """Registrations end."""
        for bookie in bookies:
            self.present[bookie] = False
        self.look()

    def come(self, bookies: Iterable[BookieId]) -> None:
        """Bookies register, old ones or new ones."""
        for bookie in bookies:
            self.present[bookie] = True
            self.published.pop(bookie, None)
            self.written_off.discard(bookie)
        self.look()

    def decommission(self, bookie: BookieId) -> None:
        """Drain a bookie, then remove its cookie, then the bookie."""
        self.draining.add(bookie)
        self.look()
        del self.present[bookie]
        self.look()

    def declare(self, zone: ZoneName, domain: int, lasts_ms: int, token: str = "m-1") -> None:
        """Begin the maintenance of a unit."""
        unit = Location(zone, UpgradeDomain(f"ud-{domain}"))
        self.maintenance[unit] = Maintenance(
            unit=unit, token=Token(token), declared_by=ANNA, lasts_ms=lasts_ms
        )
        self.look()

    def wait(self, for_ms: int, every_ms: int = 10 * SECOND) -> None:
        """Let time pass; watch and auditor look at every tick, and at the end."""
        until_ms = self.now_ms + for_ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + every_ms)
            self.look()

    def change_watcher(self, clock_ms: int = 0) -> None:
        """Another watch takes over, on another machine."""
        self.health = reread(self.health)
        self.watch_clock_ms = clock_ms - self.now_ms
        self.watching = True
        self.look()

    def release(self, zone: ZoneName | None, person: Person = ANNA) -> None:
        """A person releases what is held now."""
        record: Record = self.cluster if zone is None else self.zone(zone)
        after, effects = zone_watch.release(
            record, token=record.gate.token, person=person, policy=self.policy, wall_ms=self.now_ms
        )
        self._store(after, effects)

    def hold(self, zone: ZoneName | None, person: Person = ANNA) -> None:
        """A person holds."""
        record: Record = self.cluster if zone is None else self.zone(zone)
        after, effects = zone_watch.hold(
            record, person=person, policy=self.policy, wall_ms=self.now_ms
        )
        self._store(after, effects)

    def _store(self, record: Record, effects: tuple[Effect, ...]) -> None:
        if isinstance(record, ZoneRecord):
            zones = {**self.health.zones, record.zone: record}
            cluster = self.health.cluster
        else:
            zones, cluster = dict(self.health.zones), record
        self.health = Health(
            watcher=self.health.watcher, made=self.health.made, zones=zones, cluster=cluster
        )
        self._perform(effects)
        self.look()

    def look(self) -> None:
        """The watch evaluates and its effects are performed; then the auditor looks."""
        if self.watching:
            seen = Sighting(
                bookies=self._bookies(),
                written_off=frozenset(self.written_off),
                maintenance=tuple(self.maintenance.values()),
                replication_enabled=self.enabled,
            )
            now_ms = self.now_ms + self.watch_clock_ms
            self.health, effects = zone_watch.evaluate(
                self.health, seen, self.policy, now_ms=now_ms, wall_ms=self.now_ms
            )
            self._perform(effects)
        if self.auditing:
            self._audit()

    def _bookies(self) -> Topology:
        """Show the bookies; the view is built anew only where something changed."""
        state = (dict(self.present), set(self.draining))
        if self.shown[0] != state:
            view = Topology(
                Bookie(
                    id=bookie,
                    location=self._where(bookie),
                    registration=Registration.WRITABLE if there else Registration.ABSENT,
                    draining=bookie in self.draining,
                )
                for bookie, there in self.present.items()
            )
            self.shown = (state, view)
        return self.shown[1]

    def _audit(self) -> None:
        missing = {
            bookie: self._where(bookie) for bookie, there in self.present.items() if not there
        }
        records = Records(
            zones=self.health.zones,
            cluster=self.health.cluster,
            maintenance=frozenset(self.maintenance),
            replication_enabled=self.enabled,
        )
        now_ms = self.now_ms + self.auditor_clock_ms
        self.followed = losses.follow(
            self.followed, missing, records, self.policy.zone_watch, now_ms=now_ms
        )
        for bookie in missing:
            if bookie not in self.published and self.what_holds(bookie) is None:
                self.published[bookie] = self.now_ms
            published_ms = self.published.get(bookie)
            if published_ms is None or self.repair_ms is None:
                continue
            if self.now_ms - published_ms >= self.repair_ms:
                self.written_off.add(bookie)

    def _where(self, bookie: BookieId) -> Location | None:
        return None if bookie in self.nowhere else where(bookie)

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            self.happened.append((self.now_ms, effect))
            match effect:
                case SwitchOff():
                    self.enabled = False
                case EndMaintenance():
                    del self.maintenance[effect.maintenance.unit]
                case AlertRaised() | AlertCleared() | Reminder() | Noted():
                    pass
                case _:
                    assert_never(effect)

    # ── what is to be seen ──

    @property
    def cluster(self) -> ClusterRecord:
        """The cluster's record."""
        assert self.health.cluster is not None
        return self.health.cluster

    def zone(self, zone: ZoneName) -> ZoneRecord:
        """A zone's record."""
        return self.health.zones[zone]

    def state(self, zone: ZoneName) -> tuple[Observation, Permission]:
        """Both machines of a zone."""
        record = self.zone(zone)
        return record.observed.state, record.gate.permission

    def permission(self, zone: ZoneName | None) -> Permission:
        """The gate of a zone, or (None) of the cluster."""
        record: Record = self.cluster if zone is None else self.zone(zone)
        return record.gate.permission

    def freeze(self) -> ClusterObservation:
        """What is known of the cluster as a whole."""
        return self.cluster.observed.state

    def what_holds(self, bookie: BookieId) -> Held | None:
        """What holds the publication of a missing bookie's ledgers."""
        now_ms = self.now_ms + self.auditor_clock_ms
        return losses.what_holds_publishing(bookie, self.followed, self.policy, now_ms=now_ms)

    def raised(self, alert: Alert) -> list[int]:
        """When an alert was raised."""
        return [
            at_ms
            for at_ms, effect in self.happened
            if isinstance(effect, AlertRaised) and effect.alert is alert
        ]

    def reminders(self) -> list[int]:
        """The times of reminders."""
        return [at_ms for at_ms, effect in self.happened if isinstance(effect, Reminder)]


def settled(rules: Policy | None = None, *, per_zone: int = 10, repair_ms: int = 0) -> World:
    """Give a world whose start grace is over: all bookies there, all zones up and open."""
    world = World(policy=rules or policy(), repair_ms=repair_ms)
    for zone in world.policy.placement.zones:
        for bookie in members(zone, *range(per_zone)):
            world.present[bookie] = True
    world.look()
    world.wait(world.policy.zone_watch.start_grace_ms)
    world.happened.clear()
    return world
