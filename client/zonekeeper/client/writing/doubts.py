"""Doubts: bookies that do not know the ledger any more, and what metadata says about that. Pure.

A bookie answers ``LedgerDeleted`` if it collected the ledger, or if it lost it. Its word decides
nothing; it is only the occasion to read metadata. Three answers are possible. The ledger is gone:
the writer ends. The ledger stands: the bookie has lost it, and has failed. The store is in doubt:
the seat waits, metadata is read again after a pause, and the other seats go on. While a bookie is
doubted nothing counts that it says.
"""

from typing import Final

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.seating import Seating
from zonekeeper.client.writing.seats import Seat
from zonekeeper.wire.formats import errors

#: The pause before metadata is read again.
LOOK_AGAIN_MS: Final = 1_000


class Doubts:
    """The doubted seats of one writer. At most one look at metadata is under way."""

    def __init__(self, seating: Seating) -> None:
        self._seating = seating
        self._looking = False
        #: When to look again; None: not decided yet.
        self._again_ms: int | None = None
        #: Why the last look gave no answer.
        self._unknown: Exception | None = None

    def __bool__(self) -> bool:
        """Is a bookie doubted?"""
        return bool(self._seating.doubted)

    def begin(self, seat: Seat, error: errors.ProtocolError) -> list[ev.Effect]:
        """Doubt a bookie, and look at metadata."""
        return [*self._seating.doubt(seat, error), *self._look()]

    def heard(self, event: ev.StandingEvent) -> None:
        """Note the outcome of a look; what follows from it for the seats is the core's part."""
        self._looking, self._again_ms = False, None
        self._unknown = event.error if isinstance(event, ev.LedgerUnknown) else None

    def lost(self) -> list[tuple[Seat, errors.ProtocolError]]:
        """Give the doubted seats with what their bookies said: the ledger stands, so they lost it.

        The caller must fail each of them.
        """
        return [(seat, seat.error) for seat in self._seating.doubted if seat.error is not None]

    def tick(self, now_ms: int) -> list[ev.Effect]:
        """Look again if it is time."""
        if not self or self._looking:
            return []
        if self._again_ms is None:
            self._again_ms = now_ms + LOOK_AGAIN_MS
        return self._look() if now_ms >= self._again_ms else []

    def words(self) -> str:
        """Say which bookies are doubted, for a message; nothing if none is."""
        who = ", ".join(seat.bookie for seat in self._seating.doubted)
        if not who:
            return ""
        doubt = "the metadata store does not say whether it was deleted"
        return f"{who} no longer have the ledger, and {doubt}: {self._unknown or 'no answer yet'}"

    def _look(self) -> list[ev.Effect]:
        if self._looking:
            return []
        self._looking = True
        return [ev.LookUpLedger()]
