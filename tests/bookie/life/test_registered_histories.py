"""A bookie that stays registered and publishes its room, over stores that do what they like.

Seeds draw what happens: requests and answers are lost or late, sessions end, a person removes the
registration, the device fills, the mode changes, a later start takes over. After it the store is
well again. Then the registration is that of the latest start, on its side, with its room.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from tests.bookie.life.test_life import INSTANCE, WHERE
from tests.bookie.running import BOOKIE, running
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.files import Space
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life.life import Conditions, Presence
from zonekeeper.bookie.life.room_publishing import PUBLISHED_EVERY_MS, RoomPublisher
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.metadata.bookies import bookie_records, registration
from zonekeeper.metadata.bookies.registration import NameTakenError, Registrar
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.stores.memory import (
    ExchangeLoss,
    MemoryStore,
    Passage,
    RequestKind,
    calm,
)
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.wire.running.processes import first_of

SEEDS = 60
EVENTS = 40
TOTAL = 1_000
#: Longer than what is wrong with a store lasts, and than a registration or a publication waits.
WELL_S = 3 * PUBLISHED_EVERY_MS / 1_000
TIMEOUTS = Timeouts(session_ms=10_000, request_ms=2_000)


@dataclass
class Start:
    """One start of the bookie: its process, as far as registrations go."""

    cluster: Cluster
    bookie: BookieServer
    boot_epoch: int
    free: int
    #: How it ended; None: it runs.
    ended: BaseException | None = None
    task: "asyncio.Task[None] | None" = None
    full: bool = False

    @property
    def store(self) -> MemoryStore:
        assert isinstance(self.cluster.store, MemoryStore)
        return self.cluster.store


@dataclass
class World:
    """A cluster, and the starts of one bookie in it."""

    place: MemoryPlace
    chance: random.Random
    #: A client that is always well.
    person: Cluster
    starts: list[Start] = field(default_factory=list)

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Start]:
        """Let a start of the bookie run until the block ends, or a later one takes over."""
        store = await self.place.open(TIMEOUTS)
        cluster = await clusters.open_cluster(store)
        boot_epoch = len(self.starts) + 1
        assert await bookie_records.count_boot(self.person, BOOKIE, boot_epoch)
        info = service_info.of_bookie(
            f"10.0.0.{boot_epoch}", 1, WHERE, tls=False, boot_epoch=boot_epoch
        )
        registrar = Registrar(cluster, BOOKIE, info, session_timeout_ms=TIMEOUTS.session_ms)
        async with running(MemoryFileSystem()) as bookie:
            here = Start(cluster, bookie, boot_epoch, free=TOTAL)
            here.task = asyncio.ensure_future(self._lived(here, registrar))
            self.starts.append(here)
            yield here
            here.task.cancel()
            with suppress(asyncio.CancelledError):
                await here.task
        await store.close()

    async def _lived(self, here: Start, registrar: Registrar) -> None:
        async def space() -> Space:
            if self.chance.random() < 0.05:
                raise OSError(5, "the device does not answer")
            return Space(total_bytes=TOTAL, free_bytes=here.free)

        loop = asyncio.get_running_loop()
        room = RoomPublisher(registrar, space, now_ms=lambda: int(loop.time() * 1_000))
        witness = Witness(here.cluster, BOOKIE, MemoryFileSystem(), InlineDisk(), wall_ms=lambda: 1)
        presence = Presence(registrar, here.bookie, here.store, Conditions(), witness)
        try:
            async with asyncio.TaskGroup() as tasks:
                await room.look()
                tasks.create_task(room.run(5_000))
                tasks.create_task(presence.keep())
        except BaseExceptionGroup as group:
            here.ended = first_of(group)


def weather(chance: random.Random) -> Callable[[RequestKind], Passage]:
    bad = chance.choice([0.02, 0.2, 0.8])

    def draw(_: RequestKind) -> Passage:
        loss = ExchangeLoss.NOTHING
        if chance.random() < bad:
            loss = chance.choice([ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])
        return Passage(there_ms=chance.randrange(300), back_ms=chance.randrange(300), loss=loss)

    return draw


async def happen(world: World, here: Start) -> None:
    chance, store = world.chance, here.store
    match chance.randrange(7):
        case 0:
            store.weather = weather(chance)
        case 1:
            store.weather = calm
        case 2:
            store.cut()
        case 3:
            store.mend()
        case 4:
            if store.session.id is not None:
                world.place.server.expire(store.session.id)
        case 5:
            for path in (world.person.root.writable(BOOKIE), world.person.root.read_only(BOOKIE)):
                with suppress(StoreError):
                    await world.person.store.delete(path, version=None)
        case _:
            here.full = chance.random() < 0.5
            here.bookie.set_conditions(["the disk is full"] if here.full else [])
    here.free = chance.randrange(TOTAL + 1)
    await asyncio.sleep(chance.choice([0, 0.1, 1, 10, 70]))


async def is_well(world: World, here: Start) -> None:
    """Judge the latest start, when the store has been well for some time."""
    assert here.ended is None
    root, store = world.person.root, world.person.store
    sides = [await store.get(path) for path in (root.writable(BOOKIE), root.read_only(BOOKIE))]
    assert [node is not None for node in sides] == [not here.full, here.full]
    found = await registration.read_service_info(world.person, BOOKIE)
    assert found is not None
    assert found.boot_epoch == here.boot_epoch
    assert found.bookie is not None
    assert found.bookie.host == f"10.0.0.{here.boot_epoch}"
    assert found.room is not None
    moved = max(0.1 * found.room.free_bytes, 0.01 * TOTAL)
    assert abs(found.room.free_bytes - here.free) < moved


def play(seed: int, *, superseded: bool) -> None:
    async def history() -> None:
        place = MemoryPlace()
        person = await clusters.initialise(await place.open(), INSTANCE)
        world = World(place, random.Random(seed), person)
        async with world.started() as first:
            for _ in range(world.chance.randrange(EVENTS)):
                await happen(world, first)
            if superseded:
                async with world.started() as second:
                    for _ in range(world.chance.randrange(EVENTS)):
                        await happen(world, world.chance.choice([first, second]))
                    for each in (first, second):
                        each.store.mend()
                        each.store.weather = calm
                    await asyncio.sleep(WELL_S)
                    await is_well(world, second)
                    assert isinstance(first.ended, NameTakenError)
            else:
                first.store.mend()
                first.store.weather = calm
                await asyncio.sleep(WELL_S)
                await is_well(world, first)
        await place.close()

    virtual_time.run(history())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_bookie_is_registered_with_its_room_whatever_the_store_did(seed: int) -> None:
    play(seed, superseded=False)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_later_start_is_registered_with_its_room_and_the_earlier_one_ends(seed: int) -> None:
    play(seed, superseded=True)
