"""A bookie that kept more than the store knows marks the store as set back, and only then."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from tests.wire import hextext
from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.life import known_metadata
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.metadata.bookies import bookie_records, looks
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, restored, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, Knowledge
from zonekeeper.metadata.ledgers import ledger_ids
from zonekeeper.metadata.store.errors import SessionLostError, StoreError
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.wire.formats.errors import FormatError

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, B = BookieId("bk-a-0"), BookieId("bk-b-0")
POLICY = Policy(placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"), ZoneName("c"))))
NOW_MS = 1_780_000_000_000


@dataclass
class World:
    """The same cluster in two stores: that of now, and an older state of it."""

    now: Cluster
    older: Cluster
    files: MemoryFileSystem = field(default_factory=MemoryFileSystem)

    def witness(self, cluster: Cluster, files: MemoryFileSystem | None = None) -> Witness:
        """Give the witness of a bookie that starts."""
        return Witness(cluster, A, files or self.files, InlineDisk(), wall_ms=lambda: NOW_MS)

    @property
    def kept(self) -> Knowledge:
        return known_metadata.load(self.files)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    places = MemoryPlace(), MemoryPlace()
    found = []
    for place in places:
        cluster = await clusters.initialise(await place.open(), INSTANCE)
        await policy_store.write(cluster, POLICY, replaces=0)
        await bookie_records.count_boot(cluster, A, 1)
        await ledger_ids.allocate(cluster)
        found.append(cluster)
    yield World(found[0], found[1])
    for place in places:
        await place.close()


async def drawn(cluster: Cluster) -> None:
    await ledger_ids.allocate(cluster)


async def started(cluster: Cluster) -> None:
    await bookie_records.count_boot(cluster, A, 2)


async def set_policy(cluster: Cluster) -> None:
    await policy_store.write(cluster, POLICY, replaces=1)


CHANGES: dict[EvidenceKind, Callable[[Cluster], Awaitable[None]]] = {
    EvidenceKind.IDS: drawn,
    EvidenceKind.STARTS: started,
    EvidenceKind.POLICY: set_policy,
}


async def kinds(cluster: Cluster) -> set[EvidenceKind]:
    mark = await restored.read(cluster)
    return set() if mark is None else {one.kind for one in mark.evidence}


@pytest.mark.parametrize("kind", list(EvidenceKind))
async def test_a_number_that_is_lower_than_the_bookies_marks_the_store(kind: EvidenceKind) -> None:
    async with world() as it:
        await CHANGES[kind](it.now)
        await it.witness(it.now).look()
        assert await restored.read(it.now) is None
        kept = it.kept

        await it.witness(it.older).look()

        assert await kinds(it.older) == {kind}
        assert it.kept == kept, "the evidence is kept until a person accepts it"
        (event,) = await timeline.newest(it.older)
        assert (event.kind, event.subject, event.by) == ("marked", "restored", A)
        assert "bk-a-0 knew of" in event.reason


async def test_a_store_that_only_went_on_is_not_marked() -> None:
    async with world() as it:
        await it.witness(it.older).look()
        for change in CHANGES.values():
            await change(it.now)
        await it.witness(it.now).look()
        assert await restored.read(it.now) is None
        assert it.kept == Knowledge(starts=2, ids=2, policy=2)


async def test_a_new_bookie_has_no_evidence() -> None:
    async with world() as it:
        await it.witness(it.older, MemoryFileSystem()).look()
        assert await restored.read(it.older) is None


async def test_what_a_person_cleared_does_not_set_the_mark_again() -> None:
    async with world() as it:
        for change in CHANGES.values():
            await change(it.now)
        await it.witness(it.now).look()
        witness = it.witness(it.older)
        await witness.look()
        mark = await restored.read(it.older)
        assert mark is not None
        assert len(mark.evidence) == 3

        await restored.clear(it.older, mark)
        for again in (witness, it.witness(it.older)):
            await again.look()
            assert await restored.read(it.older) is None
        assert it.kept == Knowledge(starts=1, ids=await ledger_ids.given_out(it.older), policy=1)


async def test_a_mark_that_is_lost_without_a_persons_word_is_set_again() -> None:
    async with world() as it:
        known_metadata.save(it.files, Knowledge(ids=99))
        witness = it.witness(it.now)
        await witness.look()
        await it.now.store.delete(it.now.root.beside("restored"), version=None)
        await witness.look()
        assert await kinds(it.now) == {EvidenceKind.IDS}


async def test_a_store_that_is_set_back_once_more_is_marked_once_more() -> None:
    async with world() as it, world() as other:
        await drawn(it.now)
        await it.witness(it.now).look()
        await it.witness(it.older).look()
        mark = await restored.read(it.older)
        assert mark is not None
        await restored.clear(it.older, mark)
        await it.witness(it.older).look()

        await it.witness(other.older).look()

        assert await kinds(other.older) == {EvidenceKind.IDS}


async def test_evidence_of_a_bookie_that_was_away_is_not_accepted_with_that_of_others() -> None:
    async with world() as it:
        away = MemoryFileSystem()
        await started(it.now)
        await it.witness(it.now, away).look()
        await drawn(it.older)
        await bookie_records.count_boot(it.older, B, 1)
        known_metadata.save(it.files, Knowledge(ids=99))
        other = Witness(it.older, B, it.files, InlineDisk(), wall_ms=lambda: NOW_MS)
        await other.look()
        mark = await restored.read(it.older)
        assert mark is not None
        await restored.clear(it.older, mark)

        await it.witness(it.older, away).look()

        assert await kinds(it.older) == {EvidenceKind.STARTS}


async def test_records_that_are_gone_or_cannot_be_read_are_no_evidence() -> None:
    async with world() as it:
        await it.witness(it.now).look()
        kept = it.kept
        await bookie_records.forget(it.now, A)
        policy = it.now.root.beside("policy")
        await it.now.store.put(policy, b"?", version=0)
        await it.witness(it.now).look()
        assert await restored.read(it.now) is None
        assert it.kept == kept


async def test_a_look_whose_session_ends_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    place = MemoryPlace()
    store = await place.open()
    cluster = await clusters.initialise(store, INSTANCE)
    files = MemoryFileSystem()
    known_metadata.save(files, Knowledge(ids=99))
    read, write = ledger_ids.given_out, looks.write

    async def then_lost(cluster: Cluster) -> int:
        assert store.session.id is not None
        place.server.expire(store.session.id)
        async with store.watch_session() as sessions:
            async for session in sessions:
                if session.id is not None:
                    break
        return await read(cluster)

    monkeypatch.setattr(ledger_ids, "given_out", then_lost)
    witness = Witness(cluster, A, files, InlineDisk(), wall_ms=lambda: NOW_MS)
    with pytest.raises(SessionLostError):
        await witness.look()
    assert await restored.read(cluster) is None
    monkeypatch.undo()

    async def lost_before(cluster: Cluster, bookie: BookieId, session: SessionId) -> None:
        await write(cluster, bookie, SessionId(session + 1_000))

    monkeypatch.setattr(looks, "write", lost_before)
    with pytest.raises(StoreError):
        await witness.look()
    monkeypatch.undo()
    await witness.look()
    assert await kinds(cluster) == {EvidenceKind.IDS}
    await place.close()


async def test_the_write_comes_before_everything_that_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that is behind shows the past, until the write."""
    async with world() as it:
        done = list[str]()
        write, read = looks.write, ledger_ids.given_out

        async def writes(cluster: Cluster, bookie: BookieId, session: SessionId) -> None:
            await write(cluster, bookie, session)
            done.append("written")

        async def reads(cluster: Cluster) -> int:
            done.append("read")
            return await read(cluster)

        monkeypatch.setattr(looks, "write", writes)
        monkeypatch.setattr(ledger_ids, "given_out", reads)
        witness = it.witness(it.now)
        await witness.look()
        await witness.look()
        assert done == ["written", "read"] * 2
        node = await it.now.store.get(it.now.root.beside(f"looks/{A}"))
        assert node is not None
        assert node.version == 1


