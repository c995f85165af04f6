"""A whole small cluster in one loop: real bookies on files in memory, the network in memory, the
metadata store in memory, and real clients. All in virtual time.

A bookie stands behind a ``Door``, through which a test can hold its answers back or spoil them.
"""

import asyncio
import dataclasses
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tests.bookie import running
from tests.support import playing, virtual_time
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.checkpoint_format import Kept
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.life import life
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.tools import identities
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.bookies import bookie_records, cookie_store, registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies, service_info
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.formats import carriers, errors, openings
from zonekeeper.wire.formats.proofs import Shown
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.link.stream_link import StreamLink
from zonekeeper.wire.running.bookie_config import KeyRule
from zonekeeper.wire.twin import twin

ROOT = "/ledgers"
#: Room for a writer's largest batch.
SEGMENT_BYTES = 6 << 20
INSTANCE = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"
TIMEOUTS = Timeouts(session_ms=10_000, request_ms=5_000)


class Door:
    """A bookie's service, with a hand on the door."""

    def __init__(self, bookie: BookieServer) -> None:
        self.bookie = bookie
        #: While set, appends stay outside, in order; openings come in.
        self.held: list[tuple[Sequence[carriers.Request], service.Replies]] = []
        self.holding = False
        #: Given instead of the bookie's own answer, if it is not None.
        self.append_error: errors.ProtocolError | None = None
        self.read_error: errors.ProtocolError | None = None
        self.fence_error: errors.ProtocolError | None = None
        self.spoil: Callable[[service.ReadReply], service.ReadReply] = lambda reply: reply
        self.hold_reads: asyncio.Event | None = None
        self.hold_forces: asyncio.Event | None = None
        self.reads: list[service.ReadRequest] = []
        self.appended: list[carriers.Append] = []
        self.openings: list[openings.FragmentOpening] = []
        self.lacs = 0

    @property
    def bookie_id(self) -> BookieId:
        return self.bookie.bookie_id

    @property
    def boot_epoch(self) -> int:
        return self.bookie.boot_epoch

    async def owner(self, ledger_id: LedgerId, *, also_unknown: bool, create_token: int = 0) -> str:
        return await self.bookie.owner(
            ledger_id, also_unknown=also_unknown, create_token=create_token
        )

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        openings = [item for item in items if isinstance(item, carriers.Open)]
        if openings:
            self.openings += [item.opening for item in openings]
            self.bookie.append(openings, replies)
            items = [item for item in items if not isinstance(item, carriers.Open)]
        self.appended += [item for item in items if isinstance(item, carriers.Append)]
        self.lacs += sum(isinstance(item, carriers.WriteLac) for item in items)
        if self.append_error is not None:
            for item in items:
                replies.refused(item.number, self.append_error)
        elif self.holding:
            self.held.append((items, replies))
        else:
            self.bookie.append(items, replies)

    def release(self) -> None:
        """Let in what was held."""
        self.holding = False
        held, self.held = self.held, []
        for items, replies in held:
            self.bookie.append(items, replies)

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        self.reads.append(request)
        if self.hold_reads is not None:
            await self.hold_reads.wait()
        if self.read_error is not None:
            raise self.read_error
        return self.spoil(await self.bookie.read(request))

    async def fence(
        self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
    ) -> service.LacEvidence:
        if self.fence_error is not None:
            raise self.fence_error
        return await self.bookie.fence(ledger_id, master_key, create_token)

    async def read_lac(self, ledger_id: LedgerId, key: Shown | None = None) -> service.LacEvidence:
        if self.fence_error is not None:
            raise self.fence_error
        return await self.bookie.read_lac(ledger_id, key)

    async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
        if self.hold_forces is not None:
            await self.hold_forces.wait()
        await self.bookie.force(ledger_id, key)

    def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        return self.bookie.tail(request)

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        return await self.bookie.list_entries(request)

    async def info(self) -> service.BookieInfo:
        return await self.bookie.info()

    async def set_read_only(self, *, read_only: bool) -> None:
        await self.bookie.set_read_only(read_only=read_only)

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        await self.bookie.end_limbo(ledger_id, boot_epoch)

    async def compact(self, *, major: bool) -> None:
        await self.bookie.compact(major=major)


