"""Which bookies there are, where they stand and what they can take: one immutable view.

A snapshot never changes; a change gives a new one. What is known of a bookie outlives its process:
a bookie that is not registered keeps its location, because its cookie does.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from zonekeeper.placement.ids import BookieId, ZoneName
from zonekeeper.placement.locations import Location


class Registration(enum.Enum):
    """What a bookie says of itself in the metadata store, now."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"
    #: Known (there is a cookie), but not registered: stopped, cut off or lost.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookie:
    """One bookie as the metadata store shows it."""

    id: BookieId
    #: None: unresolved. Such a bookie is in no zone and gets no data under strict placement.
    location: Location | None
    registration: Registration = Registration.WRITABLE
    #: Somebody wants it gone: it serves reads, and gets no new ensembles.
    draining: bool = False
    #: Free disk bytes, the weight when placing; None or 0: unknown.
    free_bytes: int | None = None

    @property
    def accepts_ensembles(self) -> bool:
        """May a new ensemble name it?"""
        return self.registration is Registration.WRITABLE and not self.draining

    @property
    def readable(self) -> bool:
        """Is it there to be asked?"""
        return self.registration is not Registration.ABSENT


class Topology:
    """An immutable view of all bookies, by id and by location."""

    __slots__ = ("_bookies",)

    def __init__(self, bookies: Iterable[Bookie] = ()) -> None:
        self._bookies: Mapping[BookieId, Bookie] = MappingProxyType({b.id: b for b in bookies})

    def __len__(self) -> int:
        return len(self._bookies)

    def __iter__(self) -> Iterator[Bookie]:
        """All bookies, sorted by id."""
        return iter(sorted(self._bookies.values(), key=lambda bookie: bookie.id))

    def __contains__(self, bookie_id: object) -> bool:
        return bookie_id in self._bookies

    def get(self, bookie_id: BookieId) -> Bookie | None:
        """Give a bookie by its id; None if no cookie names it."""
        return self._bookies.get(bookie_id)

    def location(self, bookie_id: BookieId) -> Location | None:
        """Give a bookie's location; None if it is unresolved or unknown: one path for both."""
        bookie = self._bookies.get(bookie_id)
        return None if bookie is None else bookie.location

    @property
    def zones(self) -> tuple[ZoneName, ...]:
        """The zones that some bookie stands in, sorted."""
        return tuple(sorted({b.location.zone for b in self._bookies.values() if b.location}))

    def updated(self, *, put: Iterable[Bookie] = (), remove: Iterable[BookieId] = ()) -> "Topology":
        """Give the view after a change; what is in both ``remove`` and ``put`` is put."""
        gone = set(remove)
        kept = [bookie for bookie in self._bookies.values() if bookie.id not in gone]
        return Topology([*kept, *put])
