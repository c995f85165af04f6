"""Forces of a ledger with deferred sync: which bookie is asked, when, and up to which entry. Pure.

A bookie is asked only once it has written all entries that it holds up to ``upto``. So its one
answer stands for all of them. Each bookie has at most one force under way. A bookie that lags is
asked when it has caught up. The writer does not wait for it: a batch is confirmed as soon as an ack
quorum was forced.
"""

from collections.abc import Sequence

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.flight import Flight
from zonekeeper.client.writing.seats import Seat
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId
from zonekeeper.placement.base.quorums import Quorums


class Forcing:
    """The end of the range to be forced, and how long nothing has come of it."""

    def __init__(self, quorums: Quorums, seats: Sequence[Seat], flight: Flight) -> None:
        """``seats`` is the writer's own list; it is read anew each time."""
        self._quorums = quorums
        self._seats = seats
        self._flight = flight
        #: The first look after the last progress; None: there was no look since.
        self._since_ms: int | None = None
        #: Entries up to here are to be forced.
        self.upto = NO_ENTRY

    def __bool__(self) -> bool:
        """Is an entry still to be forced: ``upto > confirmed``?"""
        return self.upto > self._flight.confirmed

    def want(self, upto: EntryId) -> None:
        """Ask that everything up to an entry be forced."""
        self.upto = max(self.upto, upto)

    def asks(self) -> list[ev.Effect]:
        """Ask each bookie that has written all it holds up to ``upto``."""
        asked: list[ev.Effect] = []
        for seat in self._seats:
            if not self or seat.forcing or not seat.takes or seat.forced_to >= self.upto:
                continue
            if self._flight.complete_to(seat.position, self.upto, self._quorums):
                seat.forcing = True
                asked.append(ev.Force(term=seat.term, upto=self.upto))
        return asked

    def heard(self, seat: Seat, upto: EntryId) -> None:
        """Note that a bookie has synced what it had written up to an entry."""
        seat.forcing = False
        seat.forced_to = upto
        self._flight.forced(seat.position, upto)

    def progressed(self) -> None:
        """Note that entries were confirmed: the wait is measured anew."""
        self._since_ms = None

    def wait_longer(self, more_ms: int) -> None:
        """Take ``more_ms`` off the wait."""
        if self._since_ms is not None:
            self._since_ms += more_ms

    def waits_ms(self, now_ms: int) -> int:
        """Give the time since the last progress; 0 if nothing is to be forced."""
        if not self:
            return 0
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms
