"""A bookie is registered on the side of its mode, however the mode changes meanwhile."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

import pytest

from tests.bookie.running import BOOKIE, LEDGER, running
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life import known_metadata, life
from zonekeeper.bookie.life.life import Conditions, Presence
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.metadata.bookies import bookie_records, registration
from zonekeeper.metadata.bookies.registration import Mode, NameTakenError, Registrar
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import Knowledge
from zonekeeper.metadata.formats import ledger_format, service_info
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.memory_server import Change, MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import EntryId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.wire.running.processes import first_of

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
SESSION_MS = 10_000
WHERE = Location(ZoneName("a"), UpgradeDomain("ud-0"))
#: More than a registration takes.
TURNS_MAX = 40
IDLE_TURNS = 200


async def side(cluster: Cluster) -> str:
    found = [
        name
        for name, path in (
            ("writable", cluster.root.writable(BOOKIE)),
            ("read-only", cluster.root.read_only(BOOKIE)),
        )
        if await cluster.store.exists(path, sync=True)
    ]
    return ", ".join(found)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def kept_present(
    place: MemoryPlace,
    *,
    conditions: Sequence[str] = (),
    known: Knowledge | None = None,
    boot_epoch: int | None = None,
) -> AsyncIterator[tuple[Cluster, BookieServer]]:
    """Give a cluster, and a bookie that is registered there and stays so until the block ends."""
    store = await place.open(Timeouts(session_ms=SESSION_MS))
    cluster = await clusters.initialise(store, INSTANCE)
    info = service_info.of_bookie("127.0.0.1", 3181, WHERE, tls=False, boot_epoch=boot_epoch)
    registrar = Registrar(cluster, BOOKIE, info, session_timeout_ms=SESSION_MS)
    async with running(MemoryFileSystem()) as bookie, asyncio.TaskGroup() as tasks:
        bookie.set_conditions(conditions)
        kept = MemoryFileSystem()
        known_metadata.save(kept, known or Knowledge())
        witness = Witness(cluster, BOOKIE, kept, InlineDisk(), wall_ms=lambda: 1)
        presence = Presence(registrar, bookie, store, Conditions(), witness)
        keeping = tasks.create_task(presence.keep())
        await presence.begun.wait()
        yield cluster, bookie
        keeping.cancel()
    await store.close()


@pytest.mark.parametrize("between", range(TURNS_MAX))
async def test_a_mode_that_changes_while_it_is_being_registered_is_registered(between: int) -> None:
    async with kept_present(MemoryPlace()) as (cluster, bookie):
        await turns(IDLE_TURNS)
        assert await side(cluster) == "writable"

        bookie.set_conditions(["the disk is full"])
        await turns(between)
        bookie.set_conditions([])
        await turns(IDLE_TURNS)

        assert await side(cluster) == "writable"
        bookie.set_conditions(["the disk is full"])
        await turns(IDLE_TURNS)
        assert await side(cluster) == "read-only"


async def test_s151_the_registration_has_the_reasons_of_now() -> None:
    async def published(cluster: Cluster) -> list[str]:
        info = await registration.read_service_info(cluster, BOOKIE)
        assert info is not None
        return [one.reason for one in info.read_only]

    async with kept_present(MemoryPlace()) as (cluster, bookie):
        await turns(IDLE_TURNS)
        assert await published(cluster) == []
        for conditions in (["the disk is full"], ["the disk is full", "another is"], []):
            bookie.set_conditions(conditions)
            await turns(IDLE_TURNS)
            assert await published(cluster) == conditions
            assert await side(cluster) == ("read-only" if conditions else "writable")


async def test_a_bookie_that_lost_its_session_registers_again() -> None:
    place = MemoryPlace()
    onlooker = await place.open()
    async with kept_present(place, conditions=["the disk is full"]) as (cluster, _):
        lost = cluster.store.session.id
        assert lost is not None
        async with (
            asyncio.timeout(30),
            onlooker.watch(cluster.root.read_only(BOOKIE)) as seen,
        ):
            place.server.expire(lost)
            async for node in seen:
                if node is not None and node.owner != lost:
                    break
        assert await side(cluster) == "read-only"
    await onlooker.close()


async def test_a_store_that_was_set_back_is_marked_before_the_bookie_registers() -> None:
    async with kept_present(MemoryPlace(), known=Knowledge(ids=99)) as (cluster, _):
        mark = await cluster.store.get(cluster.root.beside("restored"), sync=True)
        registered = await cluster.store.get(cluster.root.writable(BOOKIE), sync=True)
        assert mark is not None
        assert registered is not None
        assert mark.created_id < registered.created_id


class Order:
    """Sees which session looked, and which one registered, in the order of the changes."""

    read_lag_ms = 0

    def __init__(self, server: MemoryServer, cluster: Cluster) -> None:
        self.seen: list[tuple[str, SessionId]] = []
        self._server = server
        self._cluster = cluster
        self._sides = {cluster.root.writable(BOOKIE), cluster.root.read_only(BOOKIE)}
        self._look = cluster.root.beside(f"looks/{BOOKIE}")

    def changed(self, change: Change) -> None:
        for path, before in change.before.items():
            node = self._server.node(path, change.id)
            if path in self._sides and before is None and node is not None:
                assert node.owner is not None
                self.seen.append(("registered", node.owner))
            elif path == self._look:
                session = self._cluster.store.session.id
                assert session is not None
                self.seen.append(("looked", session))

    def session_ended(self) -> None: ...

    @property
    def without_look(self) -> list[SessionId]:
        """The sessions of registrations that no look of that session precedes."""
        unlooked, looked = [], None
        for what, session in self.seen:
            if what == "looked":
                looked = session
            else:
                if looked != session:
                    unlooked.append(session)
                looked = None
        return unlooked

    @property
    def registrations(self) -> int:
        return sum(what == "registered" for what, _ in self.seen)


@pytest.mark.parametrize(
    ("what", "between"),
    [("session", 0), ("mode", 0), ("removed", 0), *(("both", turn) for turn in range(TURNS_MAX))],
)
async def test_each_registration_follows_a_look_in_its_session(what: str, between: int) -> None:
    """The first one, and each after a lost session, a change of sides or a person's removal."""
    place = MemoryPlace()
    async with kept_present(place, boot_epoch=3) as (cluster, bookie):
        await turns(IDLE_TURNS)
        order = Order(place.server, cluster)
        place.server.join(order)
        if what == "removed":
            await cluster.store.delete(cluster.root.writable(BOOKIE), version=None)
        if what in ("session", "both"):
            assert cluster.store.session.id is not None
            place.server.expire(cluster.store.session.id)
        await turns(between)
        if what in ("mode", "both"):
            bookie.set_conditions(["the disk is full"])
        await turns(2 * IDLE_TURNS)

        expected = "read-only" if what in ("mode", "both") else "writable"
        assert await side(cluster) == expected
        assert order.registrations >= 1
        assert order.without_look == []


@pytest.mark.parametrize("write", range(6))
async def test_a_session_that_ends_during_a_registration_is_looked_at_anew(write: int) -> None:
    """A registration that is tried again is in another session, which no look has seen."""
    place = MemoryPlace()
    async with kept_present(place, boot_epoch=3) as (cluster, bookie):
        await turns(IDLE_TURNS)
        store = cluster.store
        assert isinstance(store, MemoryStore)
        order, writes = Order(place.server, cluster), count()
        place.server.join(order)

        def weather(kind: RequestKind) -> Passage:
            if kind is RequestKind.WRITE and next(writes) == write:
                assert store.session.id is not None
                place.server.expire(store.session.id)
            return Passage()

        onlooker = await place.open()
        async with asyncio.timeout(30), onlooker.watch(cluster.root.read_only(BOOKIE)) as seen:
            store.weather = weather
            bookie.set_conditions(["the disk is full"])
            await turns(IDLE_TURNS)
            async for node in seen:
                if node is not None and node.owner == store.session.id:
                    break
        assert order.without_look == []
        await onlooker.close()


@pytest.mark.parametrize("conditions", [(), ["the disk is full"]], ids=["writable", "read-only"])
async def test_a_bookie_that_lost_its_registration_to_a_later_start_ends(
    conditions: list[str],
) -> None:
    """Its volume was copied, say: two processes would acknowledge on two disks."""
    place = MemoryPlace()
    second = await place.open(Timeouts(session_ms=SESSION_MS))

    async def superseded() -> None:
        async with kept_present(place, conditions=conditions, boot_epoch=3) as (cluster, _):
            info = service_info.of_bookie("127.0.0.1", 3182, WHERE, tls=False, boot_epoch=4)
            later = replace(cluster, store=second)
            copy = Registrar(later, BOOKIE, info, session_timeout_ms=SESSION_MS)
            await copy.register(Mode.WRITABLE)
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(superseded(), 30)

    ended = first_of(raised.value)
    assert isinstance(ended, NameTakenError)
    assert "of start 4 of bk-a-0, and this is start 3" in str(ended)
    root = (await clusters.open_cluster(second)).root
    kept = await second.get(root.writable(BOOKIE), sync=True)
    assert kept is not None, "the end of the earlier one takes nothing from the copy"
    assert kept.owner == second.session.id
    await second.close()


