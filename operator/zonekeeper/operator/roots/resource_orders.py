"""What a person can order about repair and bookies through the resource, as values. Pure.

An order names the very things that its person saw: the resource by its uid, and what a release ends
by the token of the incident. So an order that comes late, or that a backup brings back, ends
nothing else.
"""

import enum
from dataclasses import dataclass

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.gate import Person, Token


class AskedFor(enum.StrEnum):
    """What is ordered."""

    #: The switch of all automatic replication.
    ENABLE = "enable"
    DISABLE = "disable"
    #: The gate of a zone, or of the cluster.
    HOLD = "hold"
    RELEASE = "release"
    #: A bookie.
    DRAIN = "drain"
    TAKE_BACK = "takeBack"
    #: A zone is taken away for a while, or comes back before its time.
    DRILL = "drill"
    END_DRILL = "endDrill"

    @property
    def is_of_gate(self) -> bool:
        """Is the order about a gate?"""
        return self in (AskedFor.HOLD, AskedFor.RELEASE)

    @property
    def is_of_drill(self) -> bool:
        """Is the order about a drill?"""
        return self in (AskedFor.DRILL, AskedFor.END_DRILL)

    @property
    def is_of_bookie(self) -> bool:
        """Is the order about a bookie?"""
        return self in (AskedFor.DRAIN, AskedFor.TAKE_BACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOrder:
    """One order of a person on a resource."""

    #: Drawn by the person's command: no other order has it.
    token: str
    asked: AskedFor
    #: The uid of the resource that the person saw.
    uid: str
    person: Person
    #: Wall time; after it nothing is begun.
    until_ms: int
    #: Of a gate: its zone; None: the cluster. Of a drill: the zone that goes away.
    zone: ZoneName | None = None
    #: Of a release: the incident that the person saw; None: there was none. Of the end of a drill:
    #: the token of that drill.
    incident: Token | None = None
    #: Of a release: the person's hold that was seen, with its reason; None: no person held.
    held_by: str | None = None
    bookie: BookieId | None = None
    #: Do it although it is not known whether there is room for the copies.
    is_forced: bool = False
    #: Of a drill: for so long the zone is away.
    for_ms: int | None = None
    #: Of a drill: the Secret that its probe shows; None: that of the client ``drill``.
    secret: str | None = None

    @property
    def about(self) -> str:
        """Name the matter of the order."""
        if self.asked.is_of_bookie:
            return f"bookie {self.bookie}"
        if self.asked.is_of_drill:
            return f"zone {self.zone}"
        if self.asked.is_of_gate:
            return "the cluster" if self.zone is None else f"zone {self.zone}"
        return "automatic replication"