class _CrashError(Exception):
    """Ends all of a bookie at once."""


def _lose_power() -> None:
    raise _CrashError


class Machine:
    """One bookie: its disk outlives it."""

    def __init__(self, lab: "Lab", bookie_id: BookieId, location: Location) -> None:
        self.lab = lab
        self.id = bookie_id
        self.location = location
        self.files = MemoryFileSystem()
        self.boots = 0
        self.disk_ms = 0
        self._crash = asyncio.Event()
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self.door: Door | None = None

    @property
    def doorway(self) -> Door:
        assert self.door is not None, f"{self.id} is down"
        return self.door

    async def start(self) -> None:
        self._crash.clear()
        self._up.clear()
        self._down.clear()
        self.lab.tasks.create_task(self._live())
        await self._up.wait()

    async def crash(self) -> None:
        """Lose power: what was not synced may be gone."""
        self.lab.network.take_down(self.id)
        self._crash.set()
        await self._down.wait()
        self.files = self.files.crashed(self.lab.chance)
        self.door = None

    async def replace_disk(self) -> None:
        """Get an empty disk under the old name: all ledgers that name it are in limbo there."""
        named = await identities.naming(await self.lab.cluster(), self.id)
        self.files = MemoryFileSystem()
        storage.create(self.files, self.lab.chance)
        limbo = {
            ledger_id: Kept(state=AdmissionState(fenced=True, in_limbo=True), confirmed=NO_ENTRY)
            for ledger_id in named
        }
        fresh = checkpoint.load(self.files)
        checkpoint.save(self.files, dataclasses.replace(fresh, ledgers=limbo))

    async def _live(self) -> None:
        self.boots += 1
        disks = [InlineDisk(lambda: self.disk_ms), InlineDisk()]
        kept = await running.open_storage(
            self.files, *disks, chance=self.lab.chance, sizes=Sizes(segment_bytes=SEGMENT_BYTES)
        )
        store = MemoryStore(self.lab.server, root=ROOT, timeouts=TIMEOUTS)
        try:
            async with asyncio.TaskGroup() as tasks:
                cluster = await clusters.open_cluster(store)
                await bookie_records.count_boot(cluster, self.id, self.boots)
                bookie = BookieServer(
                    self.id,
                    kept,
                    boot_epoch=self.boots,
                    version="test",
                    tasks=tasks,
                )
                bookie.vouched = life.vouched_in(cluster, self.id)
                bookie.standing = life.standing_in(cluster)
                bookie.keys.rule = KeyRule.ON
                tasks.create_task(kept.run())
                self.door = Door(bookie)
                if any(one.durable.in_limbo for one in kept.memory.ledgers.values()):
                    await bookie_records.lost_data(cluster, self.id, self.boots)
                await self._register(cluster)
                host = Host(self.door)
                kept.memory.on_forgetting = host.forgotten
                self.lab.network.put_up(self.id, host)
                self._up.set()
                await self._crash.wait()
                for disk in disks:
                    disk.stop()
                _lose_power()
        except* _CrashError:
            pass
        await store.close()
        self._down.set()

    async def _register(self, cluster: Cluster) -> None:
        cookie = cookies.Cookie(
            bookie=self.id,
            journal_dirs=("/d",),
            ledger_dirs=("/d",),
            instance=cluster.instance,
            location=self.location,
        )
        await cookie_store.create(cluster, cookie)
        info = service_info.of_bookie("host", 3181, self.location, tls=False)
        registrar = registration.Registrar(cluster, self.id, info, session_timeout_ms=10_000)
        await registrar.register(registration.Mode.WRITABLE)