async def test_a_bookie_that_was_away_while_a_later_start_came_and_went_ends() -> None:
    """The copy has acknowledged entries that are only on its disk; no registration shows it now."""
    place = MemoryPlace()
    second = await place.open(Timeouts(session_ms=SESSION_MS))

    async def superseded() -> None:
        async with kept_present(place, boot_epoch=3) as (cluster, _):
            lost = cluster.store.session.id
            assert lost is not None
            assert isinstance(cluster.store, MemoryStore)
            cluster.store.cut()
            place.server.expire(lost)
            later = replace(cluster, store=second)
            assert await bookie_records.count_boot(later, BOOKIE, 4)
            info = service_info.of_bookie("127.0.0.1", 3182, WHERE, tls=False, boot_epoch=4)
            copy = Registrar(later, BOOKIE, info, session_timeout_ms=SESSION_MS)
            await copy.register(Mode.WRITABLE)
            await copy.leave()
            cluster.store.mend()
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(superseded(), 30)

    ended = first_of(raised.value)
    assert isinstance(ended, NameTakenError)
    assert "counted start 4 of bk-a-0, and this is start 3" in str(ended)
    root = (await clusters.open_cluster(second)).root
    assert await second.get(root.writable(BOOKIE), sync=True) is None
    await second.close()


async def test_a_registration_that_was_removed_by_hand_is_made_again() -> None:
    place = MemoryPlace()
    onlooker = await place.open()
    async with kept_present(place, boot_epoch=3) as (cluster, _):
        await turns(IDLE_TURNS)
        removed = await onlooker.get(cluster.root.writable(BOOKIE), sync=True)
        assert removed is not None
        await onlooker.delete(cluster.root.writable(BOOKIE), version=removed.version)
        await turns(IDLE_TURNS)
        assert await side(cluster) == "writable"
    await onlooker.close()


async def test_metadata_that_cannot_be_read_says_of_no_ledger_where_it_ends() -> None:
    """One damaged node must not end every bookie whose rewrite asks."""
    store = MemoryStore(MemoryServer())
    cluster = await clusters.initialise(store, INSTANCE)
    closed = LedgerMetadata(
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        digest=Digest.CRC32C,
        password=b"secret",
        state=LedgerState.CLOSED,
        last_entry=EntryId(10),
        length=100,
        fragments=(Fragment(first_entry=EntryId(0), ensemble=(BOOKIE,)),),
    )
    rendered = ledger_format.render(closed)
    await store.create(ledgers.path(cluster, LEDGER), rendered, make_parents=True)
    assert await life.ends_in(cluster)([LEDGER]) == {LEDGER: 10}

    await store.create(cluster.root.beside("restored"), b"not JSON", make_parents=True)

    assert await life.ends_in(cluster)([LEDGER]) == {}
    await store.close()


async def test_a_registration_is_told_once_for_each_side_in_each_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="zonekeeper.bookie.life.life")
    place = MemoryPlace()
    async with kept_present(place) as (cluster, bookie):
        await turns(IDLE_TURNS)
        for text in ("the disk is full: 95%", "the disk is full: 96%; ledger directory 1: failed"):
            bookie.set_conditions([text])
            await turns(IDLE_TURNS)
        bookie.set_conditions([])
        await turns(IDLE_TURNS)
        await place.expire(cluster.store)
        await turns(IDLE_TURNS)
    assert [text for text in caplog.messages if text.startswith("registered")] == [
        "registered as writable",
        "registered as read-only",
        "registered as writable",
        "registered as writable",
    ]
