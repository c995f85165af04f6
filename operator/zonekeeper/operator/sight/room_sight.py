"""What the operator has seen of the rooms of bookies, from one turn to the next. Pure.

A bookie publishes its room about once a minute. A turn that reads all rooms costs one read a
bookie, so they are read every ``READ_EVERY_MS`` only, and remembered. A room is remembered together
with the claim that its bookie had: the room of a volume that is gone says nothing of the next one.
What was read before ``KEPT_MS`` is forgotten: an old room is no room.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.placement.base.ids import BookieId

#: The shortest time from one reading of all rooms to the next.
READ_EVERY_MS: Final = 5 * 60_000
#: For so long what was read is used.
KEPT_MS: Final = 2 * READ_EVERY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRoom:
    """The room of a bookie, and the uid of the claim that it had when the room was read."""

    room: PublishedRoom
    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSight:
    """The rooms that were read last."""

    seen: Mapping[BookieId, SeenRoom] = field(default_factory=dict)
    #: On the operator's monotonic clock; None: none was read.
    read_ms: int | None = None

    def is_due(self, now_ms: int) -> bool:
        """Are the rooms to be read now?"""
        return self.read_ms is None or not 0 <= now_ms - self.read_ms < READ_EVERY_MS

    def still(self, now_ms: int) -> "RoomSight":
        """Give what still counts."""
        if self.read_ms is None or not 0 <= now_ms - self.read_ms < KEPT_MS:
            return RoomSight()
        return self


def of(
    rooms: Mapping[BookieId, PublishedRoom], claims: Mapping[BookieId, str], *, now_ms: int
) -> RoomSight:
    """Give what was read now; ``claims``: the uid of the claim that each bookie has."""
    seen = {
        bookie: SeenRoom(room=room, claim=claims[bookie])
        for bookie, room in sorted(rooms.items())
        if bookie in claims
    }
    return RoomSight(seen=seen, read_ms=now_ms)
