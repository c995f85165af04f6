"""The bookies of a cluster, as one stream of topology snapshots.

Cookies say which bookies exist, and where. The nodes under ``available`` say which are registered.
The values of these nodes say how much room a registered bookie has. Our own records say which are
draining. A snapshot puts these together:

* A bookie with a cookie and without a registration is absent, and keeps its location.
* A bookie whose cookie is missing, unreadable or without a location is unresolved: in no zone.
* A bookie that changes between writable and read-only is not shown as absent in between. For that
  the lists are read in turn, until one of them is the same before and after the other was read. A
  bookie that changed sides twice meanwhile may be in neither list. So a bookie that has vanished is
  looked for again before it counts as absent.
* Rooms are looked at at most once in ``ROOMS_EVERY_MS``, those of all bookies of a side together.
  A thousand bookies that publish their rooms would otherwise make a snapshot each, in each process
  that follows them. Registrations and absences wait for no room: they are shown at once.
* The room of a bookie that does not say it is unknown. So is the room of a bookie that is absent,
  and for up to ``ROOMS_EVERY_MS`` that of a bookie that has just registered.
* A bookie with an unreadable record counts as draining: it gets no new data until a person has
  looked at the record.

A silent stream may be out of reach of the store; the store's session says so.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Set
from contextlib import aclosing, asynccontextmanager
from typing import Final

from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies, service_info
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.metadata.store import layout
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.following import Meaning, Meanings, follow_children
from zonekeeper.metadata.store.store import Versioned
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology

#: After this many reads a list that changes all the time is taken as it is.
_LOOKS_MAX: Final = 10
#: A bookie that was registered is absent if this many further reads do not find it either.
_LOOKS_FOR_VANISHED: Final = 3
_RETRY_DELAY_MS: Final = 200
#: The time between two looks at the rooms of a side, at least. So a room is known that much later.
ROOMS_EVERY_MS: Final = 1_000

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def watch(cluster: Cluster) -> AsyncIterator[AsyncIterator[Topology]]:
    """Follow all bookies of a cluster."""
    view = _View(cluster)
    work = (
        view.follow_cookies(),
        view.follow_records(),
        *(view.follow_registrations(side) for side in layout.SIDES),
        *(view.follow_rooms(side) for side in layout.SIDES),
    )
    async with alongside(*work), aclosing(view.snapshots()) as snapshots:
        yield snapshots


async def registrations(cluster: Cluster) -> dict[BookieId, Registration]:
    """Read the registered bookies; a bookie that is changing sides is on one side."""
    store, root = cluster.store, cluster.root
    writable = await store.children(root.below("available"))
    read_only: tuple[str, ...] | None = None
    for _ in range(_LOOKS_MAX):
        read_only = await store.children(root.below("available/readonly"))
        before, writable = writable, await store.children(root.below("available"))
        if writable == before:
            break
    sides = ((read_only, Registration.READ_ONLY), (writable, Registration.WRITABLE))
    return {
        BookieId(name): side
        for names, side in sides
        for name in names or ()
        if cookies.is_bookie_id(name)
    }


class _View:
    """The parts of a snapshot, as far as they are known; None if not read yet."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed = asyncio.Event()
        self._locations: dict[BookieId, Location | None] | None = None
        self._draining: dict[BookieId, bool] | None = None
        self._registered: dict[BookieId, Registration] | None = None
        #: By side: the rooms of the bookies that are registered there.
        self._rooms: dict[str, dict[BookieId, PublishedRoom | None]] = {}
        self._lists_moved = False

    async def follow_cookies(self) -> None:
        meanings = Meanings(self._location)
        path = self._cluster.root.below("cookies")
        async with follow_children(self._cluster.store, path) as states:
            async for state in states:
                self._locations = _by_bookie(meanings.of(state))
                self._changed.set()

    async def follow_records(self) -> None:
        meanings = Meanings(self._is_draining)
        path = self._cluster.root.beside("bookies")
        async with follow_children(self._cluster.store, path) as states:
            async for state in states:
                self._draining = _by_bookie(meanings.of(state))
                self._changed.set()

    async def follow_registrations(self, name: str) -> None:
        path = self._cluster.root.below(name)
        async with self._cluster.store.watch_children(path) as states:
            async for _ in states:
                self._lists_moved = True
                self._changed.set()

    async def follow_rooms(self, side: str) -> None:
        meanings = Meanings(self._room)
        path = self._cluster.root.below(side)
        async with follow_children(self._cluster.store, path) as states:
            async for state in states:
                self._rooms[side] = _by_bookie(meanings.of(state))
                self._changed.set()
                # The states of this time are skipped; the last one of them comes next.
                await asyncio.sleep(ROOMS_EVERY_MS / 1000)

    async def snapshots(self) -> AsyncGenerator[Topology, None]:
        last: list[Bookie] | None = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._lists_moved:
                await self._read_lists()
            bookies = self._bookies()
            if bookies is not None and bookies != last:
                last = bookies
                yield Topology(bookies)

    async def _read_lists(self) -> None:
        self._lists_moved = False
        try:
            found = await registrations(self._cluster)
            for _ in range(_LOOKS_FOR_VANISHED):
                if self._expected() <= found.keys():
                    break
                found = await registrations(self._cluster)
            self._registered = found
        except StoreError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(_RETRY_DELAY_MS / 1000)
            self._lists_moved = True
            self._changed.set()

    def _expected(self) -> Set[BookieId]:
        """Give the bookies of the last look; before the first look, all that have a cookie."""
        if self._registered is not None:
            return self._registered.keys()
        return self._locations.keys() if self._locations is not None else frozenset()

    def _bookies(self) -> list[Bookie] | None:
        if self._locations is None or self._draining is None or self._registered is None:
            return None
        if len(self._rooms) < len(layout.SIDES):
            return None
        rooms = {
            name: room for side in layout.SIDES for name, room in self._rooms[side].items() if room
        }
        sharers = Counter(room.disk for room in rooms.values() if room.disk is not None)
        found = []
        for bookie in sorted(self._locations.keys() | self._registered.keys()):
            registration = self._registered.get(bookie, Registration.ABSENT)
            room = None if registration is Registration.ABSENT else rooms.get(bookie)
            # A disk that several bookies share counts once, so each counts its part of it.
            shared = 1 if room is None or room.disk is None else sharers[room.disk]
            found.append(
                Bookie(
                    id=bookie,
                    location=self._locations.get(bookie),
                    registration=registration,
                    draining=self._draining.get(bookie, False),
                    free_bytes=None if room is None else room.free_bytes // shared,
                    total_bytes=None if room is None else room.total_bytes // shared,
                    sharers=shared,
                )
            )
        return found

    def _location(self, bookie: str, node: Versioned) -> Location | None:
        try:
            return cookies.parse(node.value).location
        except UnreadableError as error:
            _logger.warning("cookie of %s in %s: %s", bookie, self._cluster, error)
            return None

    def _room(self, bookie: str, node: Versioned) -> PublishedRoom | None:
        try:
            return service_info.parse(node.value).room
        except UnreadableError as error:
            _logger.warning("registration of %s in %s: %s", bookie, self._cluster, error)
            return None

    def _is_draining(self, bookie: str, node: Versioned) -> bool:
        try:
            return bookie_records.parse(node.value, self._cluster.instance).draining is not None
        except ForeignRecordError as error:
            _logger.warning("record of %s in %s is ignored: %s", bookie, self._cluster, error)
            return False
        except UnreadableError as error:
            _logger.warning("record of %s in %s: %s", bookie, self._cluster, error)
            return True


def _by_bookie(meanings: Mapping[str, Meaning]) -> dict[BookieId, Meaning]:
    return {BookieId(name): meaning for name, meaning in meanings.items()}
