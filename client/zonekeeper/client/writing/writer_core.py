"""The writer of a ledger as a state machine: events in, effects out, and nothing else.

An entry is acknowledged when all entries before it are, and an ack quorum *of the ensemble that
metadata shows for the entry* has it on disk. Four rules keep that true when bookies fail:

* An ack counts only if its term is the seat's present term. So no ack counts of a lane that was
  given up, of a bookie that was replaced, or of an earlier membership of the same bookie.
* A new fragment begins at LAC + 1. From the moment at which this is computed until it is known what
  metadata shows, nothing is confirmed. So each entry is confirmed by the ensemble that metadata
  shows for it.
* After a change the acks of *all* replaced positions are removed from *all* unconfirmed batches.
  Only then is anything confirmed. The newcomers are sent these batches.
* While a batch is unconfirmed, a failure is handled at once. Otherwise it is handled with the next
  batch: an idle writer does not touch metadata.

The writer does not wait for a member that lags. The batches that only laggards still need are kept
within the writer's byte budget; when they fill half of it, those laggards have failed. If no
newcomer is available, the writer goes on without one as long as every batch can still reach its ack
quorum. It tries the failed bookies again and asks for newcomers from time to time. If a batch can
no longer reach its quorum, the writer stops. Then the ledger ends at its LAC, or it is left to a
recovery where a recovery may keep more.

With ``deferred`` sync, an ack counts only when the bookie was forced after it, in the same lane.
Entries that are lost with a lane are sent again. The LAC covers only forced entries. Batches wait
for a force within the byte budget; when they fill half of it, the writer begins a force by itself.

The machine changes in place, because a copy of all batches for each ack would cost more than the
ack. A recovery writes through this machine, too. Its frames are marked as recovery's, and carry the
LAC that the recovery started from.
"""

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from zonekeeper.client.base import errors
from zonekeeper.client.writing import shortfalls
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.batches import Batch
from zonekeeper.client.writing.doubts import Doubts
from zonekeeper.client.writing.flight import Flight
from zonekeeper.client.writing.forcing import Forcing
from zonekeeper.client.writing.seating import Seating
from zonekeeper.client.writing.seats import LANE_LOST, Seat
from zonekeeper.client.writing.writer_start import WriterLimits, WriterStart
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Enough, Quorums
from zonekeeper.wire.formats import entries, frames
from zonekeeper.wire.formats import errors as wire_errors

#: After so many changes in a row without a confirmed entry, the writer goes on without newcomers,
#: if the other members are enough.
CHANGES_IN_A_ROW_MAX: Final = 8
#: After more changes than this in a row without progress, the writer stops: the cause lies
#: elsewhere than in single bookies.
CHANGES_WITHOUT_PROGRESS_MAX: Final = 16
#: The pause of a degraded writer before it tries the failed bookies again.
DEGRADED_RETRY_MS: Final = 1_000


