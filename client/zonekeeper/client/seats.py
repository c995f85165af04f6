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
from dataclasses import dataclass
from typing import Final

from zonekeeper.client.writer_events import Term
from zonekeeper.placement.ids import BookieId, EntryId, ZoneName
from zonekeeper.wire import errors

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
    error: errors.ProtocolError | None = None

    @property
    def failed(self) -> bool:
        """Is its bookie to be replaced?"""
        return self.state is SeatState.FAILED
