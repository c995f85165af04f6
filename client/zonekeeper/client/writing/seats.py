"""A seat: one position of the ensemble, the bookie at that position, and its lane, if any.

::

    IDLE --open--> OPENING --opened--> OPEN <--room-- BLOCKED
     ^                |                 | --no room-->   |
     |                v                 v                v
     +--lost, once-- FAILED <-----------+----------------+
                      ^
    OPENING --LedgerDeleted--> DOUBTED

A lane may be lost because its connection broke, although the bookie is well. If the bookie had
acknowledged something in the lane, the lane is opened again on the same bookie. Otherwise the
bookie has failed. So a bookie that accepts openings and never acknowledges anything is replaced.

A bookie that says ``LedgerDeleted`` is doubted until metadata was read: the ledger may have been
deleted, or the bookie has lost it. Meanwhile the seat has no lane, and takes nothing.
"""

import enum
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.client.writing.writer_events import Term
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, ZoneName
from zonekeeper.wire.formats import errors

#: Errors that end a lane and prove nothing about its bookie.
LANE_LOST = (errors.ConnectionLost, errors.NotOpened, errors.NotConnected)

#: The term of a seat that has never had a lane.
NO_LANE: Final = Term(-1)


class SeatState(enum.Enum):
    """The state of a seat's lane."""

    IDLE = "has no lane"
    OPENING = "its lane is being opened"
    OPEN = "takes frames"
    BLOCKED = "has no room"
    DOUBTED = "its bookie does not know the ledger"
    FAILED = "its bookie is to be replaced"


@dataclass(slots=True, kw_only=True)
class Seat:
    """One position of the ensemble."""

    position: int
    bookie: BookieId
    zone: ZoneName | None
    #: Each batch before this entry was put into the lane, or is not wanted from the bookie.
    following: EntryId
    state: SeatState = SeatState.IDLE
    term: Term = NO_LANE
    #: Was a lane to the bookie ever open?
    was_open: bool = False
    #: Was anything acknowledged in the present lane?
    proven: bool = False
    #: Was the present lane opened before there was anything to send?
    ahead: bool = False
    #: Deferred sync: is a force of the bookie under way?
    forcing: bool = False
    #: Deferred sync: the bookie has all its entries up to here on disk.
    forced_to: EntryId = NO_ENTRY
    #: The LACs that were put into the lane and have no outcome yet.
    lacs_sent: set[EntryId] = field(default_factory=set)
    #: The highest LAC that the bookie is known to have on disk.
    lac_known: EntryId = NO_ENTRY
    #: Why the bookie failed, if it did.
    error: errors.ProtocolError | None = None

    @property
    def failed(self) -> bool:
        """Is the bookie to be replaced?"""
        return self.state is SeatState.FAILED

    @property
    def doubted(self) -> bool:
        """Is it unknown whether the bookie has lost the ledger, or the ledger was deleted?"""
        return self.state is SeatState.DOUBTED

    @property
    def takes(self) -> bool:
        """Is the lane open, with or without room?"""
        return self.state in (SeatState.OPEN, SeatState.BLOCKED)

    @property
    def may_reopen(self) -> bool:
        """Does the loss of the present lane say nothing against the bookie?

        A lane that was opened ahead may be lost long before it is used, and nothing shows it
        earlier. One that is opened for something to send is proven, or its bookie is replaced. So a
        bookie that loses each lane is not tried for ever.
        """
        return self.proven or (self.ahead and self.takes)

    def forget_lane(self) -> None:
        """Forget what was under way in the lane; what the bookie has on disk stays noted."""
        self.forcing = False
        self.lacs_sent.clear()

    def heard_lac(self, lac: EntryId) -> None:
        """Note that the bookie has acknowledged a LAC."""
        self.lacs_sent.discard(lac)
        self.lac_known = max(self.lac_known, lac)

    def may_know(self, lac: EntryId) -> bool:
        """Does the bookie know a LAC, or may it still come to know it in this lane?"""
        if max(self.lac_known, *self.lacs_sent, NO_ENTRY) >= lac:
            return True
        return self.state in (SeatState.OPENING, SeatState.BLOCKED, SeatState.DOUBTED)