class _TwinLinks:
    """A ``link_pool.LinkFactory`` over the network in memory."""

    def __init__(self, lab: "Lab", name: str, settings: LinkSettings) -> None:
        self._lab = lab
        self._name = name
        self._settings = settings

    async def find(self, bookie_id: BookieId) -> str | None:
        return bookie_id

    def make(self, bookie_id: BookieId, address: str) -> StreamLink:
        assert address == bookie_id
        return self._lab.network.link(self._name, bookie_id, self._settings)


class Lab:
    """The cluster."""

    def __init__(self, tasks: asyncio.TaskGroup, seed: int) -> None:
        self.tasks = tasks
        self.chance = random.Random(seed)
        self.server = MemoryServer()
        self.network = twin.Network(
            tasks=tasks,
            chance=self.chance,
            weather=twin.Weather(delay_min_ms=0.1, delay_max_ms=0.5),
        )
        self.machines: dict[BookieId, Machine] = {}
        self.stores: list[MemoryStore] = []
        #: Writers that are kept to the end, as an application keeps those that it has not closed.
        self.writers: list[Writer] = []

    async def store(self) -> MemoryStore:
        store = MemoryStore(self.server, root=ROOT, timeouts=TIMEOUTS)
        self.stores.append(store)
        return store

    async def cluster(self) -> Cluster:
        return await clusters.open_cluster(await self.store())

    async def build(self, policy: Policy, bookies_in: dict[str, int]) -> None:
        cluster = await clusters.initialise(await self.store(), INSTANCE)
        await policy_store.write(cluster, policy, replaces=0)
        for zone, number in bookies_in.items():
            for ordinal in range(number):
                bookie_id = BookieId(f"bk-{zone}-{ordinal}")
                domain = UpgradeDomain(f"ud-{ordinal % 4}")
                machine = Machine(self, bookie_id, Location(ZoneName(zone), domain))
                self.machines[bookie_id] = machine
                await machine.start()

    def door(self, bookie_id: BookieId) -> Door:
        return self.machines[bookie_id].doorway

    async def crash_zone(self, zone: str) -> None:
        for machine in self.machines.values():
            if machine.location.zone == zone and machine.door is not None:
                await machine.crash()

    @asynccontextmanager
    async def client(
        self,
        name: str = "client",
        config: ClientConfig | None = None,
        links: LinkSettings | None = None,
    ) -> AsyncIterator[clients.Client]:
        cluster = await self.cluster()
        seed = self.chance.randrange(1 << 30)
        surroundings = clients.Surroundings(random.Random(seed), lambda: 0)
        async with clients.on(
            cluster,
            lambda _: _TwinLinks(self, name, links or LinkSettings()),
            config or ClientConfig(zone=ZoneName("a")),
            surroundings,
        ) as client:
            yield client

    async def close(self) -> None:
        for machine in self.machines.values():
            if machine.door is not None:
                await machine.crash()
        for store in self.stores:
            await store.close()


def policy(quorums: Quorums | None = None, *, strict: bool = True, min_zones: int = 2) -> Policy:
    return Policy(
        placement=PlacementRules(
            zones=(ZoneName("a"), ZoneName("b"), ZoneName("c")),
            strict=strict,
            min_zones=min_zones,
        ),
        quorums=quorums or Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
    )


THREE_BY_THREE = {"a": 3, "b": 3, "c": 3}


def play(
    scenario: Callable[[Lab], Awaitable[None]],
    *,
    rules: Policy | None = None,
    bookies_in: dict[str, int] | None = None,
    seed: int = 1,
) -> None:
    """Play a scenario on a new cluster, in virtual time."""

    async def staged() -> None:
        async with asyncio.timeout(3_600), asyncio.TaskGroup() as tasks:
            lab = Lab(tasks, seed)
            async with AsyncExitStack() as stack:
                stack.push_async_callback(lab.close)
                await lab.build(rules or policy(), bookies_in or THREE_BY_THREE)
                await scenario(lab)

    virtual_time.run(staged())


played = playing.by(play)
