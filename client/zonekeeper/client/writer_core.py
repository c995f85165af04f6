"""The writer of a ledger, as a machine: events in, effects out, and nothing else.

An entry is acknowledged when an ack quorum *of the ensemble that metadata shows for it* has it on
disk, and everything before it is acknowledged. Four rules keep that true when bookies fail:

* an ack counts by its term: one of a lane that was given up, of a bookie that was replaced, or of
  an earlier membership of the same bookie is not heard;
* from the moment at which the start of a new fragment is computed (LAC + 1) until it is known what
  metadata shows, nothing is confirmed. So no entry is confirmed on an ensemble that it is no longer
  shown on;
* after a change *all* replaced positions are un-acked in *all* batches, and only then is anything
  confirmed; what they had goes to the newcomers;
* a failure is acted upon at once while something waits for an ack quorum, and otherwise with the
  next batch: a writer that has nothing to say does not touch metadata.

A member that lags is not waited for. Its part waits here, within the writer's budget; when half of
that is full of what only laggards still want, they have failed. Where no newcomer can be had, the
writer goes on without as long as every batch can still reach its ack quorum, tries the failed
bookies again and asks for others from time to time; else it stops, and the ledger ends at its LAC.

The machine changes in place, because a copy of all that is under way for each ack would cost more
than the ack. Recovery writes through it too, with ``recovery``: its frames say so and carry the LAC
that it started from.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from zonekeeper.client import errors
from zonekeeper.client import writer_events as ev
from zonekeeper.client.batches import ENTRY_OVERHEAD_BYTES, Batch
from zonekeeper.client.seats import LANE_LOST, Seat, SeatState
from zonekeeper.placement.ids import NO_ENTRY, BookieId, EntryId, ZoneName
from zonekeeper.placement.quorums import Enough, Quorums
from zonekeeper.wire import coalescing, entries, frames
from zonekeeper.wire import errors as wire_errors

#: Changes in a row without an entry confirmed: what is wrong is not the bookies.
CHANGES_WITHOUT_PROGRESS_MAX: Final = 16
#: How long a writer that found no newcomers waits before it looks again.
DEGRADED_RETRY_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a writer allows itself."""

    budget_bytes: int = 64 << 20
    #: From taking a batch to its acknowledgement.
    add_timeout_ms: int = 60_000
    #: Batches without an acknowledgement; more wait to be taken, and grow meanwhile.
    in_flight_max: int = coalescing.IN_FLIGHT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a writer begins: behind the entries that are there, in the last fragment."""

    fragment_first: EntryId
    ensemble: tuple[BookieId, ...]
    zones: tuple[ZoneName | None, ...]
    confirmed: EntryId = NO_ENTRY
    length: int = 0
    recovery: bool = False


class WriterCore:
    """One ledger's writer."""

    def __init__(
        self, sealer: entries.Sealer, quorums: Quorums, start: Start, limits: Limits
    ) -> None:
        assert len(start.ensemble) == len(start.zones) == quorums.ensemble
        self._sealer = sealer
        self._quorums = quorums
        self._limits = limits
        self._flags = frames.Flags.RECOVERY if start.recovery else frames.Flags.PLAIN
        #: The LAC that recovery started from, which all its packets carry.
        self._pinned_lac = start.confirmed if start.recovery else None
        self._fragment_first = start.fragment_first
        self._terms = 0
        self._seats = [
            Seat(position=at, bookie=bookie, zone=zone, following=EntryId(start.confirmed + 1))
            for at, (bookie, zone) in enumerate(zip(start.ensemble, start.zones, strict=True))
        ]
        #: Not confirmed, in order.
        self._waiting: deque[Batch] = deque()
        #: Confirmed, and kept for members that could not be sent them yet.
        self._kept: deque[Batch] = deque()
        self._kept_bytes = 0
        self.confirmed = start.confirmed
        #: The ledger's length up to ``confirmed``.
        self.confirmed_length = start.length
        self._last = start.confirmed
        self._length = start.length
        self._told_lac = NO_ENTRY
        self._changing = False
        self._changes = 0
        #: Some members failed, and no newcomers were to be had.
        self._degraded = False
        #: When to look for them again; None: not decided yet.
        self._retry_ms: int | None = None
        self.stopped: Exception | None = None
        self._effects: list[ev.Effect] = []

    @property
    def room(self) -> bool:
        """May another batch be taken?"""
        return len(self._waiting) < self._limits.in_flight_max and self.stopped is None

    @property
    def idle(self) -> bool:
        """Is everything that was taken confirmed, and no change of metadata under way?"""
        return not self._waiting and not self._changing

    @property
    def waits(self) -> bool:
        """Is there anything that time decides?"""
        return self.stopped is None and (bool(self._waiting) or self._degraded)

    @property
    def changing(self) -> bool:
        """Is a change of metadata under way?"""
        return self._changing

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The present members."""
        return tuple(seat.bookie for seat in self._seats)

    @property
    def degraded(self) -> tuple[BookieId, ...]:
        """The members that failed and have no successor."""
        return tuple(seat.bookie for seat in self._seats if seat.failed)

    def handle(self, event: ev.Event) -> list[ev.Effect]:
        """Take an event in, and give what is to be done, in order."""
        assert not self._effects, "effects are given out before the next event"
        if self.stopped is None:
            self._dispatch(event)
        elif isinstance(event, ev.LaneOpened):
            self._do(ev.CloseLane(term=event.term))
        elif isinstance(
            event, ev.Changed | ev.ChangeImpossible | ev.ChangeUnknown | ev.Dispossessed
        ):
            self._changing = False
        effects, self._effects = self._effects, []
        return effects

    def _dispatch(self, event: ev.Event) -> None:
        match event:
            case ev.Taken():
                self._take(event.payloads, event.now_ms)
            case ev.Located():
                for seat in self._seats:
                    seat.zone = event.zones.get(seat.bookie, seat.zone)
                self._advance()
            case ev.Ticked():
                self._tick(event.now_ms)
            case ev.FellQuiet():
                self._tell_lac()
            case ev.Changed() | ev.ChangeImpossible() | ev.ChangeUnknown() | ev.Dispossessed():
                self._hear_of_change(event)
            case _:
                self._hear_of_lane(event)

    def _hear_of_lane(self, event: ev.LaneEvent) -> None:
        seat = self._seat(event.term)
        if seat is None:
            if isinstance(event, ev.LaneOpened):
                self._do(ev.CloseLane(term=event.term))
            return
        match event:
            case ev.LaneOpened():
                seat.state = SeatState.OPEN
                self._send(seat)
                self._trim()
            case ev.LaneRefused():
                self._failure(seat, event.error)
            case ev.Blocked():
                self._blocked(seat, event)
            case ev.RoomAgain():
                if seat.state is SeatState.BLOCKED:
                    seat.state = SeatState.OPEN
                    self._send(seat)
                    self._trim()
            case ev.Acked():
                self._acked(seat, event.first)
            case ev.Failed():
                self._part_failed(seat, event)
            case _:
                assert_never(event)

    def _hear_of_change(self, event: ev.ChangeEvent) -> None:
        assert self._changing
        match event:
            case ev.Changed():
                self._changed(event)
            case ev.ChangeImpossible():
                self._change_impossible(event.error)
            case ev.ChangeUnknown():
                self._begin_change()
            case ev.Dispossessed():
                self._changing = False
                self._stop(event.error, close=False)
            case _:
                assert_never(event)

    # ── batches ──

    def _take(self, payloads: Sequence[bytes], now_ms: int) -> None:
        assert self.room
        confirmed = self.confirmed if self._pinned_lac is None else self._pinned_lac
        frame = frames.seal(
            self._sealer,
            EntryId(self._last + 1),
            confirmed,
            self._length,
            payloads,
            self._flags,
        )
        payload_bytes = sum(map(len, payloads))
        self._last = frame.last
        self._length += payload_bytes
        self._waiting.append(
            Batch(
                frame=frame,
                length=self._length,
                size_bytes=payload_bytes + ENTRY_OVERHEAD_BYTES * len(payloads),
                since_ms=now_ms,
            )
        )
        for seat in self._seats:
            self._send(seat)
        self._trim()
        self._consider_change()

    def _acked(self, seat: Seat, first: EntryId | None) -> None:
        seat.proven = True
        batch = next((b for b in self._waiting if b.first == first), None)
        if batch is not None:
            batch.acked.add(seat.position)
            self._advance()

    def _advance(self) -> None:
        """Confirm what can be, in order."""
        if self._changing or self.stopped is not None:
            return
        zones = self._zones()
        before = self.confirmed
        while (
            self._waiting
            and self._waiting[0].enough(self._quorums, zones, frozenset()) is Enough.YES
        ):
            batch = self._waiting.popleft()
            assert batch.first == self.confirmed + 1
            self.confirmed = batch.last
            self.confirmed_length = batch.length
            self._kept.append(batch)
            self._kept_bytes += batch.size_bytes
        if self.confirmed != before:
            self._changes = 0
            self._do(ev.Confirmed(last=self.confirmed))
            self._trim()

    def _trim(self) -> None:
        """Let go of what is confirmed and nobody still has to be sent."""
        wanted = min((s.following for s in self._seats if not s.failed), default=None)
        released = 0
        while self._kept and (wanted is None or self._kept[0].last < wanted):
            released += self._kept.popleft().size_bytes
        if released:
            self._kept_bytes -= released
            self._do(ev.Released(size_bytes=released))
        if 2 * self._kept_bytes > self._limits.budget_bytes:
            head = self._kept[0]
            for seat in self._seats:
                if not seat.failed and seat.following <= head.last:
                    self._fail(
                        seat,
                        wire_errors.TooManyRequests(
                            f"{self._kept_bytes} confirmed bytes wait for this bookie"
                        ),
                    )
            self._trim()
            self._consider_change()

    # ── lanes ──

    def _seat(self, term: ev.Term) -> Seat | None:
        return next((seat for seat in self._seats if seat.term == term and not seat.failed), None)

    def _send(self, seat: Seat) -> None:
        """Put into a seat's lane what it still has to get; open one if there is none."""
        if seat.state not in (SeatState.IDLE, SeatState.OPEN):
            return
        if seat.state is SeatState.IDLE:
            if self._waiting:
                self._open(seat)
            return
        parts: list[tuple[EntryId, frames.Frame]] = []
        for batch in self._unsent(seat):
            part = batch.part(seat.position, self._quorums)
            assert part is not None, "a part of nothing is not sent"
            parts.append((batch.first, part))
        if self._last >= seat.following:
            seat.following = EntryId(self._last + 1)
        if parts:
            self._do(ev.Send(term=seat.term, frames=tuple(parts)))

    def _unsent(self, seat: Seat) -> Iterator[Batch]:
        for batches in (self._kept, self._waiting):
            for batch in batches:
                if (
                    batch.first >= seat.following
                    and seat.position not in batch.acked
                    and batch.concerns(seat.position, self._quorums)
                ):
                    yield batch

    def _open(self, seat: Seat) -> None:
        seat.state = SeatState.OPENING
        seat.term = ev.Term(self._terms)
        seat.proven = False
        self._terms += 1
        self._do(
            ev.OpenLane(
                term=seat.term,
                bookie=seat.bookie,
                first_entry=self._fragment_first,
                ensemble=self.ensemble,
            )
        )

    def _blocked(self, seat: Seat, event: ev.Blocked) -> None:
        if isinstance(event.error, wire_errors.TooManyRequests):
            seat.state = SeatState.BLOCKED
            seat.following = min(seat.following, event.first)
        else:
            self._failure(seat, event.error)

    def _part_failed(self, seat: Seat, event: ev.Failed) -> None:
        if event.first is None and isinstance(event.error, wire_errors.TooManyRequests):
            return  # the LAC goes with the next frame, or at the next silence
        self._failure(seat, event.error)

    def _failure(self, seat: Seat, error: wire_errors.ProtocolError) -> None:
        """Act on what a bookie, or the way to it, has done."""
        named = f"{seat.bookie} at {self._where()}"
        match error:
            case wire_errors.Fenced():
                message = f"{named}: {error}; another client recovers the ledger: stop writing"
                self._stop(errors.Fenced(message), close=False, cause=error)
            case wire_errors.UnauthorizedAccess():
                message = f"{named}: {error}; check the ledger's password and the client's rights"
                self._stop(errors.KeyRefused(message), close=True, cause=error)
            case wire_errors.EntryMismatch():
                message = f"{named}: {error}; two writers were at work: recover the ledger"
                self._stop(errors.Misfit(message), close=False, cause=error)
            case _ if isinstance(error, LANE_LOST) and seat.proven:
                self._do(ev.CloseLane(term=seat.term))
                seat.state = SeatState.IDLE
                seat.following = EntryId(self.confirmed + 1)
                self._send(seat)
                self._trim()
            case _:
                self._fail(seat, error)
                self._trim()
                self._consider_change()

    def _fail(self, seat: Seat, error: wire_errors.ProtocolError) -> None:
        seat.state = SeatState.FAILED
        seat.error = error
        self._degraded = False
        self._do(ev.CloseLane(term=seat.term))
        self._do(ev.Suspect(bookie=seat.bookie, error=error))

    # ── changes of the ensemble ──

    def _consider_change(self) -> None:
        """Replace failed bookies if something waits for them, and no change is under way."""
        if self._changing or self._degraded or self.stopped is not None:
            return
        if self._waiting and any(seat.failed for seat in self._seats):
            self._begin_change()

    def _begin_change(self) -> None:
        self._changing = True
        self._do(
            ev.ChangeEnsemble(
                first_entry=EntryId(self.confirmed + 1),
                failed=tuple((s.position, s.bookie) for s in self._seats if s.failed),
            )
        )

    def _changed(self, event: ev.Changed) -> None:
        self._changes += 1
        self._fragment_first = EntryId(self.confirmed + 1)
        replaced = []
        for seat, bookie, zone in zip(self._seats, event.ensemble, event.zones, strict=True):
            if seat.bookie != bookie:
                if not seat.failed:
                    self._do(ev.CloseLane(term=seat.term))
                replaced.append(seat.position)
                self._seats[seat.position] = Seat(
                    position=seat.position,
                    bookie=bookie,
                    zone=zone,
                    following=EntryId(self.confirmed + 1),
                )
        for batch in self._waiting:
            batch.acked.difference_update(replaced)
        self._trim()
        self._changing = False
        if self._changes > CHANGES_WITHOUT_PROGRESS_MAX:
            message = (
                f"{self._where()}: {self._changes} ensembles in a row acknowledged nothing; "
                f"the last one was {', '.join(self.ensemble)}: look at these bookies"
            )
            self._stop(errors.LostQuorum(message), close=True)
            return
        for seat in self._seats:
            self._send(seat)
        self._consider_change()
        self._advance()

    def _change_impossible(self, error: Exception) -> None:
        """Go on without newcomers, if every batch can still be acknowledged."""
        self._changing = False
        able = frozenset(seat.position for seat in self._seats if not seat.failed)
        zones = self._zones()
        hopeless = any(
            batch.enough(self._quorums, zones, able) in (Enough.NO, Enough.UNKNOWN)
            for batch in self._waiting
        )
        if hopeless:
            failed = ", ".join(
                errors.describe(seat.bookie, seat.error)
                for seat in self._seats
                if seat.error is not None
            )
            message = f"{self._where()}: {failed}; and no others can be had: {error}"
            self._stop(errors.LostQuorum(message), close=True, cause=error)
            return
        self._degraded = True
        self._retry_ms = None
        self._advance()

    def _tick(self, now_ms: int) -> None:
        if self._waiting and now_ms - self._waiting[0].since_ms >= self._limits.add_timeout_ms:
            head = self._waiting[0]
            silent = ", ".join(
                seat.bookie for seat in self._seats if seat.position not in head.acked
            )
            message = (
                f"{self._where()}: no ack quorum in {self._limits.add_timeout_ms} ms; "
                f"no answer from {silent}"
            )
            self._stop(errors.AddTimedOut(message), close=True)
        elif self._degraded:
            self._retry(now_ms)

    def _retry(self, now_ms: int) -> None:
        """Try the failed bookies again; where that fails again, newcomers are asked for."""
        if self._retry_ms is None:
            self._retry_ms = now_ms + DEGRADED_RETRY_MS
        elif now_ms >= self._retry_ms:
            self._degraded = False
            for seat in self._seats:
                if seat.failed:
                    seat.error = None
                    seat.following = EntryId(self.confirmed + 1)
                    self._open(seat)

    # ── the rest ──

    def _tell_lac(self) -> None:
        if self.confirmed > self._told_lac and not self._waiting:
            self._told_lac = self.confirmed
            for seat in self._seats:
                if seat.state is SeatState.OPEN:
                    self._do(ev.SendLac(term=seat.term, confirmed=self.confirmed))

    def _stop(self, error: Exception, *, close: bool, cause: Exception | None = None) -> None:
        """End for good: nothing is confirmed any more."""
        error.__cause__ = cause
        self.stopped = error
        for seat in self._seats:
            if seat.state is not SeatState.IDLE and not seat.failed:
                self._do(ev.CloseLane(term=seat.term))
        released = self._kept_bytes + sum(batch.size_bytes for batch in self._waiting)
        self._waiting.clear()
        self._kept.clear()
        self._do(ev.Released(size_bytes=released))
        self._do(ev.Stop(error=error, close=close))

    def _zones(self) -> tuple[ZoneName | None, ...]:
        return tuple(seat.zone for seat in self._seats)

    def _where(self) -> str:
        return f"ledger {self._sealer.ledger_id}, entry {self.confirmed + 1}"

    def _do(self, effect: ev.Effect) -> None:
        self._effects.append(effect)
