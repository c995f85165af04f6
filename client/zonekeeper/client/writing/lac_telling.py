"""Telling bookies how far a ledger is confirmed, apart from what its packets say. Pure.

Packets carry the LAC of when they were sealed, so without more a reader would never see the last
entries of a writer that has paused. A writer that falls quiet tells its LAC over the lanes that it
has, and waits for nobody; a lane that takes nothing then is told when it does, and one that had no
room for it when there is some, or from time to time. An application that *wants* it known has it
told at once, also over lanes that have to be opened for it, and, where the others are too few, on
bookies that had failed. It is known when an ack quorum of the entry's write set has it on disk,
because whoever asks for the LAC hears at least one of those (``survey``).
"""

from collections.abc import Sequence

from zonekeeper.client.base import errors
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.seats import Seat, SeatState
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums


class LacTelling:
    """What was told, and what is to be known."""

    def __init__(self, ledger_id: LedgerId, quorums: Quorums, seats: Sequence[Seat]) -> None:
        """``seats`` is the writer's own list, looked at as it is then."""
        self._ledger_id = ledger_id
        self._quorums = quorums
        self._seats = seats
        self._told = NO_ENTRY
        #: None wanted: NO_ENTRY.
        self._wanted = NO_ENTRY

    def fell_quiet(self, confirmed: EntryId) -> list[ev.Effect]:
        """Tell it to whoever can be told now, if that is news there."""
        self._told = confirmed
        return self.remind_all()

    @property
    def owes(self) -> bool:
        """Is there a lane that had no room for what was told, and has not been told since?"""
        return any(seat.state is SeatState.OPEN and self._is_news(seat) for seat in self._seats)

    def remind_all(self) -> list[ev.Effect]:
        """Tell what was told to whoever can be told now and has not heard it."""
        return [told for seat in self._seats for told in self.remind(seat)]

    def want(self, confirmed: EntryId) -> None:
        """Have it known; ``missing`` and ``outcome`` go on from here."""
        self._wanted = self._told = confirmed

    def misses(self, seat: Seat) -> bool:
        """Is a seat still to be told what is to be known?"""
        return self._wanted != NO_ENTRY and not seat.may_know(self._wanted)

    def tell(self, seat: Seat) -> list[ev.Effect]:
        """Tell a seat what is to be known, if it misses that."""
        return self._tell(seat, self._wanted) if self.misses(seat) else []

    def remind(self, seat: Seat) -> list[ev.Effect]:
        """Tell a seat that takes items now what was told while it took none: it may be followed."""
        return self._tell(seat, self._told) if self._is_news(seat) else []

    @property
    def hopeless(self) -> bool:
        """Can too few come to know what is to be known?"""
        lac = self._wanted
        if lac == NO_ENTRY:
            return False
        return sum(seat.may_know(lac) for seat in self._members(lac)) < self._quorums.ack

    def outcome(self) -> list[ev.Effect]:
        """Say it, once, when enough know what is to be known, or cannot come to know it."""
        lac = self._wanted
        if lac == NO_ENTRY:
            return []
        members = self._members(lac)
        if sum(seat.lac_known >= lac for seat in members) >= self._quorums.ack:
            self._wanted = NO_ENTRY
            return [ev.LacKnown(last=lac)]
        if not self.hopeless:
            return []
        self._wanted = NO_ENTRY
        failed = ", ".join(
            seat.bookie if seat.error is None else errors.describe(seat.bookie, seat.error)
            for seat in members
            if not seat.may_know(lac)
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
