"""The ensemble of a writer, as seats: what each member was sent, and over which lane. Pure.

A seat follows the flight: each batch before ``following`` was put into the seat's lane, or is not
wanted from it. If a lane is lost, ``following`` is moved back, and the batches are sent again. A
newcomer starts at the first entry that is not confirmed. A lane is opened when there is something
to send, or when the application asks for it before. Each opening has a term of its own. An event of
an earlier term finds no seat, and changes nothing.

The methods give back the effects to perform, in order. Whether and when a failed member is replaced
is decided in ``writer_core``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.batches import Batch
from zonekeeper.client.writing.flight import Flight
from zonekeeper.client.writing.lac_telling import LacTelling
from zonekeeper.client.writing.seats import Seat, SeatState
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums
from zonekeeper.wire.formats import errors

#: The members of an ensemble and their zones, by position.
Members = Sequence[tuple[BookieId, ZoneName | None]]


class Seating:
    """All seats of one ledger's writer."""

    def __init__(
        self,
        ledger_id: LedgerId,
        quorums: Quorums,
        flight: Flight,
        *,
        fragment_first: EntryId,
        members: Members,
        deferred: bool,
    ) -> None:
        self.quorums = quorums
        self._flight = flight
        self._deferred = deferred
        self._fragment_first = fragment_first
        self._terms = 0
        #: By position. The list object is never replaced: ``lac`` and ``forcing`` hold it, too.
        self.seats = [self._seat(at, *member) for at, member in enumerate(members)]
        self.lac = LacTelling(ledger_id, quorums, self.seats)

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The present members, by position."""
        return tuple(seat.bookie for seat in self.seats)

    @property
    def zones(self) -> tuple[ZoneName | None, ...]:
        """The zones of the present members, by position; None: unknown."""
        return tuple(seat.zone for seat in self.seats)

    @property
    def failed(self) -> list[Seat]:
        """The seats whose bookies are to be replaced."""
        return [seat for seat in self.seats if seat.failed]

    @property
    def doubted(self) -> list[Seat]:
        """The seats whose bookies do not know the ledger; metadata must say what that means."""
        return [seat for seat in self.seats if seat.doubted]

    @property
    def wanted_from(self) -> EntryId | None:
        """The first entry that some seat must still be sent; None: all seats have failed."""
        return min((seat.following for seat in self.seats if not seat.failed), default=None)

    @property
    def opening(self) -> bool:
        """Is some lane being opened?"""
        return any(seat.state is SeatState.OPENING for seat in self.seats)

    def locate(self, zones: Mapping[BookieId, ZoneName | None]) -> None:
        """Note the zones of members as known now."""
        for seat in self.seats:
            seat.zone = zones.get(seat.bookie, seat.zone)

    def behind(self, first: EntryId) -> list[Seat]:
        """Give the seats that must still be sent the batch that begins at an entry."""
        return [seat for seat in self.seats if not seat.failed and seat.following <= first]

    def others_are_enough(self, batches: Iterable[Batch], without: BookieId | None = None) -> bool:
        """Can each batch be acknowledged without the failed members, and without one more?"""
        others = (seat for seat in self.seats if not seat.failed and seat.bookie != without)
        able = frozenset(seat.position for seat in others)
        answers = {batch.enough(self.quorums, self.zones, able) for batch in batches}
        return not answers & {Enough.NO, Enough.UNKNOWN}

    def can_lose(self, bookie: BookieId) -> bool:
        """Can everything that is under way be acknowledged without a member?"""
        return self.others_are_enough(self._flight.unconfirmed, bookie)

    def of(self, term: ev.Term) -> Seat | None:
        """Give the seat whose lane has a term; None: the lane was given up."""
        for seat in self.seats:
            if seat.term == term and not (seat.failed or seat.doubted):
                return seat
        return None

    def send_all(self) -> list[ev.Effect]:
        """Send each seat what it must still be sent."""
        return [effect for seat in self.seats for effect in self.send(seat)]

    def send(self, seat: Seat) -> list[ev.Effect]:
        """Put into a seat's lane what it must still be sent; open a lane if it has none."""
        if seat.state is SeatState.IDLE and (not self._flight.idle or self.lac.misses(seat)):
            return self.open(seat)
        if seat.state is not SeatState.OPEN:
            return []
        effects: list[ev.Effect] = []
        parts = [
            (batch.first, part)
            for batch in self._flight.since(seat.following)
            if seat.position not in batch.acked
            and (part := batch.part(seat.position, self.quorums)) is not None
        ]
        seat.following = EntryId(self._flight.last + 1)
        if parts:
            effects.append(ev.Send(term=seat.term, frames=tuple(parts)))
        return effects + self.lac.tell(seat)

    def open_all(self) -> list[ev.Effect]:
        """Open a lane for each seat that has none; there need not be anything to send."""
        idle = [seat for seat in self.seats if seat.state is SeatState.IDLE]
        effects = [effect for seat in idle for effect in self.open(seat)]
        for seat in idle:
            seat.ahead = True
        return effects

    def open(self, seat: Seat) -> list[ev.Effect]:
        """Open a lane for a seat, in a term of its own."""
        seat.state = SeatState.OPENING
        seat.term = ev.Term(self._terms)
        seat.proven = False
        seat.ahead = False
        seat.error = None
        seat.forget_lane()
        self._terms += 1
        return [
            ev.OpenLane(
                term=seat.term,
                bookie=seat.bookie,
                first_entry=self._fragment_first,
                ensemble=self.ensemble,
                was_open=seat.was_open,
            )
        ]

    def opened(self, seat: Seat) -> list[ev.Effect]:
        """Note that a lane takes frames: it was opened, or has room again."""
        seat.state = SeatState.OPEN
        seat.was_open = True
        return [*self.send(seat), *self.lac.remind(seat)]

    def blocked(self, seat: Seat, first: EntryId) -> None:
        """Note that a lane had no room for a batch, and so for none of the batches after it."""
        seat.state = SeatState.BLOCKED
        seat.following = min(seat.following, first)

    def reopen(self, seat: Seat) -> list[ev.Effect]:
        """Replace a lost lane by a new one to the same bookie."""
        self._lose_lane(seat, SeatState.IDLE)
        self._rewind(seat)
        return [ev.CloseLane(term=seat.term), *self.send(seat)]

    def retry_failed(self) -> list[ev.Effect]:
        """Open a lane to each bookie that has failed, once more."""
        failed = self.failed
        for seat in failed:
            self._rewind(seat)
        return [effect for seat in failed for effect in self.open(seat)]

    def fail(self, seat: Seat, error: errors.ProtocolError) -> list[ev.Effect]:
        """Note that a bookie is to be replaced."""
        self._lose_lane(seat, SeatState.FAILED)
        seat.error = error
        return [ev.CloseLane(term=seat.term), ev.Suspect(bookie=seat.bookie, error=error)]

    def doubt(self, seat: Seat, error: errors.ProtocolError) -> list[ev.Effect]:
        """Note that a bookie does not know the ledger; the seat is sent all of it later."""
        self._lose_lane(seat, SeatState.DOUBTED)
        self._rewind(seat)
        seat.error = error
        return [ev.CloseLane(term=seat.term)]

    def begin_fragment(self, members: Members) -> Collection[int]:
        """Begin a fragment after the confirmed entries; give the positions that have a newcomer."""
        self._fragment_first = EntryId(self._flight.confirmed + 1)
        replaced = []
        for seat, (bookie, zone) in zip(list(self.seats), members, strict=True):
            if seat.bookie != bookie:
                assert seat.failed, "only failed members are replaced"
                self.seats[seat.position] = self._seat(seat.position, bookie, zone)
                replaced.append(seat.position)
        return replaced

    def close(self) -> list[ev.Effect]:
        """Give up all lanes."""
        without = (SeatState.IDLE, SeatState.DOUBTED, SeatState.FAILED)
        has_lane = (seat for seat in self.seats if seat.state not in without)
        return [ev.CloseLane(term=seat.term) for seat in has_lane]

    def _seat(self, position: int, bookie: BookieId, zone: ZoneName | None) -> Seat:
        """Give a position to a bookie; the bookie is sent all entries that are not confirmed."""
        following = EntryId(self._flight.confirmed + 1)
        return Seat(position=position, bookie=bookie, zone=zone, following=following)

    def _rewind(self, seat: Seat) -> None:
        """Make a seat be sent all entries that are not confirmed, once more."""
        seat.following = EntryId(self._flight.confirmed + 1)

    def _lose_lane(self, seat: Seat, state: SeatState) -> None:
        """Forget what was under way in a lane; with deferred sync, what was not forced, too."""
        seat.state = state
        seat.forget_lane()
        seat.forced_to = self._flight.confirmed
        if self._deferred:
            self._flight.unwrite([seat.position])
