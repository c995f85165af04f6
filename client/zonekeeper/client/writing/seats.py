"""A seat: one position of the ensemble, the bookie that has it, and its lane, if any.

::

    IDLE --open--> OPENING --opened--> OPEN <--room-- BLOCKED
     ^                |                 | --no room-->   |
     |                v                 v                v
     +--lost, once-- FAILED <-----------+----------------+

A lane that is lost is opened again on the same bookie if that bookie acknowledged something in it:
a connection may break without its bookie being any worse. If nothing came of the last lane either,
the bookie has failed. So a bookie that lets itself be opened and never acknowledges is found out.
"""

import enum
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.client.writing.writer_events import Term
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, ZoneName
from zonekeeper.wire.formats import errors

#: What ends a lane, and says nothing of the bookie behind it.
LANE_LOST = (errors.ConnectionLost, errors.NotOpened, errors.NotConnected)

#: The term of a seat that had no lane yet.
NO_LANE: Final = Term(-1)


class SeatState(enum.Enum):
    """What a seat's lane is good for."""

    IDLE = "has no lane"
    OPENING = "its lane is being opened"
    OPEN = "takes frames"
    BLOCKED = "has no room"
    FAILED = "its bookie is to be replaced"


@dataclass(slots=True, kw_only=True)
class Seat:
    """One position of the ensemble."""

    position: int
    bookie: BookieId
    zone: ZoneName | None
    #: What is before this entry was put into its lane, or is not wanted from it.
    following: EntryId
    state: SeatState = SeatState.IDLE
    term: Term = NO_LANE
    #: Something was acknowledged in the present lane.
    proven: bool = False
    #: Deferred sync: it is being forced; and up to here it is known to have all on its disk.
    forcing: bool = False
    forced_to: EntryId = NO_ENTRY
    #: The LACs in its lane; and the one that it is known to have.
    lacs_sent: set[EntryId] = field(default_factory=set)
    lac_known: EntryId = NO_ENTRY
    error: errors.ProtocolError | None = None

    @property
    def failed(self) -> bool:
        """Is its bookie to be replaced?"""
        return self.state is SeatState.FAILED

    @property
    def takes(self) -> bool:
        """Has it a lane that is open, if perhaps full?"""
        return self.state in (SeatState.OPEN, SeatState.BLOCKED)

    def forget_lane(self) -> None:
        """Begin without what was under way in a lane; what the bookie has on disk stays."""
        self.forcing = False
        self.lacs_sent.clear()

    def heard_lac(self, lac: EntryId) -> None:
        """Note that the bookie has a LAC that was in its lane."""
        self.lacs_sent.discard(lac)
        self.lac_known = max(self.lac_known, lac)

    def may_know(self, lac: EntryId) -> bool:
        """Does it know a LAC, or is that under way?"""
        if max(self.lac_known, *self.lacs_sent, NO_ENTRY) >= lac:
            return True
        return self.state in (SeatState.OPENING, SeatState.BLOCKED)
