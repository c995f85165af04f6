"""The bookies of a root: read in each look, or followed by watch between looks.

A look reads anew which cookies exist, with one request, because an order and its bookie's cookie
end together. What a cookie or a record says is taken from the watch: it is read when it changes,
and not in each look. So the requests of a look do not grow with the bookies. A value may be older
than the look by the time that the watch takes; then the change is told, and another turn looks
again.

A change of cookies, records or registrations is told. The state that following begins with is no
change. Rooms change all the time, and are told by nobody: they are read where they are asked for,
and remembered for ``ROOMS_EVERY_MS``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, Final, Protocol, TypeVar

from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.bookies import registration as registrations
from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.following import Meanings, follow_children
from zonekeeper.metadata.store.store import Versioned
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Trouble

Result = TypeVar("Result")
Value = TypeVar("Value")

READS_IN_FLIGHT_MAX: Final = 32
#: A watch that has failed begins again with a look that comes at least so much later.
AGAIN_MS: Final = 10_000
#: So old may a room be, which is an estimate in any case.
ROOMS_EVERY_MS: Final = 15_000

_logger = logging.getLogger(__name__)


class Spawn(Protocol):
    """Begins a task that has a parent."""

    def __call__(self, work: Coroutine[Any, Any, Result], /) -> "asyncio.Task[Result]":
        """Begin it."""
        ...


class BookieReading:
    """Reads all that is asked, each time: for a root that is looked at once."""

    async def locations(self, cluster: Cluster) -> dict[BookieId, Location | None]:
        """Give every bookie with a cookie; None: the cookie has no location, or is unreadable."""
        return await _each(await cookie_store.ids(cluster), lambda one: _location(cluster, one))

    async def records(
        self, cluster: Cluster, bookies: Collection[BookieId]
    ) -> dict[BookieId, BookieRecord | None]:
        """Give the records of bookies; None: it cannot be read."""
        return await _each(bookies, lambda one: bookie_records.read(cluster, one))

    async def rooms(
        self, cluster: Cluster, bookies: Collection[BookieId]
    ) -> dict[BookieId, PublishedRoom]:
        """Give the rooms that bookies publish."""
        found = await _each(bookies, lambda one: _room(cluster, one))
        return {name: room for name, room in found.items() if room is not None}

    def give_up(self) -> None:
        """Follow nothing; called before the store is closed."""


class FollowedBookies(BookieReading):
    """Follows the bookies of one root at a time; it belongs to the task of one resource."""

    def __init__(self, spawn: Spawn, told: Callable[[], None]) -> None:
        """``told`` is called after each change."""
        self._spawn = spawn
        self._told = told
        self._of: tuple[object, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._again_s = 0.0
        #: None: the watch has not given its first state, or has failed.
        self._locations: Mapping[str, Location | None] | None = None
        self._records: Mapping[str, BookieRecord | None] | None = None
        self._rooms: dict[BookieId, PublishedRoom] = {}
        self._rooms_of: Collection[BookieId] = ()
        self._rooms_until_s = 0.0

    async def locations(self, cluster: Cluster) -> dict[BookieId, Location | None]:
        """Give every bookie with a cookie; only cookies that the watch does not know are read."""
        self._follow(cluster)
        known = self._locations or {}
        ids = await cookie_store.ids(cluster)
        read = await _each(
            [one for one in ids if one not in known], lambda one: _location(cluster, one)
        )
        return {one: known[one] if one in known else read[one] for one in ids}

    async def records(
        self, cluster: Cluster, bookies: Collection[BookieId]
    ) -> dict[BookieId, BookieRecord | None]:
        """Give the records of bookies as the watch knows them."""
        self._follow(cluster)
        if self._records is None:
            return await super().records(cluster, bookies)
        return {one: self._records.get(one, BookieRecord()) for one in bookies}

    async def rooms(
        self, cluster: Cluster, bookies: Collection[BookieId]
    ) -> dict[BookieId, PublishedRoom]:
        """Give the rooms that bookies publish, or published a little ago."""
        self._follow(cluster)
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._rooms_until_s or set(bookies) != set(self._rooms_of):
            self._rooms = await super().rooms(cluster, bookies)
            self._rooms_of = tuple(bookies)
            self._rooms_until_s = now_s + ROOMS_EVERY_MS / 1000
        return dict(self._rooms)

    def give_up(self) -> None:
        """End the watch and forget what it said."""
        if self._task is not None:
            self._task.cancel()
        self._task = None
        self._forget()
        self._of, self._again_s = (), 0.0

    def _forget(self) -> None:
        self._locations = self._records = None
        self._rooms_until_s = 0.0

    def _follow(self, cluster: Cluster) -> None:
        of = (cluster.store, cluster.root.path, cluster.instance)
        if of != self._of:
            self.give_up()
            self._of = of
        now_s = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and now_s >= self._again_s):
            self._task = self._spawn(self._watch(cluster))

    async def _watch(self, cluster: Cluster) -> None:
        try:
            async with alongside(
                self._follow_names(cluster, "available"),
                self._follow_names(cluster, "available/readonly"),
                self._follow_records(cluster),
            ):
                await self._follow_cookies(cluster)
        except Trouble as error:
            _logger.warning("the bookies of %s are not followed: %s", cluster, error)
        finally:
            if self._task is asyncio.current_task():
                self._forget()
                self._again_s = asyncio.get_running_loop().time() + AGAIN_MS / 1000

    async def _follow_cookies(self, cluster: Cluster) -> None:
        meanings = Meanings(_location_in)
        async with follow_children(cluster.store, cluster.root.below("cookies")) as states:
            async for state in states:
                before, self._locations = self._locations, meanings.of(state)
                if before is not None and before != self._locations:
                    self._told()

    async def _follow_records(self, cluster: Cluster) -> None:
        async with bookie_records.watch_all(cluster) as states:
            async for state in states:
                before, self._records = (
                    self._records,
                    {
                        name: None if isinstance(one, UnreadableError) else one
                        for name, one in state.items()
                    },
                )
                if before is not None and before != self._records:
                    self._told()

    async def _follow_names(self, cluster: Cluster, side: str) -> None:
        is_first = True
        async with cluster.store.watch_children(cluster.root.below(side)) as states:
            async for _ in states:
                if not is_first:
                    self._told()
                is_first = False


async def _each(
    bookies: Collection[BookieId], read: Callable[[BookieId], Awaitable[Value]]
) -> dict[BookieId, Value | None]:
    """Read something of each bookie, a few at a time; None: it cannot be read."""
    gate = asyncio.Semaphore(READS_IN_FLIGHT_MAX)

    async def one(bookie: BookieId) -> Value | None:
        async with gate:
            try:
                return await read(bookie)
            except UnreadableError:
                return None

    names = sorted(bookies)
    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


async def _location(cluster: Cluster, bookie: BookieId) -> Location | None:
    stored = await cookie_store.read(cluster, bookie)
    return None if stored is None else stored.cookie.location


async def _room(cluster: Cluster, bookie: BookieId) -> PublishedRoom | None:
    info = await registrations.read_service_info(cluster, bookie)
    return None if info is None else info.room


def _location_in(_: str, node: Versioned) -> Location | None:
    try:
        return cookies.parse(node.value).location
    except UnreadableError:
        return None