@virtual_time.played
async def test_a_store_out_of_reach_holds_up_no_start_and_marks_nothing() -> None:
    place = MemoryPlace()
    store = await place.open(Timeouts(session_ms=60_000, request_ms=60_000))
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    files = MemoryFileSystem()
    known_metadata.save(files, Knowledge(ids=99))
    witness = Witness(cluster, A, files, InlineDisk(), wall_ms=lambda: NOW_MS)
    store.cut()
    began = asyncio.get_running_loop().time()
    await witness.try_look()
    assert asyncio.get_running_loop().time() - began <= 6
    store.mend()
    assert await restored.read(cluster) is None
    looking = asyncio.ensure_future(witness.run(every_ms=600_000))
    await asyncio.sleep(61)
    assert await kinds(cluster) == {EvidenceKind.IDS}
    looking.cancel()
    await place.close()


@pytest.mark.parametrize("kind", ["create", "write", "sync"])
async def test_a_full_device_costs_what_is_kept_and_no_look(kind: str) -> None:
    async with world() as it:
        witness = it.witness(it.now)
        await witness.look()
        kept = it.kept
        await CHANGES[EvidenceKind.IDS](it.now)

        def full(now: str, name: str) -> None:
            if now == kind and name.startswith(known_metadata.NAME):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

        it.files.troubles = full
        assert await witness.look() == it.now.store.session.id
        assert it.kept == kept, "what is kept stays whole"

        it.files.troubles = no_troubles
        await witness.look()
        assert it.kept == replace(kept, ids=kept.ids + 1)


