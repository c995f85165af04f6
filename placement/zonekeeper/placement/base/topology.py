"""The topology: the known bookies, where they stand and what they can take, as an immutable view.

A view never changes. A change gives a new view, which shares with the old one all units that the
change does not touch. What is known of a bookie outlives its process: a bookie that is not
registered keeps its location, because its cookie does.

Equal content gives equal choices: a view does not remember in which order it came about.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.pools import Pool, Weighting, weighting_of

_EMPTY: Final = Pool()


class Registration(enum.Enum):
    """The present registration of a bookie in the metadata store."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"
    #: A bookie with a cookie that is not registered: it is stopped, cut off or lost.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookie:
    """One bookie as the metadata store shows it."""

    id: BookieId
    #: None if unresolved. Such a bookie is in no zone, and gets no data under strict placement.
    location: Location | None
    registration: Registration = Registration.WRITABLE
    #: The bookie is to be removed: it serves reads, and gets no new ensembles.
    draining: bool = False
    #: Free disk bytes, the weight for placement; None if unknown. A full disk is not unknown. Of a
    #: disk that several bookies share it is this bookie's part.
    free_bytes: int | None = None
    #: The size of its disks, or its part of a shared one; None if unknown.
    total_bytes: int | None = None
    #: So many registered bookies, itself included, share its disk: ``1 <= sharers``.
    sharers: int = 1

    @property
    def accepts_ensembles(self) -> bool:
        """May a new ensemble name this bookie?"""
        return self.registration is Registration.WRITABLE and not self.draining

    @property
    def pool_bytes(self) -> int:
        """Give the free bytes as a pool counts them: 0 if unknown, and at least 1 if known."""
        return 0 if self.free_bytes is None else max(1, self.free_bytes)

    @property
    def readable(self) -> bool:
        """Is the bookie registered, so that it can be asked?"""
        return self.registration is not Registration.ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """The content of a topology. Each field follows from ``bookies``; none is changed in place."""

    bookies: Mapping[BookieId, Bookie] = field(default_factory=dict)
    #: The number of bookies at each location, whatever their state.
    residents: Mapping[Location, int] = field(default_factory=dict)
    #: By location, the bookies that accept ensembles; sorted by location, without empty pools.
    pools: Mapping[Location, Pool] = field(default_factory=dict)
    unresolved: Pool = _EMPTY

    def changed(self, remove: Iterable[BookieId], put: Mapping[BookieId, Bookie]) -> "_View":
        touched = {*remove, *put}
        before = [self.bookies[i] for i in touched if i in self.bookies]
        bookies = dict(self.bookies)
        for bookie_id in touched.difference(put):
            bookies.pop(bookie_id, None)
        bookies.update(put)
        residents = Counter(self.residents)
        residents.subtract(b.location for b in before if b.location is not None)
        residents.update(b.location for b in put.values() if b.location is not None)

        gone = [bookie for bookie in before if bookie.accepts_ensembles]
        new = [bookie for bookie in put.values() if bookie.accepts_ensembles]
        pools, unresolved = self._changed_pools(gone, new)
        return _View(
            bookies=bookies,
            residents=+residents,
            pools=pools,
            unresolved=unresolved,
        )

    def _changed_pools(
        self, gone: list[Bookie], new: list[Bookie]
    ) -> tuple[Mapping[Location, Pool], Pool]:
        leaving: defaultdict[Location | None, set[BookieId]] = defaultdict(set)
        for bookie in gone:
            leaving[bookie.location].add(bookie.id)
        joining: defaultdict[Location | None, list[tuple[int, BookieId]]] = defaultdict(list)
        for bookie in new:
            joining[bookie.location].append((bookie.pool_bytes, bookie.id))

        pools, unresolved = dict(self.pools), self.unresolved
        for location in {*leaving, *joining}:
            pool = unresolved if location is None else pools.get(location, _EMPTY)
            pool = pool.changed(leaving[location], joining[location])
            if location is None:
                unresolved = pool
            else:
                pools[location] = pool
        ordered = pools if pools.keys() <= self.pools.keys() else sorted(pools)
        return {where: pools[where] for where in ordered if pools[where]}, unresolved


class Topology:
    """An immutable view of all bookies, by id and by location."""

    __slots__ = ("_view", "_weightings")

    def __init__(
        self,
        bookies: Iterable[Bookie] = (),
        *,
        since: _View | None = None,
        remove: Iterable[BookieId] = (),
    ) -> None:
        """Make a view of these bookies; ``since`` and ``remove`` are for ``updated``."""
        put = {bookie.id: bookie for bookie in bookies}
        self._view = (_View() if since is None else since).changed(remove, put)
        #: The weightings that were asked for, by cap and zones. Each follows from the pools.
        self._weightings: dict[tuple[float, tuple[ZoneName, ...]], Weighting] = {}

    def __len__(self) -> int:
        return len(self._view.bookies)

    def __iter__(self) -> Iterator[Bookie]:
        """Give all bookies, sorted by id."""
        return iter(sorted(self._view.bookies.values(), key=lambda bookie: bookie.id))

    def __contains__(self, bookie_id: object) -> bool:
        return bookie_id in self._view.bookies

    def get(self, bookie_id: BookieId) -> Bookie | None:
        """Give a bookie by its id; None if there is no cookie for it."""
        return self._view.bookies.get(bookie_id)

    def location(self, bookie_id: BookieId) -> Location | None:
        """Give a bookie's location; None if it is unresolved, or if the bookie is not known."""
        bookie = self._view.bookies.get(bookie_id)
        return None if bookie is None else bookie.location

    @property
    def zones(self) -> tuple[ZoneName, ...]:
        """The zones in which at least one bookie stands, sorted."""
        return tuple(sorted({location.zone for location in self._view.residents}))

    @property
    def pools(self) -> Mapping[Location, Pool]:
        """The bookies that accept ensembles, by unit; sorted by zone and upgrade domain."""
        return MappingProxyType(self._view.pools)

    @property
    def unresolved(self) -> Pool:
        """The bookies that would accept ensembles, but have no location."""
        return self._view.unresolved

    def weighting(self, cap_multiple: float, zones: tuple[ZoneName, ...]) -> Weighting:
        """Say how free space becomes weight, by the bookies of these zones that accept ensembles.

        A ``cap_multiple`` of 0 means no cap. Bookies elsewhere have no say: they get no data. They
        get some without strict placement, when there is no other bookie. So if no bookie of these
        zones says its room, all that accept ensembles have a say.
        """
        asked = (cap_multiple, zones)
        found = self._weightings.get(asked)
        if found is None:
            pools = [pool for where, pool in self._view.pools.items() if where.zone in zones]
            if not any(pool.known_bytes for pool in pools):
                pools = [*self._view.pools.values(), self._view.unresolved]
            found = self._weightings[asked] = weighting_of(pools, cap_multiple)
        return found

    def updated(self, *, put: Iterable[Bookie] = (), remove: Iterable[BookieId] = ()) -> "Topology":
        """Give the view after a change; a bookie in both ``remove`` and ``put`` is put."""
        return Topology(put, since=self._view, remove=remove)
