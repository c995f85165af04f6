"""Forcing the bookies of a ledger with deferred sync: whom, when, up to where. Pure.

A bookie is asked once it has written all that it holds up to where the force goes, so that its one
answer stands for all of that; one at a time for each bookie. A laggard is asked when it has caught
up, and nobody waits for it: each batch needs its ack quorum of forced members, as ever.
"""

from collections.abc import Sequence

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.flight import Flight
from zonekeeper.client.writing.seats import Seat
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId
from zonekeeper.placement.base.quorums import Quorums


class Forcing:
    """How far is to be forced."""

    def __init__(self, quorums: Quorums, seats: Sequence[Seat], flight: Flight) -> None:
        """``seats`` is the writer's own list, looked at as it is then."""
        self._quorums = quorums
        self._seats = seats
        self._flight = flight
        self._since_ms: int | None = None
        self.upto = NO_ENTRY

    def __bool__(self) -> bool:
        """Is there still something to be forced?"""
        return self.upto > self._flight.confirmed

    def want(self, upto: EntryId) -> None:
        """Have everything up to an entry forced."""
        self.upto = max(self.upto, upto)

    def asks(self) -> list[ev.Effect]:
        """Ask those who have written all of it."""
        asked: list[ev.Effect] = []
        for seat in self._seats:
            if not self or seat.forcing or not seat.takes or seat.forced_to >= self.upto:
                continue
            if self._flight.complete_to(seat.position, self.upto, self._quorums):
                seat.forcing = True
                asked.append(ev.Force(term=seat.term, upto=self.upto))
        return asked

    def heard(self, seat: Seat, upto: EntryId) -> None:
        """Note that a bookie has on its disk what it had written up to an entry."""
        seat.forcing = False
        seat.forced_to = upto
        self._flight.forced(seat.position, upto)

    def progressed(self) -> None:
        """Note that something was confirmed: the time runs anew."""
        self._since_ms = None

    def wait_longer(self, more_ms: int) -> None:
        """Let nothing have been waited for so long."""
        if self._since_ms is not None:
            self._since_ms += more_ms

    def waits_ms(self, now_ms: int) -> int:
        """Say how long nothing has come of it."""
        if not self:
            return 0
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms
