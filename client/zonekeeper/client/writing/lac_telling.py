"""Tell bookies the LAC by itself, in addition to the packets. Pure.

A packet carries the LAC of the moment at which it was sealed. So without more, a reader would never
see the last entries of a writer that has paused. There are two ways to tell the LAC:

* A writer that falls quiet tells its LAC over the lanes that it has, and does not wait for the
  outcome. A lane that takes no items at that moment is told when it takes items again. A lane that
  had no room for the LAC is told when it has room, or at a later tick.
* An application may *want* the LAC known. Then it is told at once, also over lanes that must be
  opened for it. If the other bookies are too few, bookies that had failed are tried, too.

The LAC is known when an ack quorum of its entry's write set has it on disk. A reader that asks for
the LAC hears at least one bookie of that quorum (``survey``).
"""

from collections.abc import Sequence

from zonekeeper.client.base import errors
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.seats import Seat, SeatState
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums


class LacTelling:
    """The LAC that was told last, and the LAC that must become known."""

    def __init__(self, ledger_id: LedgerId, quorums: Quorums, seats: Sequence[Seat]) -> None:
        """``seats`` is the writer's own list; it is read anew each time."""
        self._ledger_id = ledger_id
        self._quorums = quorums
        self._seats = seats
        #: The LAC of the last telling; NO_ENTRY: none was told.
        self._told = NO_ENTRY
        #: The LAC whose outcome is awaited; NO_ENTRY: none.
        self._wanted = NO_ENTRY

    def fell_quiet(self, confirmed: EntryId) -> list[ev.Effect]:
        """Tell the LAC in each lane that takes items and has not carried it yet."""
        self._told = confirmed
        return self.remind_all()

    @property
    def owes(self) -> bool:
        """Is there an open lane that was not told the last LAC, for lack of room?"""
        return any(seat.state is SeatState.OPEN and self._is_news(seat) for seat in self._seats)

    def remind_all(self) -> list[ev.Effect]:
        """Tell the last LAC again in each lane that takes items and has not carried it yet."""
        return [told for seat in self._seats for told in self.remind(seat)]

    def want(self, confirmed: EntryId) -> None:
        """Ask that the LAC be known; ``misses``, ``tell`` and ``outcome`` follow."""
        self._wanted = self._told = confirmed

    def misses(self, seat: Seat) -> bool:
        """Must a seat still be told the wanted LAC?"""
        return self._wanted != NO_ENTRY and not seat.may_know(self._wanted)

    def tell(self, seat: Seat) -> list[ev.Effect]:
        """Tell a seat the wanted LAC, if it misses it."""
        return self._tell(seat, self._wanted) if self.misses(seat) else []

    def remind(self, seat: Seat) -> list[ev.Effect]:
        """Tell a seat the last LAC if it missed it: a reader may follow this bookie."""
        return self._tell(seat, self._told) if self._is_news(seat) else []

    @property
    def hopeless(self) -> bool:
        """Can fewer members than an ack quorum still come to know the wanted LAC?"""
        lac = self._wanted
        if lac == NO_ENTRY:
            return False
        return sum(seat.may_know(lac) for seat in self._members(lac)) < self._quorums.ack

    def outcome(self) -> list[ev.Effect]:
        """Give the outcome of the wanted LAC, once: known by enough members, or hopeless."""
        lac = self._wanted
        if lac == NO_ENTRY:
            return []
        members = self._members(lac)
        if sum(seat.lac_known >= lac for seat in members) >= self._quorums.ack:
            self._wanted = NO_ENTRY
            return [ev.LacKnown(last=lac)]
        return self.give_up() if self.hopeless else []

    def give_up(self) -> list[ev.Effect]:
        """End the wait for the wanted LAC, if there is one: too few members know it in time."""
        lac = self._wanted
        if lac == NO_ENTRY:
            return []
        self._wanted = NO_ENTRY
        members = self._members(lac)
        failed = ", ".join(
            seat.bookie if seat.error is None else errors.describe(seat.bookie, seat.error)
            for seat in members
            if seat.lac_known < lac
        )
        return [
            ev.LacUntold(
                error=errors.LacNotTold(
                    f"ledger {self._ledger_id}: too few bookies were told that it is confirmed up "
                    f"to entry {lac}; not told: {failed}; try again"
                )
            )
        ]

    def _is_news(self, seat: Seat) -> bool:
        return self._told != NO_ENTRY and not seat.may_know(self._told)

    def _members(self, lac: EntryId) -> list[Seat]:
        return [self._seats[at] for at in self._quorums.write_set(lac)]

    def _tell(self, seat: Seat, confirmed: EntryId) -> list[ev.Effect]:
        if seat.state is not SeatState.OPEN:
            return []
        seat.lacs_sent.add(confirmed)
        return [ev.SendLac(term=seat.term, confirmed=confirmed)]
