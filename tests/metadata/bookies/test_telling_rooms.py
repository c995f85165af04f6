"""A room goes into the registration that stands; it makes none, moves none and takes none."""

import asyncio
import contextlib
from collections.abc import Awaitable

import pytest

from tests.metadata import weather
from tests.metadata.bookies.test_bookies import INSTANCE, A, registrar, sides
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import bookie_records, registration
from zonekeeper.metadata.bookies.registration import Mode, NameTakenError
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.metadata.store.errors import SessionLostError, StoreError
from zonekeeper.metadata.stores.memory import (
    ExchangeLoss,
    MemoryStore,
    Passage,
    RequestKind,
    calm,
)
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId

BEFORE = PublishedRoom(free_bytes=7, total_bytes=10)
NOW = PublishedRoom(free_bytes=3, total_bytes=10)


async def room_of(cluster: Cluster, bookie: BookieId = A) -> PublishedRoom | None:
    info = await registration.read_service_info(cluster, bookie)
    return None if info is None else info.room


@pytest.mark.parametrize("mode", Mode)
async def test_a_room_is_put_into_the_registration_that_stands(
    cluster: Cluster, mode: Mode
) -> None:
    bookie = registrar(cluster, A, boot_epoch=3)
    await bookie.tell_room(BEFORE)
    assert await sides(cluster, A) == (False, False), "a room alone registers no bookie"
    await bookie.register(mode)
    assert await room_of(cluster) == BEFORE

    await bookie.tell_room(NOW)

    assert await room_of(cluster) == NOW
    assert await sides(cluster, A) == (mode is Mode.WRITABLE, mode is Mode.READ_ONLY)


async def test_a_registration_that_a_person_removed_is_not_made_by_a_room(
    cluster: Cluster, other: Cluster
) -> None:
    bookie = registrar(cluster, A)
    await bookie.register(Mode.WRITABLE)
    await other.store.delete(other.root.writable(A), version=None)

    await bookie.tell_room(NOW)

    assert await sides(cluster, A) == (False, False)
    await bookie.register(Mode.WRITABLE)
    assert await room_of(cluster) == NOW


async def test_a_room_does_not_register_in_a_session_that_is_new(memory: MemoryPlace) -> None:
    """Only what registers looks first whether the metadata was set back."""
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    bookie, lost = registrar(cluster, A), store.session.id
    await bookie.register(Mode.WRITABLE)
    assert lost is not None
    memory.server.expire(lost)
    async with asyncio.timeout(30), store.watch_session() as sessions:
        async for session in sessions:
            if session.id not in (lost, None):
                break

    await bookie.tell_room(NOW)

    assert await sides(cluster, A) == (False, False)
    await bookie.register(Mode.WRITABLE)
    assert await room_of(cluster) == NOW


@virtual_time.played
async def test_without_a_session_a_room_waits_for_the_next_registration() -> None:
    memory = MemoryPlace()
    store = await memory.open(Timeouts(session_ms=60_000, request_ms=20))
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    bookie, lost = registrar(cluster, A), store.session.id
    await bookie.register(Mode.WRITABLE)
    assert lost is not None
    store.cut()
    memory.server.expire(lost)
    with pytest.raises(StoreError):
        await bookie.tell_room(NOW)
    store.mend()
    assert await sides(cluster, A) == (False, False)

    await bookie.register(Mode.WRITABLE)

    assert await room_of(cluster) == NOW


@virtual_time.played
async def test_a_room_changes_no_side() -> None:
    memory = MemoryPlace()
    store = await memory.open(Timeouts(session_ms=60_000, request_ms=20))
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    bookie = registrar(cluster, A)
    await bookie.register(Mode.WRITABLE)
    store.cut()
    with pytest.raises(StoreError):
        await bookie.register(Mode.READ_ONLY)
    store.mend()

    await bookie.tell_room(NOW)

    assert await sides(cluster, A) == (True, False), "only a registration changes sides"
    assert await room_of(cluster) == NOW
    await bookie.register(Mode.READ_ONLY)
    assert await sides(cluster, A) == (False, True)