async def test_a_full_device_hides_no_evidence() -> None:
    async with world() as it:
        await CHANGES[EvidenceKind.IDS](it.now)
        await it.witness(it.now).look()

        def full(_: str, name: str) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

        witness = it.witness(it.older)
        await CHANGES[EvidenceKind.POLICY](it.older)  # there is something to keep, too
        it.files.troubles = lambda kind, name: full(kind, name) if kind == "write" else None
        await witness.look()
        assert await kinds(it.older) == {EvidenceKind.IDS}


async def test_a_device_that_fails_ends_a_look() -> None:
    async with world() as it:

        def broken(kind: str, name: str) -> None:
            if kind == "write":
                raise OSError(errno.EIO, os.strerror(errno.EIO), name)

        it.files.troubles = broken
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await it.witness(it.now).try_look()


# ── the file ──


def test_what_is_kept_has_one_form_for_ever() -> None:
    known = Knowledge(starts=3, ids=7 << 32 | 5, policy=2)
    golden = hextext.read("../bookie/golden/known_v1.txt")["known"]
    assert known_metadata.render(known) == golden
    assert known_metadata.parse(golden) == known


@pytest.mark.parametrize("at", range(36))
def test_each_changed_byte_is_found(at: int) -> None:
    data = bytearray(known_metadata.render(Knowledge(starts=3, ids=5, policy=2)))
    data[at] ^= 0x40
    with pytest.raises(FormatError):
        known_metadata.parse(bytes(data))


def test_a_damaged_file_is_made_anew() -> None:
    files = MemoryFileSystem()
    known_metadata.save(files, Knowledge(ids=5))
    files.open(known_metadata.NAME).write(20, [b"\x07"])
    assert known_metadata.load(files) == Knowledge()
    known_metadata.save(files, Knowledge(ids=6))
    assert known_metadata.load(files) == Knowledge(ids=6)


def test_a_save_that_was_cut_short_leaves_what_was_kept() -> None:
    files = MemoryFileSystem()
    known_metadata.save(files, Knowledge(ids=5))
    files.create(whole_files.new_name(known_metadata.NAME)).write(0, [b"half"])
    assert known_metadata.load(files) == Knowledge(ids=5)
    known_metadata.save(files, Knowledge(ids=6))
    assert known_metadata.load(files) == Knowledge(ids=6)
