"""Ledgers that a bookie does not know: metadata decides about them, and no peer (S136, S137)."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    OTHER_KEY,
    Outcomes,
    append,
    frame,
    open_fragment,
    opening,
    read_ids,
    running,
)
from tests.bookie.serving.collecting_world import DELETER, INSTANCE, NEW
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.life import life
from zonekeeper.bookie.serving import store_reads
from zonekeeper.bookie.serving.capacity import BookieLimits
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import ledger_ids, ledgers
from zonekeeper.metadata.store.store import Put
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors

TOKEN = NEW.create_token
FAR_ABOVE = LedgerId(1 << 62)
Asked = Callable[[BookieServer, LedgerId], Awaitable[object]]


@dataclass
class World:
    """A bookie, the metadata of its cluster, and a client of that."""

    files: MemoryFileSystem
    bookie: BookieServer
    #: The bookie's own.
    store: MemoryStore
    cluster: Cluster
    #: The batches that the start has written.
    batches: int

    async def create(self, ledger_id: LedgerId = LEDGER) -> None:
        await ledgers.create(self.cluster, NEW, ledger_id=ledger_id)

    @property
    def is_untouched(self) -> bool:
        """Does the bookie know nothing, and has nothing been written for any ledger?"""
        memory = self.bookie._memory
        if self.bookie._log._sequence != self.batches:
            return False
        return not memory.ledgers and not len(memory.tombstones)


@asynccontextmanager
async def world(
    files: MemoryFileSystem | None = None,
    server: MemoryServer | None = None,
    limits: BookieLimits | None = None,
) -> AsyncIterator[World]:
    files, server = files or MemoryFileSystem(), server or MemoryServer()
    store, other = MemoryStore(server), MemoryStore(server)
    cluster = await clusters.initialise(other, INSTANCE)
    async with running(files, limits=limits) as bookie:
        bookie.standing = life.standing_in(await clusters.open_cluster(store))
        yield World(files, bookie, store, cluster, bookie._log._sequence)
    for each in (store, other):
        await each.close()


async def fence(bookie: BookieServer, ledger_id: LedgerId) -> None:
    await bookie.fence(ledger_id, KEY, TOKEN)


async def fence_without_a_token(bookie: BookieServer, ledger_id: LedgerId) -> None:
    await bookie.fence(ledger_id, KEY)


async def fence_and_read(bookie: BookieServer, ledger_id: LedgerId) -> None:
    await bookie.read(
        service.ReadRequest(
            ledger_id=ledger_id,
            first_entry_id=EntryId(0),
            last_entry_id=EntryId(9),
            bytes_max=1 << 20,
            fence_key=KEY,
            create_token=TOKEN,
        )
    )


async def open_it(bookie: BookieServer, ledger_id: LedgerId) -> None:
    wanted = dataclasses.replace(opening(ledger_id=ledger_id), create_token=TOKEN)
    await open_fragment(bookie, wanted)


async def open_without_a_token(bookie: BookieServer, ledger_id: LedgerId) -> None:
    await open_fragment(bookie, opening(ledger_id=ledger_id))


ALL: list[Asked] = [fence, fence_without_a_token, fence_and_read, open_it, open_without_a_token]
OPENINGS: list[Asked] = [open_it, open_without_a_token]


@pytest.mark.parametrize("asked", ALL)
@pytest.mark.parametrize("ledger_id", [LEDGER, FAR_ABOVE])
@virtual_time.played
async def test_s136_what_metadata_does_not_have_leaves_nothing(
    asked: Asked, ledger_id: LedgerId
) -> None:
    """And so it does not stand in the way of the ledger that gets the id later."""
    async with world() as made:
        with pytest.raises(errors.LedgerDeleted) as caught:
            await asked(made.bookie, ledger_id)
        assert not isinstance(caught.value, errors.Negative), "a recovery takes it for no denial"
        assert made.is_untouched
        await made.create(ledger_id)
        await open_it(made.bookie, ledger_id)


@pytest.mark.parametrize("asked", ALL)
@virtual_time.played
async def test_s136_another_key_than_that_in_metadata_leaves_nothing(asked: Asked) -> None:
    async with world() as made:
        password = dataclasses.replace(NEW, password=b"another")
        await ledgers.create(made.cluster, password, ledger_id=LEDGER)
        with pytest.raises(errors.UnauthorizedAccess):
            await asked(made.bookie, LEDGER)
        assert made.is_untouched


@pytest.mark.parametrize("asked", ALL)
@virtual_time.played
async def test_s136_another_ledger_in_metadata_leaves_nothing(asked: Asked) -> None:
    async with world() as made:
        anew = dataclasses.replace(NEW, create_token=TOKEN + 1, password=b"another")
        await ledgers.create(made.cluster, anew, ledger_id=LEDGER)
        with pytest.raises((errors.LedgerDeleted, errors.UnauthorizedAccess)):
            await asked(made.bookie, LEDGER)
        assert made.is_untouched


@virtual_time.played
async def test_s136_a_ledger_that_was_never_seen_is_fenced_once_metadata_has_it() -> None:
    """The fence is on the disk with the token of the ledger, which the peer did not know."""
    async with world() as made:
        await made.create()
        evidence = await made.bookie.fence(LEDGER, KEY)
        assert (evidence.explicit_lac, evidence.last_entry) == (None, None)
        state = made.bookie._memory.ledgers[LEDGER].durable
        assert (state.fenced, state.create_token) == (True, TOKEN)
        await open_it(made.bookie, LEDGER)
        assert isinstance((await append(made.bookie, frame(0)))[0], errors.Fenced)


@virtual_time.played
async def test_s136_a_follower_of_the_store_that_is_behind_denies_no_ledger() -> None:
    async with world() as made:
        await asyncio.sleep(100)
        made.store.read_lag_ms = 50_000
        await made.create()
        await open_it(made.bookie, LEDGER)


# ── the store is out of reach ──


@pytest.mark.parametrize("asked", ALL)
@virtual_time.played
async def test_s137_while_metadata_is_away_nothing_is_stored_and_all_may_be_asked_again(
    asked: Asked,
) -> None:
    async with world() as made:
        await made.create()
        made.store.cut()
        with pytest.raises(errors.MetadataAway) as caught:
            await asked(made.bookie, LEDGER)
        assert caught.value.retryable
        assert not caught.value.maybe_applied
        assert made.is_untouched
        made.store.mend()
        await asked(made.bookie, LEDGER)
        assert LEDGER in made.bookie._memory.ledgers


@virtual_time.played
async def test_s137_damaged_metadata_is_unknown_and_no_absence() -> None:
    async with world() as made:
        await made.create()
        where = ledgers.path(made.cluster, LEDGER)
        node = await made.cluster.store.get(where)
        assert node is not None
        damaged = Put(path=where, value=b"damaged", version=node.version)
        await made.cluster.store.commit([damaged])
        for asked in ALL:
            with pytest.raises(errors.MetadataAway):
                await asked(made.bookie, LEDGER)
        assert made.is_untouched


@virtual_time.played
async def test_s137_a_known_ledger_is_written_fenced_and_recovered_without_metadata() -> None:
    async with world() as made:
        await made.create()
        await open_it(made.bookie, LEDGER)
        made.store.cut()
        assert await append(made.bookie, frame(0, 1)) == [None]
        following = dataclasses.replace(opening(first=2), create_token=TOKEN)
        await open_fragment(made.bookie, following)
        await made.bookie.fence(LEDGER, KEY, TOKEN)
        assert await append(made.bookie, frame(2, recovery=True)) == [None]
        assert await read_ids(made.bookie) == [0, 1, 2]


@virtual_time.played
async def test_an_answered_fence_never_expires() -> None:
    """Neither with time, nor with a restart, nor while nobody knows whether the ledger is there."""
    files, server = MemoryFileSystem(), MemoryServer()
    async with world(files, server) as made:
        await made.create()
        await made.bookie.fence(LEDGER, KEY, TOKEN)
    await asyncio.sleep(400 * 24 * 3_600)
    async with world(files, server) as made:
        for away in (False, True):
            if away:
                made.store.cut()
            await open_it(made.bookie, LEDGER)
            assert isinstance((await append(made.bookie, frame(0)))[0], errors.Fenced)
        await ledgers.delete(made.cluster, LEDGER, DELETER)
        await open_it(made.bookie, LEDGER)
        assert isinstance((await append(made.bookie, frame(0)))[0], errors.Fenced)


# ── what happens while metadata is read ──


class Held:
    """A store whose answers a test holds back."""

    def __init__(self, answer: admission.Standing) -> None:
        self.answer = answer
        self.asked = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def __call__(self, ledger_id: LedgerId) -> admission.Standing:
        del ledger_id
        self.asked.set()
        await self.goes_on.wait()
        return self.answer


@virtual_time.played
async def test_what_was_collected_while_metadata_was_read_is_not_opened() -> None:
    """Metadata had the ledger when it was read, and two rounds have proved it gone since then."""
    async with running(MemoryFileSystem()) as bookie:
        bookie.standing = held = Held(admission.Stands(master_key=KEY, create_token=TOKEN))
        await bookie._settle(LEDGER, admission.LimboWanted(in_limbo=True))
        opened = asyncio.ensure_future(open_it(bookie, LEDGER))
        fenced = asyncio.ensure_future(fence(bookie, LEDGER))
        await held.asked.wait()
        await bookie._storage.forget([LEDGER])
        held.goes_on.set()
        for asked in (opened, fenced):
            with pytest.raises(errors.LedgerDeleted):
                await asked
        assert LEDGER not in bookie._memory.ledgers


@virtual_time.played
async def test_of_two_that_open_a_ledger_at_once_metadata_knows_the_right_one() -> None:
    async with running(MemoryFileSystem()) as bookie:
        bookie.standing = held = Held(admission.Stands(master_key=KEY))
        stranger = asyncio.ensure_future(open_fragment(bookie, opening(key=OTHER_KEY)))
        await held.asked.wait()
        writer = asyncio.ensure_future(open_fragment(bookie, opening()))
        held.goes_on.set()
        with pytest.raises(errors.UnauthorizedAccess):
            await stranger
        await writer
        assert await append(bookie, frame(0)) == [None]


@virtual_time.played
async def test_a_bookie_that_stops_gives_each_opening_its_answer() -> None:
    async with running(MemoryFileSystem()) as bookie:
        bookie.standing = held = Held(admission.Stands(master_key=KEY))
        under_way = [
            asyncio.ensure_future(open_it(bookie, LedgerId(number)))
            for number in range(2 * store_reads.AT_ONCE)
        ]
        await held.asked.wait()
        bookie.drain()
        held.goes_on.set()
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        assert {type(each) for each in outcomes} == {errors.ShuttingDown}


# ── limbo ──


@virtual_time.played
async def test_a_ledger_that_a_limbo_left_without_a_key_is_opened_by_its_metadata() -> None:
    """A stranger may not give it a key: the recovery that fills it in would be refused."""
    async with world() as made:
        await made.create()
        await made.bookie._settle(LEDGER, admission.LimboWanted(in_limbo=True))
        for asked in (
            open_fragment(made.bookie, opening(key=OTHER_KEY)),
            made.bookie.fence(LEDGER, OTHER_KEY),
        ):
            with pytest.raises(errors.UnauthorizedAccess):
                await asked
        assert made.bookie._memory.ledgers[LEDGER].admitted.master_key is None
        await open_it(made.bookie, LEDGER)
        assert await append(made.bookie, frame(0, recovery=True)) == [None]


@virtual_time.played
async def test_no_unknown_ledger_is_asked_about_when_there_is_no_room_for_it() -> None:
    asked: list[LedgerId] = []

    async def standing(ledger_id: LedgerId) -> admission.Standing:
        asked.append(ledger_id)
        return admission.Stands(master_key=KEY)

    async with running(MemoryFileSystem(), limits=BookieLimits(ledgers_max=1)) as bookie:
        bookie.standing = standing
        await open_it(bookie, LEDGER)
        for attempt in ALL:
            with pytest.raises(errors.TooManyRequests, match="--ledgers is 1"):
                await attempt(bookie, LedgerId(8))
        assert asked == [LEDGER]


async def test_ids_that_were_given_out_say_nothing() -> None:
    """A ledger may have an id that its client chose, far above the counter."""
    async with world() as made:
        drawn = await ledger_ids.allocate(made.cluster)
        with pytest.raises(errors.LedgerDeleted):
            await open_it(made.bookie, drawn)
        await made.create(FAR_ABOVE)
        await open_it(made.bookie, FAR_ABOVE)


class _DiskError(Exception):
    """Ends all tasks of a bookie, as a disk does that fails."""


async def test_what_a_peer_sends_while_the_bookie_ends_is_refused() -> None:
    """The server hears its peers until it is stopped, and the bookie begins no task any more."""
    heard = Outcomes()

    async def until_it_ends() -> None:
        async with running(MemoryFileSystem()) as bookie:
            await open_fragment(bookie, opening())
            assert await append(bookie, frame(0)) == [None]

            async def fail() -> None:
                raise _DiskError

            failing = bookie._tasks.create_task(fail())
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            assert failing.done()
            new = carriers.Open(number=0, opening=opening(ledger_id=FAR_ABOVE))
            bookie.append([new, carriers.Append(number=1, frame=frame(0))], heard)

    with pytest.raises(BaseExceptionGroup) as raised:
        await until_it_ends()

    assert raised.group_contains(_DiskError)
    assert [type(heard.heard.get(number)) for number in range(2)] == [errors.ShuttingDown] * 2