@pytest.mark.parametrize("mode", Mode)
async def test_a_room_takes_nothing_from_a_later_start(
    cluster: Cluster, other: Cluster, mode: Mode
) -> None:
    earlier, later = registrar(cluster, A, boot_epoch=3), registrar(other, A, boot_epoch=4)
    await earlier.register(Mode.WRITABLE)
    await later.tell_room(BEFORE)
    await later.register(mode)

    await earlier.tell_room(NOW)

    assert await room_of(cluster) == BEFORE
    assert await sides(cluster, A) == (mode is Mode.WRITABLE, mode is Mode.READ_ONLY)


async def test_a_room_takes_nothing_from_an_earlier_start(cluster: Cluster, other: Cluster) -> None:
    earlier, later = registrar(other, A, boot_epoch=3), registrar(cluster, A, boot_epoch=4)
    await earlier.tell_room(BEFORE)
    await earlier.register(Mode.WRITABLE)
    await bookie_records.count_boot(cluster, A, 4)

    await later.tell_room(NOW)

    assert await room_of(cluster) == BEFORE, "the later start has not registered yet"


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_room_in_doubt_is_told_in_the_end(memory: MemoryPlace, loss: ExchangeLoss) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    bookie = registrar(cluster, A)
    await bookie.register(Mode.WRITABLE)
    weather.lose(store, 0, loss)

    await bookie.tell_room(NOW)

    assert await room_of(cluster) == NOW


async def test_a_room_that_meets_the_end_of_its_session_is_not_told(memory: MemoryPlace) -> None:
    """The session ends between the look at the registration and the write."""
    store = await memory.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    bookie, lost = registrar(cluster, A), store.session.id
    await bookie.register(Mode.WRITABLE)
    assert lost is not None
    weather.before_write(store, lambda: memory.server.expire(lost))

    with contextlib.suppress(SessionLostError):
        await bookie.tell_room(NOW)

    assert store.session.id != lost
    assert await sides(cluster, A) == (False, False)


async def late_write(earlier: Cluster, later: Cluster, what: Awaitable[None]) -> None:
    """Let a later start count itself and register, while a write of the earlier one is on its way.

    As with a process that stands still for some seconds, and a copy of its volume.
    """
    store, sent = earlier.store, asyncio.Event()
    assert isinstance(store, MemoryStore)

    def weather(kind: RequestKind) -> Passage:
        if kind is not RequestKind.WRITE:
            return Passage()
        store.weather = calm
        sent.set()
        return Passage(there_ms=1_000)

    store.weather = weather
    acting = asyncio.ensure_future(what)
    await sent.wait()
    copy = registrar(later, A, boot_epoch=4)
    await bookie_records.count_boot(later, A, 4)
    await copy.tell_room(BEFORE)
    await copy.register(Mode.WRITABLE)
    with contextlib.suppress(NameTakenError):
        await acting


@virtual_time.played
async def test_a_room_on_its_way_never_lands_on_a_later_start() -> None:
    """Both nodes are at version 0, though they are two nodes."""
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    later = await clusters.open_cluster(await place.open())
    bookie = registrar(cluster, A, boot_epoch=3)
    await bookie_records.count_boot(cluster, A, 3)
    await bookie.register(Mode.WRITABLE)

    await late_write(cluster, later, bookie.tell_room(NOW))

    found = await registration.read_service_info(later, A)
    assert found is not None
    assert (found.boot_epoch, found.room) == (4, BEFORE)
    await place.close()


@virtual_time.played
async def test_a_change_of_sides_on_its_way_takes_nothing_from_a_later_start() -> None:
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    later = await clusters.open_cluster(await place.open())
    bookie = registrar(cluster, A, boot_epoch=3)
    await bookie_records.count_boot(cluster, A, 3)
    await bookie.register(Mode.WRITABLE)

    await late_write(cluster, later, bookie.register(Mode.READ_ONLY))

    node = await later.store.get(later.root.writable(A), sync=True)
    assert node is not None
    assert node.owner == later.store.session.id
    assert await sides(later, A) == (True, False)
    await place.close()
