"""Bookies are followed by watch: what exists is asked in each look, what it says is not."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.support import virtual_time
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.store.errors import UnauthorizedError
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.operator.roots import followed
from zonekeeper.operator.roots.followed import BookieReading, FollowedBookies
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

B1, B2 = BookieId("log-a-0"), BookieId("log-b-0")
A = Location(ZoneName("a"), UpgradeDomain("ud-0"))
B = Location(ZoneName("b"), UpgradeDomain("ud-0"))


class CountedStore(MemoryStore):
    """A store that counts what is asked of it, and may refuse to be watched."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.asked = 0
        self.refuses_watches = False
        self.weather = self._count

    def _count(self, kind: RequestKind) -> Passage:
        self.asked += 1
        return Passage()

    def _watch_children(
        self, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, ...] | None]]:
        if self.refuses_watches:
            raise UnauthorizedError("no", store=self.name, path=path)
        return super()._watch_children(path)


class Following:
    """A cluster, as a person changes it and as the operator follows it."""

    def __init__(self, mine: CountedStore, here: Cluster, there: Cluster) -> None:
        self.mine, self.here, self.there = mine, here, there
        self.told = 0
        self.bookies = FollowedBookies(asyncio.ensure_future, self._tell)

    def _tell(self) -> None:
        self.told += 1

    async def add(self, bookie: BookieId, location: Location) -> None:
        one = Cookie(
            bookie=bookie,
            journal_dirs=("/data",),
            ledger_dirs=("/data",),
            instance=self.there.instance,
            location=location,
        )
        await cookie_store.create(self.there, one)

    async def cost(self) -> int:
        """Count what one look asks."""
        before = self.mine.asked
        found = await self.bookies.locations(self.here)
        await self.bookies.records(self.here, found)
        await self.bookies.rooms(self.here, found)
        return self.mine.asked - before


@asynccontextmanager
async def following() -> AsyncIterator[Following]:
    server = MemoryServer()
    person, mine = MemoryStore(server), CountedStore(server)
    await clusters.initialise(person, str(uuid.UUID(int=1)))
    one = Following(mine, await clusters.open_cluster(mine), await clusters.open_cluster(person))
    await one.add(B1, A)
    try:
        yield one
    finally:
        one.bookies.give_up()
        await mine.close()
        await person.close()


@virtual_time.played
async def test_a_look_costs_the_same_with_any_number_of_bookies() -> None:
    async with following() as one:
        await one.cost()
        await asyncio.sleep(1)
        with_one = await one.cost()
        for number in range(1, 50):
            await one.add(BookieId(f"log-a-{number}"), A)
        await asyncio.sleep(1)
        await one.cost()

        assert await one.cost() == with_one == 1


@virtual_time.played
async def test_a_look_knows_what_exists_before_the_watch_does() -> None:
    async with following() as one:
        await one.bookies.locations(one.here)
        await asyncio.sleep(1)

        await one.add(B2, B)
        assert await one.bookies.locations(one.here) == {B1: A, B2: B}
        stored = await cookie_store.read(one.there, B1)
        assert stored is not None
        await cookie_store.delete(one.there, B1, version=stored.version)
        assert await one.bookies.locations(one.here) == {B2: B}


@virtual_time.played
async def test_a_change_is_told_and_seen_and_the_beginning_is_no_change() -> None:
    async with following() as one:
        await one.bookies.locations(one.here)
        await asyncio.sleep(1)
        assert one.told == 0

        await cookie_store.move(one.there, B1, B)
        await asyncio.sleep(1)
        assert one.told == 1
        assert await one.bookies.locations(one.here) == {B1: B}

        await bookie_records.count_boot(one.there, B1, 1)
        await asyncio.sleep(1)
        assert one.told == 2
        found = (await one.bookies.records(one.here, [B1]))[B1]
        assert found is not None
        assert found.boot_epoch == 1

        for path in (one.there.root.writable(B1), one.there.root.read_only(B1)):
            before = one.told
            await one.there.store.create(path, b"")
            await asyncio.sleep(1)
            assert one.told == before + 1, path


@virtual_time.played
async def test_what_cannot_be_read_is_known_to_be_unknown_both_ways() -> None:
    async with following() as one:
        await one.there.store.put(one.there.root.cookie(B1), b"?", version=0)
        await bookie_records.count_boot(one.there, B1, 1)
        await one.there.store.put(bookie_records.path(one.there, B1), b"?", version=0)
        await one.bookies.locations(one.here)
        await asyncio.sleep(1)

        for reading in (one.bookies, BookieReading()):
            assert await reading.locations(one.here) == {B1: None}
            assert await reading.records(one.here, [B1]) == {B1: None}
            assert await reading.records(one.here, [B2]) == {B2: bookie_records.BookieRecord()}


@virtual_time.played
async def test_where_watches_fail_everything_is_read_and_the_watch_begins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with following() as one:
        one.mine.refuses_watches = True
        await one.bookies.locations(one.here)
        await asyncio.sleep(1)
        assert "are not followed" in caplog.text
        assert await one.bookies.locations(one.here) == {B1: A}
        assert await one.cost() > 1

        one.mine.refuses_watches = False
        await one.bookies.locations(one.here)
        await asyncio.sleep(1)
        assert await one.cost() > 1, "it begins again a little later"
        await asyncio.sleep(followed.AGAIN_MS / 1_000)
        await one.cost()
        await asyncio.sleep(1)
        assert await one.cost() == 1


@virtual_time.played
async def test_another_cluster_at_the_root_is_followed_from_its_beginning() -> None:
    async with following() as one, following() as other:
        await one.bookies.locations(one.here)
        await asyncio.sleep(1)
        await cookie_store.move(other.there, B1, B)

        assert await one.bookies.locations(other.here) == {B1: B}
        await asyncio.sleep(1)
        assert await one.bookies.locations(other.here) == {B1: B}
        told = one.told
        await cookie_store.move(one.there, B1, B)
        await asyncio.sleep(1)
        assert one.told == told, "the cluster from before is followed no more"