class WriterCore:
    """One ledger's writer."""

    def __init__(
        self, sealer: entries.Sealer, quorums: Quorums, start: WriterStart, limits: WriterLimits
    ) -> None:
        assert len(start.ensemble) == len(start.zones) == quorums.ensemble
        self._sealer = sealer
        self._quorums = quorums
        self._limits = limits
        assert not (start.recovery and start.deferred), "a recovery makes all of it durable"
        self._deferred = start.deferred
        plain = frames.Flags.DEFERRED_SYNC if start.deferred else frames.Flags.PLAIN
        self._flags = frames.Flags.RECOVERY if start.recovery else plain
        #: The LAC that a recovery started from; all its packets carry it. None: no recovery.
        self._pinned_lac = start.confirmed if start.recovery else None
        self._flight = Flight(start.confirmed, start.length)
        self.seating = Seating(
            sealer.ledger_id,
            quorums,
            self._flight,
            fragment_first=start.fragment_first,
            members=list(zip(start.ensemble, start.zones, strict=True)),
            deferred=start.deferred,
        )
        self._lac = self.seating.lac
        self._doubts = Doubts(self.seating)
        self._forcing = Forcing(quorums, self.seating.seats, self._flight)
        self._changing = False
        #: Why the outcome of the last attempt to change the ensemble is unknown.
        self._unknown: Exception | None = None
        #: Changes of the ensemble since the last progress.
        self._changes = 0
        #: Does the writer go on without successors for failed members?
        self._degraded = False
        #: When to try the failed bookies again; None: not decided yet.
        self._retry_ms: int | None = None
        self._stopped: Exception | None = None
        self._effects: list[ev.Effect] = []

    @property
    def room(self) -> bool:
        """May another batch be taken?"""
        return len(self._flight.waiting) < self._limits.in_flight_max and self._stopped is None

    @property
    def room_for_full(self) -> bool:
        """May another full batch be taken?"""
        waiting = len(self._flight.waiting)
        return waiting < self._limits.full_in_flight_max and self._stopped is None

    @property
    def idle(self) -> bool:
        """Is everything that was taken confirmed?"""
        return self._flight.idle

    @property
    def quiet(self) -> bool:
        """Does everything that was taken have its ack quorum, forced or not?"""
        return not self._flight.waiting

    @property
    def waits(self) -> bool:
        """Does the writer need ``Ticked`` events?"""
        if self._stopped is not None:
            return False
        unsure = bool(self._forcing) or bool(self._doubts) or self._lac.owes
        return not self.quiet or unsure or self._degraded

    @property
    def changing(self) -> bool:
        """Is a change of metadata under way?"""
        return self._changing

    @property
    def confirmed(self) -> EntryId:
        """The LAC: the last entry up to which everything is acknowledged."""
        return self._flight.confirmed

    @property
    def written(self) -> EntryId:
        """The last entry up to which everything had its ack quorum, forced or not."""
        return self._flight.written_to

    @property
    def confirmed_length(self) -> int:
        """The ledger's payload bytes up to ``confirmed``."""
        return self._flight.confirmed_length

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The present members."""
        return self.seating.ensemble

    def handle(self, event: ev.Event) -> list[ev.Effect]:
        """Take an event in, and give the effects to perform, in order."""
        assert not self._effects, "effects are given out before the next event"
        if self._stopped is None:
            self._dispatch(event)
        elif isinstance(event, ev.LaneOpened):
            self._do(ev.CloseLane(term=event.term))
        elif isinstance(event, ev.ChangeEvent):
            self._changing = False
        effects, self._effects = self._effects, []
        return effects

    def _dispatch(self, event: ev.Event) -> None:
        match event:
            case ev.Taken():
                self._take(event.payloads, event.now_ms)
            case ev.Located():
                self.seating.locate(event.zones)
                self._advance()
                self._look_hopeless(self._flight.unconfirmed)
            case ev.Ticked():
                self._tick(event.now_ms)
            case ev.StoodStill():
                self._flight.wait_longer(event.late_ms)
                self._forcing.wait_longer(event.late_ms)
            case ev.FellQuiet():
                if self.quiet:
                    self._effects += self._lac.fell_quiet(self.confirmed)
            case ev.ForceWanted():
                self._forcing.want(event.upto)
                self._effects += self._forcing.asks()
                self._tell_forced()
            case ev.LacWanted():
                self._want_lac()
            case ev.LanesWanted():
                self._effects += self.seating.open_all()
            case ev.Changed() | ev.ChangeImpossible() | ev.ChangeUnknown() | ev.Dispossessed():
                self._hear_of_change(event)
            case ev.LedgerStands() | ev.LedgerGone() | ev.LedgerUnknown():
                self._hear_of_ledger(event)
            case _:
                self._hear_of_lane(event)

    def _hear_of_lane(self, event: ev.LaneEvent) -> None:
        seat = self.seating.of(event.term)
        if seat is None:
            if isinstance(event, ev.LaneOpened):
                self._do(ev.CloseLane(term=event.term))
            return
        match event:
            case ev.LaneOpened():
                self._effects += self.seating.opened(seat)
            case ev.Blocked(error=wire_errors.TooManyRequests()):
                self.seating.blocked(seat, event.first)
            case ev.LaneRefused() | ev.Blocked() | ev.Failed() | ev.ForceFailed():
                self._failure(seat, event.error)
            case ev.RoomAgain():
                if seat.takes:
                    self._effects += self.seating.opened(seat)
            case ev.BatchAcked():
                self._acked(seat, event.first)
            case ev.Forced():
                self._forcing.heard(seat, event.upto)
                self._advance()
            case ev.LacAcked() | ev.LacFailed():
                self._hear_of_lac(seat, event)
            case _:
                assert_never(event)
        self._trim()

    def _hear_of_change(self, event: ev.ChangeEvent) -> None:
        assert self._changing
        match event:
            case ev.Changed():
                self._changed(event)
            case ev.ChangeImpossible():
                self._change_impossible(event.error)
            case ev.ChangeUnknown():
                self._begin_change()
                self._unknown = event.error
            case ev.Dispossessed():
                self._changing = False
                self._stop(event.error, close=False)
            case _:
                assert_never(event)

    def _hear_of_ledger(self, event: ev.StandingEvent) -> None:
        """Act on what metadata says of a ledger that a bookie does not know any more."""
        self._doubts.heard(event)
        match event:
            case ev.LedgerGone():
                self._stop(event.error, close=False)
            case ev.LedgerUnknown():
                self._effects += self._lac.give_up()
            case ev.LedgerStands():
                for seat, error in self._doubts.lost():
                    self._fail(seat, error)
                self._trim()
                self._consider_change()
            case _:
                assert_never(event)

    # ── batches ──

    def _take(self, payloads: Sequence[bytes], now_ms: int) -> None:
        assert self.room_for_full
        lac = self.confirmed if self._pinned_lac is None else self._pinned_lac
        self._flight.take(self._sealer, payloads, lac, self._flags, now_ms)
        self._effects += self.seating.send_all()
        self._consider_change()
        self._look_hopeless([self._flight.waiting[-1]])

    def _advance(self) -> None:
        """Confirm all batches that can be confirmed, in order."""
        if self._changing or self._stopped is not None:
            return
        zones = self.seating.zones

        def is_written(batch: Batch) -> bool:
            return batch.is_written(self._quorums, zones)

        def is_enough(batch: Batch) -> bool:
            return batch.enough(self._quorums, zones, frozenset()) is Enough.YES

        if self._deferred and self._flight.write(is_written):
            self._changes = 0
            self._do(ev.EntriesWritten(last=self.written))
            if 2 * self._flight.written_bytes > self._limits.budget_bytes:
                self._forcing.want(self.written)
        if self._flight.confirm(is_enough):
            self._changes = 0
            self._forcing.progressed()
            self._do(ev.Confirmed(last=self.confirmed))
            self._trim()
            self._tell_forced()
        self._effects += self._forcing.asks()

    def _tell_forced(self) -> None:
        """Tell the LAC when all forces are done: perhaps no later packet will ever carry it."""
        if self._deferred and self.quiet and not self._forcing:
            self._effects += self._lac.fell_quiet(self.confirmed)

    def _acked(self, seat: Seat, first: EntryId) -> None:
        seat.proven = True
        if self._flight.ack(first, seat.position, deferred=self._deferred):
            self._advance()

    def _want_lac(self) -> None:
        """Ask that the LAC be known; if too few members are left, retry the failed bookies."""
        self._lac.want(self.confirmed)
        self._effects += self.seating.send_all()
        if self._lac.hopeless and not self._changing:
            self._retry_failed()
        self._effects += self._lac.outcome()

    def _hear_of_lac(self, seat: Seat, event: ev.LacAcked | ev.LacFailed) -> None:
        """Note the outcome of one LAC; several may be under way in a lane."""
        match event:
            case ev.LacAcked():
                seat.proven = True
                seat.heard_lac(event.lac)
                self._effects += self._lac.outcome()
            case ev.LacFailed():
                seat.lacs_sent.discard(event.lac)
                if not isinstance(event.error, wire_errors.TooManyRequests):
                    self._failure(seat, event.error)
                else:  # the LAC is told again: when the lane has room, or at a later tick
                    self._effects += self._lac.outcome()
            case _:
                assert_never(event)

    def _trim(self) -> None:
        """Drop the kept batches that every seat was sent; fail laggards that hold too much back."""
        if not self._flight.kept or self._stopped is not None:
            return
        if released := self._flight.let_go(self.seating.wanted_from):
            self._do(ev.Released(size_bytes=released))
        kept_bytes = self._flight.kept_bytes
        if 2 * kept_bytes > self._limits.budget_bytes:
            lags = wire_errors.TooManyRequests(f"it lags: {kept_bytes} confirmed bytes wait for it")
            for seat in self.seating.behind(self._flight.kept[0].first):
                self._fail(seat, lags)
            self._trim()
            self._consider_change()

    # ── failures ──

    def _failure(self, seat: Seat, error: wire_errors.ProtocolError) -> None:
        """Act on an error of a bookie or of the connection to it.

        ``EntryMismatch`` does not stop a recovery. The digests of the entries that it writes back
        were checked, so a bookie with other bytes has a bad copy, and is replaced.
        """
        said = f"{self._where()}: {errors.describe(seat.bookie, error)}"
        match error:
            case wire_errors.Fenced():
                message = (
                    f"{said}; another client recovers the ledger, or that bookie has lost its "
                    "disk: write to a new ledger"
                )
                self._stop(errors.Fenced(message), close=False, cause=error)
            case wire_errors.UnauthorizedAccess():
                message = f"{said}; check the ledger's password and this client's rights"
                self._stop(errors.KeyRefused(message), close=True, cause=error)
            case wire_errors.NotPermitted():
                self._stop(errors.RoleRefused(said), close=True, cause=error)
            case wire_errors.EntryMismatch() if self._pinned_lac is None:
                message = f"{said}; two writers were at work: recover the ledger"
                self._stop(errors.Misfit(message), close=False, cause=error)
            case wire_errors.LedgerDeleted():
                self._effects += self._doubts.begin(seat, error)
            case _ if isinstance(error, LANE_LOST) and seat.may_reopen:
                self._effects += self.seating.reopen(seat)
                self._effects += self._lac.outcome()
            case _:
                self._fail(seat, error)
                self._consider_change()

    def _fail(self, seat: Seat, error: wire_errors.ProtocolError) -> None:
        self._degraded = False
        self._effects += self.seating.fail(seat, error)
        self._effects += self._lac.outcome()

    # ── changes of the ensemble ──

    def _consider_change(self) -> None:
        """Replace failed bookies if a batch is unconfirmed and no change is under way."""
        decided = self._changing or self._degraded or self._stopped is not None
        if decided or self.idle or not self.seating.failed:
            return
        often = self._changes >= CHANGES_IN_A_ROW_MAX
        if often and self.seating.others_are_enough(self._flight.unconfirmed):
            self._degrade()  # during a change nothing is confirmed, so more changes only delay
        else:
            self._begin_change()

    def _degrade(self) -> None:
        """Go on without successors for the failed bookies, and retry those from time to time."""
        self._degraded, self._retry_ms = True, None

    def _begin_change(self) -> None:
        self._changing = True
        self._unknown = None
        self._do(
            ev.ChangeEnsemble(
                first_entry=EntryId(self.confirmed + 1),
                failed=tuple((seat.position, seat.bookie) for seat in self.seating.failed),
            )
        )

    def _changed(self, event: ev.Changed) -> None:
        """Seat the newcomers, and remove the acks of the replaced members; only then go on."""
        self._changes += 1
        causes = shortfalls.of_failed(self.seating.failed)
        members = list(zip(event.ensemble, event.zones, strict=True))
        self._flight.unack(self.seating.begin_fragment(members))
        self._changing = False
        if self._changes > CHANGES_WITHOUT_PROGRESS_MAX:
            row = f"{self._where()}: {self._changes} ensembles in a row acknowledged nothing"
            named = f"the last one was {', '.join(self.ensemble)}: look at these bookies"
            lacking = shortfalls.of_quorum(self.seating.seats, self._quorums)
            self._stop(errors.LostQuorum(f"{row}: {causes}; {named}; {lacking}"), close=True)
            return
        self._effects += self.seating.send_all()
        self._trim()
        self._consider_change()
        self._advance()
        self._look_hopeless(self._flight.unconfirmed)

    def _look_hopeless(self, batches: Iterable[Batch]) -> None:
        """Stop if all members together make no ack quorum, and none of them is to be replaced.

        Placement that is not strict gives such an ensemble when whole zones are away.
        """
        seats, zones = self.seating.seats, self.seating.zones
        if self._changing or self._stopped is not None or any(seat.failed for seat in seats):
            return
        everybody = frozenset(range(len(seats)))
        if any(b.enough(self._quorums, zones, everybody) is Enough.NO for b in batches):
            message = (
                f"{self._where()}: no ack quorum is possible: the members are "
                f"{shortfalls.of_zones(seats, self._quorums)}; "
                f"{shortfalls.of_quorum(seats, self._quorums)}; {shortfalls.ELSEWHERE}"
            )
            self._stop(errors.LostQuorum(message), close=True)

    def _change_impossible(self, error: Exception) -> None:
        """Go on without newcomers, if every batch can still be acknowledged."""
        self._changing = False
        if not self.seating.others_are_enough(self._flight.unconfirmed):
            lost = shortfalls.of_loss(self.seating.seats, self._quorums, error)
            self._stop(errors.LostQuorum(f"{self._where()}: {lost}"), close=True, cause=error)
            return
        self._degrade()
        self._advance()

    def _tick(self, now_ms: int) -> None:
        waiting = self._flight.waiting
        if waiting and now_ms - waiting[0].since_ms >= self._limits.add_timeout_ms:
            message = f"{self._where()}: no ack quorum in {self._limits.add_timeout_ms} ms"
            self._stop(errors.AddTimedOut(f"{message}; {self._lacking(waiting[0])}"), close=True)
        elif self._forcing.waits_ms(now_ms) >= self._limits.add_timeout_ms:
            message = f"{self._where()}: not forced by enough of {', '.join(self.ensemble)} in time"
            self._stop(errors.AddTimedOut(message), close=True)
        else:
            self._effects += [*self._lac.remind_all(), *self._doubts.tick(now_ms)]
            if self._degraded:
                self._retry(now_ms)

    def _lacking(self, batch: Batch) -> str:
        """Say what a batch waits for; during a change of the ensemble, the metadata store."""
        if not self._changing:
            lacking = shortfalls.of_batch(batch, self.seating.seats, self._quorums)
            return "; ".join(filter(None, (lacking, self._doubts.words())))
        return shortfalls.of_change(self.seating.failed, self._unknown)

    def _retry(self, now_ms: int) -> None:
        """Try the failed bookies again; a bookie that fails again is to be replaced."""
        if self._retry_ms is None:
            self._retry_ms = now_ms + DEGRADED_RETRY_MS
        elif now_ms >= self._retry_ms:
            self._retry_failed()

    def _retry_failed(self) -> None:
        self._degraded = False
        self._effects += self.seating.retry_failed()

    # ── the rest ──

    def _stop(self, error: Exception, *, close: bool, cause: Exception | None = None) -> None:
        """End for good: nothing is confirmed any more.

        Entries that are written and not forced would be lost by closing at the LAC. A recovery
        keeps those that are still there, so the ledger is then not closed here.
        """
        close = close and self.written == self.confirmed
        error.__cause__ = error.__cause__ or cause
        self._stopped = error
        self._effects += self.seating.close()
        self._do(ev.Released(size_bytes=self._flight.abandon()))
        self._do(ev.Stop(error=error, close=close))

    def _where(self) -> str:
        return f"ledger {self._sealer.ledger_id}, entry {self.confirmed + 1}"

    def _do(self, effect: ev.Effect) -> None:
        self._effects.append(effect)
