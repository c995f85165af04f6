"""Zones, watches and an observer on the store in memory, in virtual time.

Bookies are a cookie and a registration: what a zone watch can see of them. Each watch is a process
of its own: its store, its view, its zone watch; it can be cut off, killed and left behind. The
observer is a view of another process, and says what an auditor there could publish.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable

from tests.support import playing, virtual_time
from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, repair_controls, timeline, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.elections import Leadership
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import PlacementRules, Policy, RepairRules, ZoneWatchRules
from zonekeeper.placement.zones.gate import Permission, Person
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_effects import Alert
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord
from zonekeeper.replication.gate import permitting, planned_work
from zonekeeper.replication.gate.permitting import GateRequest
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View
from zonekeeper.replication.watch.zone_watch import ZoneWatch

SECOND, MINUTE, HOUR = units.SECOND_MS, units.MINUTE_MS, units.HOUR_MS
A, B, C = ZoneName("a"), ZoneName("b"), ZoneName("c")
ANNA = Person(name="anna", reason="the zone is gone for good")

ROOT = "/ledgers"
#: What the clocks on the wall show at first.
WALL_MS = 1_700_000_000_000
INSTANCE = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"
TIMEOUTS = Timeouts(session_ms=10_000, request_ms=5_000)


def policy(watch: ZoneWatchRules | None = None, repair: RepairRules | None = None) -> Policy:
    """Give the defaults, but for what is given; evaluated less often, which only saves time."""
    return Policy(
        placement=PlacementRules(zones=(A, B, C)),
        zone_watch=watch or ZoneWatchRules(evaluate_every_ms=30 * SECOND),
        repair=repair or RepairRules(),
    )


def members(zone: ZoneName, *numbers: int) -> list[BookieId]:
    """Name bookies of a zone; all of the usual four without numbers."""
    return [BookieId(f"{zone}-{number}") for number in numbers or range(4)]


def where(bookie: BookieId) -> Location:
    """Say where a bookie stands: two upgrade domains a zone."""
    zone, _, number = bookie.rpartition("-")
    return Location(ZoneName(zone), UpgradeDomain(f"ud-{int(number) % 2}"))


class Watch:
    """One process that stands for the zone watch."""

    def __init__(self, world: "GateWorld", name: str, *, stands_in: bool) -> None:
        self.store = world.open()
        self.cluster = Cluster(self.store, world.cluster.root, world.cluster.instance)
        self.view = View(self.cluster)
        self.watch = ZoneWatch(
            self.cluster,
            self.view,
            name=BookieId(name),
            chance=random.Random(name),
            wall_ms=world.wall_ms,
            stands_in=stands_in,
        )
        self._tasks = [
            world.tasks.create_task(self.view.follow()),
            world.tasks.create_task(self.watch.run()),
        ]

    @property
    def leads(self) -> bool:
        return self.watch.counters.leading == 1

    def watch_as_if_elected(self, world: "GateWorld") -> asyncio.Task[None]:
        """Let it watch beside the elected one, as one that was deposed and does not know it."""
        session = self.store.session.id
        assert session is not None
        return world.tasks.create_task(self.watch._watch(Leadership(session=session)))

    async def kill(self) -> None:
        """End the process; its session runs out like that of any that was killed."""
        self.store.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


class GateWorld:
    """The cluster, and the processes that look at it."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.tasks = tasks
        self.server = MemoryServer()
        self.stores: list[MemoryStore] = []
        #: The clock of people and of no process: a jump of it changes nothing.
        self.wall_jump_ms = 0
        self.watches: list[Watch] = []

    async def build(self, rules: Policy, per_zone: int) -> None:
        self.cluster = await clusters.initialise(self.open(), INSTANCE)
        await policy_store.write(self.cluster, rules, replaces=0)
        self.told = Chronicle(
            self.cluster, by="anna", chance=random.Random(2), wall_ms=self.wall_ms
        )
        for zone in rules.placement.zones:
            for number in range(per_zone):
                await self.add(BookieId(f"{zone}-{number}"))
        self.observer_store = self.open()
        self.observer = View(Cluster(self.observer_store, self.cluster.root, INSTANCE))
        self.observing = self.tasks.create_task(self.observer.follow())
        await self.observer.known()

    def open(self) -> MemoryStore:
        store = MemoryStore(self.server, root=ROOT, timeouts=TIMEOUTS)
        self.stores.append(store)
        return store

    def wall_ms(self) -> int:
        return WALL_MS + int(asyncio.get_running_loop().time() * 1000) + self.wall_jump_ms

    # ── what happens ──

    async def watched_by(self, name: str, *, stands_in: bool = False) -> Watch:
        """Start a process that stands for the zone watch."""
        watch = Watch(self, name, stands_in=stands_in)
        self.watches.append(watch)
        await self.wait(0)
        return watch

    async def add(self, bookie: BookieId, *, located: bool = True) -> None:
        """Let a new bookie register."""
        cookie = cookies.Cookie(
            bookie=bookie,
            journal_dirs=("/d",),
            ledger_dirs=("/d",),
            instance=self.cluster.instance,
            location=where(bookie) if located else None,
        )
        await cookie_store.create(self.cluster, cookie)
        await self.come([bookie])

    async def lose(self, bookies: Iterable[BookieId]) -> None:
        """Registrations end."""
        for bookie in bookies:
            await self.cluster.store.delete(self.cluster.root.writable(bookie), version=None)
        await self.wait(SECOND)

    async def come(self, bookies: Iterable[BookieId]) -> None:
        """Bookies register."""
        for bookie in bookies:
            await self.cluster.store.create(self.cluster.root.writable(bookie), b"")

    async def put(self, path: str, value: bytes | None) -> bytes | None:
        """Let a node have a value, or (None) be gone; give what it was."""
        node = await self.cluster.store.get(path, sync=True)
        if node is None:
            assert value is not None
            await self.cluster.store.create(path, value)
            return None
        if value is None:
            await self.cluster.store.delete(path, version=node.version)
        else:
            await self.cluster.store.put(path, value, version=node.version)
        return node.value

    async def wait(self, for_ms: int) -> None:
        await asyncio.sleep(for_ms / 1000)

    async def until(self, holds: Callable[[], Awaitable[bool]], within_ms: int) -> int:
        """Wait until something holds; give how long it took, to a second."""
        for waited_ms in range(0, within_ms, SECOND):
            if await holds():
                return waited_ms
            await self.wait(SECOND)
        raise AssertionError(f"it does not hold within {within_ms} ms")

    async def release(self, zone: ZoneName | None, person: Person = ANNA) -> None:
        """A person releases what is held now."""
        record = await (self.zone(zone) if zone else self.cluster_record())
        request = GateRequest(zone=zone, person=person, wall_ms=self.wall_ms())
        rules = self.observer.policy
        await permitting.release(self.cluster, request, record.gate.token, rules, self.told)

    async def hold(self, zone: ZoneName | None, person: Person = ANNA) -> None:
        """A person holds."""
        request = GateRequest(zone=zone, person=person, wall_ms=self.wall_ms())
        await permitting.hold(self.cluster, request, self.observer.policy, self.told)

    async def declare(self, zone: str, domain: str, *, lasts_ms: int) -> Maintenance:
        """Begin the maintenance of a unit."""
        unit = Location(ZoneName(zone), UpgradeDomain(domain))
        rules = self.observer.policy
        declared = planned_work.planned((unit,), ANNA, lasts_ms, rules, random.Random(lasts_ms))
        await planned_work.start(self.cluster, declared, self.told)
        await self.wait(SECOND)
        return declared[0]

    # ── what is to be seen ──

    async def zone(self, zone: ZoneName) -> ZoneRecord:
        record = await zone_store.read_zone(self.cluster, zone)
        assert record is not None, f"no zone watch has evaluated zone {zone}"
        return record

    async def cluster_record(self) -> ClusterRecord:
        record = await zone_store.read_cluster(self.cluster)
        assert record is not None, "no zone watch has evaluated the cluster"
        return record

    async def state(self, zone: ZoneName) -> tuple[Observation, Permission]:
        """Both machines of a zone."""
        record = await self.zone(zone)
        return record.observed.state, record.gate.permission

    async def alerts(self, zone: ZoneName | None) -> tuple[Alert, ...]:
        record = await (self.zone(zone) if zone else self.cluster_record())
        return record.alerts

    async def enabled(self) -> bool:
        return await repair_controls.is_enabled(self.cluster)

    async def told_of(self, kind: str) -> list[str]:
        """Give the reasons of the timeline's events of a kind, the oldest first."""
        events = await timeline.newest(self.cluster)
        return [event.reason for event in reversed(events) if event.kind == kind]

    def publishable(self) -> list[BookieId]:
        """Say which missing bookies' ledgers an auditor could publish now."""
        view = self.observer
        return sorted(b for b in view.missing if view.what_holds_publishing(b) is None)


def play(
    scenario: Callable[[GateWorld], Awaitable[None]],
    *,
    rules: Policy | None = None,
    per_zone: int = 4,
    watched: bool = True,
) -> None:
    """Play a scenario; a watch is at work, and its start grace is over, unless told otherwise."""

    async def staged() -> None:
        async with asyncio.TaskGroup() as tasks:
            world = GateWorld(tasks)
            await world.build(rules or policy(), per_zone)
            if watched:
                await world.watched_by("watch-1")
                await world.wait((rules or policy()).zone_watch.start_grace_ms + 40 * SECOND)
            await scenario(world)
            for watch in world.watches:
                await watch.kill()
            world.observing.cancel()
        for store in world.stores:
            await store.close()

    virtual_time.run(staged())


played = playing.by(play)
