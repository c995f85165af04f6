"""A bookie publishes its room when it has moved, at a bounded rate, whatever the store does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.files import Space
from zonekeeper.bookie.life import room_publishing
from zonekeeper.bookie.life.room_publishing import PUBLISHED_EVERY_MS, RoomPublisher
from zonekeeper.metadata.bookies import bookie_records, registration
from zonekeeper.metadata.bookies.registration import Mode, Registrar
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import DISK_NAME_CHARS, PublishedRoom
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

BOOKIE = BookieId("bk-a-0")
INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
WHERE = Location(ZoneName("a"), UpgradeDomain("ud-0"))
TOTAL = 10_000
LOOK_EVERY_MS = 10_000
#: Longer than a store is out of reach here.
SESSION_MS = 600_000


def room(free: int, total: int = TOTAL) -> PublishedRoom:
    return PublishedRoom(free_bytes=free, total_bytes=total)


@pytest.mark.parametrize(
    ("published", "now", "moved"),
    [
        (None, None, False),
        (None, room(5_000), True),
        (room(5_000), None, True),
        (room(5_000), room(5_000), False),
        (room(5_000), room(4_501), False),
        (room(5_000), room(4_500), True),
        (room(5_000), room(5_500), True),
        # Nearly full: a tenth of little is nothing.
        (room(200), room(101), False),
        (room(200), room(100), True),
        (room(0), room(99), False),
        (room(0), room(100), True),
        # A volume that was made larger.
        (room(5_000), room(5_000, 10_999), False),
        (room(5_000), room(5_000, 11_000), True),
    ],
)
def test_a_room_has_moved_by_a_tenth_of_what_was_free_but_not_by_a_trifle(
    published: PublishedRoom | None, now: PublishedRoom | None, *, moved: bool
) -> None:
    assert room_publishing.has_moved(published, now) is moved


def test_filling_a_disk_is_published_in_few_steps() -> None:
    said, steps = room(TOTAL), 0
    for free in range(TOTAL, -1, -1):
        if room_publishing.has_moved(said, room(free)):
            said, steps = room(free), steps + 1

    assert steps == 31
    assert said.free_bytes <= TOTAL / 100


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Space(total_bytes=0, free_bytes=0), None),
        (Space(total_bytes=10, free_bytes=11), room(10, 10)),
        (Space(total_bytes=10, free_bytes=-1), room(0, 10)),
        (Space(total_bytes=10, free_bytes=4), room(4, 10)),
    ],
)
def test_a_device_may_say_what_makes_no_sense(space: Space, expected: PublishedRoom | None) -> None:
    assert room_publishing.of_space(space) == expected


def test_s178_bookies_on_one_disk_of_one_machine_name_it_alike() -> None:
    one = Space(total_bytes=10, free_bytes=4, device=7)
    published = room_publishing.of_space(one, "boot-1")

    assert published is not None
    assert published.disk is not None
    assert len(published.disk) == DISK_NAME_CHARS
    assert room_publishing.of_space(replace(one, free_bytes=1), "boot-1") == replace(
        published, free_bytes=1
    )
    for other, machine in ((one, "boot-2"), (replace(one, device=8), "boot-1")):
        named = room_publishing.of_space(other, machine)
        assert named is not None
        assert named.disk not in (None, published.disk)
    for unnamed, machine in ((one, ""), (replace(one, device=0), "boot-1")):
        found = room_publishing.of_space(unnamed, machine)
        assert found is not None
        assert found.disk is None
    assert room_publishing.has_moved(published, replace(published, disk=None))


@dataclass
class Ground:
    """A bookie whose device is set by the test, and what others see of it."""

    place: MemoryPlace
    cluster: Cluster
    registrar: Registrar
    publisher: RoomPublisher
    free: int
    breaks: bool = False
    #: Each room that the store has had, oldest first.
    seen: list[PublishedRoom | None] = field(default_factory=list)

    @property
    def store(self) -> MemoryStore:
        assert isinstance(self.cluster.store, MemoryStore)
        return self.cluster.store


@asynccontextmanager
async def ground(free: int, *, boot_epoch: int | None = None) -> AsyncIterator[Ground]:
    """Let a bookie be registered, and publish until the block ends."""
    place = MemoryPlace()
    store = await place.open(Timeouts(session_ms=SESSION_MS, request_ms=2_000))
    cluster = await clusters.initialise(store, INSTANCE)
    info = service_info.of_bookie("127.0.0.1", 3181, WHERE, tls=False, boot_epoch=boot_epoch)
    registrar = Registrar(cluster, BOOKIE, info, session_timeout_ms=SESSION_MS)
    loop = asyncio.get_running_loop()

    async def space() -> Space:
        if here.breaks:
            raise OSError(5, "the device does not answer")
        return Space(total_bytes=TOTAL, free_bytes=here.free)

    publisher = RoomPublisher(registrar, space, now_ms=lambda: int(loop.time() * 1_000))
    here = Ground(place, cluster, registrar, publisher, free)
    onlooker = await clusters.open_cluster(await place.open())

    async def look() -> None:
        async with onlooker.store.watch(onlooker.root.writable(BOOKIE)) as states:
            async for node in states:
                if node is not None:
                    here.seen.append(service_info.parse(node.value).room)

    await publisher.look()
    await registrar.register(Mode.WRITABLE)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(look()), tasks.create_task(publisher.run(LOOK_EVERY_MS))]
        await asyncio.sleep(1)
        yield here
        for task in running:
            task.cancel()
    await place.close()


async def pass_ms(duration_ms: int) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(duration_ms / 1_000)


@virtual_time.played
async def test_the_first_registration_has_the_room_already() -> None:
    async with ground(free=4_000) as here:
        assert here.seen == [room(4_000)]


@virtual_time.played
async def test_what_moved_is_published_and_what_did_not_is_not() -> None:
    async with ground(free=4_000) as here:
        here.free = 3_700
        await pass_ms(10 * PUBLISHED_EVERY_MS)
        assert here.seen == [room(4_000)]

        here.free = 3_600
        await pass_ms(LOOK_EVERY_MS)
        assert here.seen == [room(4_000), room(3_600)]


@virtual_time.played
async def test_a_device_that_swings_is_published_once_a_minute() -> None:
    async with ground(free=8_000) as here:
        for turn in range(360):  # an hour
            here.free = 8_000 if turn % 2 else 100
            await pass_ms(LOOK_EVERY_MS)

    assert 30 <= len(here.seen) <= 61


@virtual_time.played
async def test_a_store_out_of_reach_costs_nothing_and_hears_the_newest_room_later() -> None:
    async with ground(free=8_000) as here:
        here.store.cut()
        here.free = 4_000
        await pass_ms(3 * PUBLISHED_EVERY_MS)
        here.free = 7_900  # as it was: what was said meanwhile must not stay
        await pass_ms(2 * PUBLISHED_EVERY_MS)
        assert here.seen == [room(8_000)]
        here.store.mend()
        await pass_ms(2 * PUBLISHED_EVERY_MS)

        assert here.seen[-1] in (room(8_000), room(7_900))
        found = await registration.read_service_info(here.cluster, BOOKIE)
        assert found is not None
        assert found.room in (room(8_000), room(7_900))


@virtual_time.played
async def test_a_new_session_begins_with_the_room_of_the_last_look() -> None:
    async with ground(free=8_000) as here:
        lost = here.store.session.id
        assert lost is not None
        here.store.cut()
        here.free = 2_000
        await pass_ms(2 * PUBLISHED_EVERY_MS)
        here.place.server.expire(lost)
        here.store.mend()
        await pass_ms(1_000)
        await here.registrar.register(Mode.WRITABLE)
        await pass_ms(1_000)

        assert here.seen[-1] == room(2_000)


@virtual_time.played
async def test_a_device_that_does_not_answer_leaves_what_was_said() -> None:
    async with ground(free=8_000) as here:
        here.breaks = True
        await pass_ms(2 * PUBLISHED_EVERY_MS)
        here.breaks, here.free = False, 1_000
        await pass_ms(PUBLISHED_EVERY_MS)

        assert here.seen == [room(8_000), room(1_000)]


@virtual_time.played
async def test_a_bookie_that_has_left_is_not_registered_by_its_room() -> None:
    async with ground(free=8_000) as here:
        await here.registrar.leave()
        here.free = 1_000
        await pass_ms(2 * PUBLISHED_EVERY_MS)

        assert await registration.read_service_info(here.cluster, BOOKIE) is None


@virtual_time.played
async def test_a_registration_that_is_gone_is_not_made_by_its_room() -> None:
    async with ground(free=8_000) as here:
        await here.store.delete(here.cluster.root.writable(BOOKIE), version=None)
        here.free = 1_000
        await pass_ms(2 * PUBLISHED_EVERY_MS)
        assert await registration.read_service_info(here.cluster, BOOKIE) is None

        await here.registrar.register(Mode.WRITABLE)
        await pass_ms(1_000)
        assert here.seen[-1] == room(1_000)


@virtual_time.played
async def test_a_room_never_takes_the_place_of_a_later_start() -> None:
    async with ground(free=8_000, boot_epoch=3) as here:
        second = await clusters.open_cluster(await here.place.open())
        await bookie_records.count_boot(second, BOOKIE, 4)
        info = service_info.of_bookie("127.0.0.1", 3181, WHERE, tls=False, boot_epoch=4)
        later = Registrar(second, BOOKIE, info, session_timeout_ms=SESSION_MS)
        await later.tell_room(room(5_000))
        await later.register(Mode.WRITABLE)
        here.free = 1_000
        await pass_ms(2 * PUBLISHED_EVERY_MS)

        found = await registration.read_service_info(second, BOOKIE)
        assert found is not None
        assert (found.boot_epoch, found.room) == (4, room(5_000))
