"""The shell around ``WriterCore``: lanes, timers, byte budget, and calls that wait for an entry.

The shell does not decide what is acknowledged. It feeds the core one event at a time. Events that
arise while effects are performed wait until those effects are done. A batch is taken in the next
turn of the event loop, never by a timer. So all entries appended in one turn leave in one frame.

An entry as such costs no task and no future: a lane's sink hears of batches, and only a call that
awaits an entry costs a future. Cancelling that call does not cancel the entry.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, NoReturn, Protocol, assert_never

from zonekeeper.client.base.errors import ClientClosed, ClosedByOther, LostQuorum
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.base.waiters import Waiters
from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.client.sessions import session_lines
from zonekeeper.client.sessions.identity import Identity
from zonekeeper.client.sessions.opened_lanes import Ear, OpenedLane
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.batches import ENTRY_OVERHEAD_BYTES
from zonekeeper.client.writing.pending_entries import PendingEntries
from zonekeeper.client.writing.writer_core import WriterCore
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId
from zonekeeper.wire.formats import entries, errors
from zonekeeper.wire.link import patience

TICK_MS: Final = 500
#: A ledger that metadata has not shown for this time is looked up before it is opened on a bookie
#: for the first time. Bookies keep tombstones of collected ledgers for much longer: seven days.
UNSEEN_MAX_S: Final = 24 * 3_600


class Steward(Protocol):
    """Changes the ledger's fragments for a writer: in metadata, or for a recovery in memory."""

    async def change(self, wanted: ev.ChangeEnsemble) -> ev.ChangeEvent:
        """Replace members of the last ensemble, and give the outcome."""
        ...

    async def look_up(self) -> ev.StandingEvent:
        """Read whether the ledger is still the one that is written."""
        ...

    async def abandon(self, last_entry: EntryId, length: int) -> None:
        """Close the ledger at its LAC, if that is still allowed, after its writer has stopped."""
        ...


class WriteSession:
    """The writing of one ledger, by its writer or by a recovery."""

    def __init__(
        self,
        identity: Identity,
        core: WriterCore,
        sealer: entries.Sealer,
        steward: Steward,
        bookies: Bookies,
        tasks: Tasks,
    ) -> None:
        self._identity = identity
        self._core = core
        self._sealer = sealer
        self._steward = steward
        self._bookies = bookies
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        #: When the ledger was last seen in metadata: its writer is made when that was read.
        self._seen_s = self._loop.time()
        self._pending = PendingEntries()
        #: Bytes of the budget in use: pending, under way, or kept for laggards.
        self.used_bytes = 0
        self.last_appended = core.confirmed
        #: Entries up to here are in the counter ``entries_confirmed``.
        self._counted = core.confirmed
        self._events: deque[ev.Event] = deque()
        self._busy = False
        self._pump_due = False
        self._tick: asyncio.TimerHandle | None = None
        #: Was the last tick much too late?
        self._was_late = False
        self.lanes: dict[ev.Term, OpenedLane] = {}
        #: Of each bookie that was ever written to: the start (boot epoch) of its first lane.
        self.first_starts: dict[BookieId, int] = {}
        self._for_confirmed, self._for_written = Waiters(self._loop), Waiters(self._loop)
        #: Calls that wait until the LAC is known. The result is why it is not known, or None.
        self._for_lac: list[asyncio.Future[Exception | None]] = []
        self._released = asyncio.Event()
        #: Set after each event.
        self._heard = asyncio.Event()
        #: Does an append wait for bytes to be released? Written entries are then forced.
        self._room_wanted = False
        #: Must the ledger be closed at its LAC, once no change is under way?
        self._abandon = False
        self._ended = False
        #: The process that the session was made in: no other may write.
        self.home = tasks.home
        #: Has a call raised why the session stopped?
        self.told = False
        #: Why nothing more will be confirmed; None: the session goes on.
        self.stopped: Exception | None = None
        self._children: set[asyncio.Task[None]] = set()
        bookies.listen(self._relocate)

    @property
    def core(self) -> WriterCore:
        """The state of the writing, for reading only."""
        return self._core

    @property
    def lacking(self) -> range:
        """The entries that were appended and are not acknowledged; an ended session knows them."""
        return range(self._core.written + 1, self.last_appended + 1)

    @property
    def quiet(self) -> bool:
        """Has everything that was appended its ack quorum?"""
        return not self._pending and self._core.quiet

    def put(self, payload: bytes) -> EntryId:
        """Append; the caller has checked the budget, and that the writer has not stopped."""
        begins = self._pending.put(payload)
        self.used_bytes += len(payload) + ENTRY_OVERHEAD_BYTES
        self.last_appended = EntryId(self.last_appended + 1)
        # An entry that joins a batch needs no pump: its batch already waits for one, or for an ack.
        if begins and not self._pump_due and self._may_take:
            self._pump_due = True
            self._loop.call_soon(self._pump)
        return self.last_appended

    async def confirmed(self, entry_id: EntryId) -> None:
        """Wait until an entry is confirmed; raises the error that stopped the writer before."""
        if self._core.confirmed < entry_id and self.stopped is None:
            await self._for_confirmed.wait(entry_id)
        if self._core.confirmed < entry_id:
            self._raise_stopped()

    async def written(self, entry_id: EntryId) -> None:
        """Wait until an entry has its ack quorum, forced or not; raises like ``confirmed``."""
        if self._core.written < entry_id and self.stopped is None:
            await self._for_written.wait(entry_id)
        if self._core.written < entry_id:
            self._raise_stopped()

    async def forced(self, entry_id: EntryId) -> None:
        """Force everything up to an entry, and wait for it; raises like ``confirmed``."""
        await self.written(entry_id)
        self.feed(ev.ForceWanted(upto=entry_id))
        await self.confirmed(entry_id)

    async def lac_known(self) -> None:
        """Make the LAC known to every reader that asks; raises ``LacNotTold``."""
        if self._core.confirmed == NO_ENTRY:
            return
        if self.stopped is None:
            waiter: asyncio.Future[Exception | None] = self._loop.create_future()
            self._for_lac.append(waiter)
            self.feed(ev.LacWanted())
            if (failure := await waiter) is not None:
                raise failure
        if self.stopped is not None:
            self._raise_stopped()

    async def room(self) -> None:
        """Wait until some of the budget is released, or the session has stopped."""
        self._released.clear()
        self._room_wanted = True
        if self._core.confirmed < self._core.written:
            self.feed(ev.ForceWanted(upto=self._core.written))
        await self._released.wait()

    async def copied(self, most_ms: int) -> None:
        """Wait, at most ``most_ms``, until each bookie has answered for all that it was sent.

        An ack quorum alone is not enough here: the end of a session cuts off frames that are still
        on their way to the other bookies.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_ms / 1_000):
                await self.while_so(self._lacks_copies)

    async def while_so(self, is_so: Callable[[], bool]) -> None:
        """Wait as long as something is so in the core, and the session has not stopped."""
        while self.stopped is None and is_so():
            self._heard.clear()
            await self._heard.wait()

    def _lacks_copies(self) -> bool:
        """Was a bookie not sent everything, or has it not answered for everything?"""
        return self.used_bytes > 0 or any(each.sink.waits for each in self.lanes.values())

    async def settled(self) -> None:
        """Wait, after a stop, until the session has no more work in metadata."""
        while self._children and not self._ended:
            await asyncio.wait(self._children)

    def deleted(self) -> None:
        """Stop, because the ledger was deleted: its client has made another one under its id."""
        message = (
            f"ledger {self._identity.ledger_id} was deleted while it was written, and this client "
            "has made another ledger under its id: write to that one"
        )
        self.feed(ev.LedgerGone(error=ClosedByOther(message)))

    def fell_quiet(self) -> None:
        """Take in that nothing was appended for a while."""
        self.feed(ev.FellQuiet())

    def end(self, reason: Exception) -> None:
        """Give up all lanes and timers; calls that still wait for an entry raise the reason."""
        if self._ended:
            return
        self._ended = True
        if self._tasks.failed:
            reason = self._tasks.closed(maybe_applied=True)  # the fault is the true reason
        self.stopped = self.stopped or reason
        self.used_bytes = 0
        self._pending.clear()
        self._wake_all()
        self._bookies.forget(self._relocate)
        if self._tick is not None:
            self._tick.cancel()
        for child in self._children:
            child.cancel()
        lanes, self.lanes = self.lanes, {}
        for each in lanes.values():
            each.lane.close()

    def feed(self, event: ev.Event) -> None:
        """Take an event in, and perform its effects and those of the events that follow from it."""
        if self._ended:
            return
        self._events.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while (following := self._following()) is not None:
                for effect in self._core.handle(following):
                    self._perform(effect)
        finally:
            self._busy = False
        self._heard.set()
        self._watch_time()
        if self._abandon and not self._core.changing:
            self._abandon = False
            self._start(self._steward.abandon(self._core.confirmed, self._core.confirmed_length))

    def _following(self) -> ev.Event | None:
        """Give the next event: a queued event first, else ``Taken`` for a batch that may go."""
        if self._events:
            return self._events.popleft()
        if self._may_take:
            return ev.Taken(payloads=self._pending.take(), now_ms=self._bookies.now_ms())
        return None

    @property
    def _may_take(self) -> bool:
        """Is a batch pending for which the core has room?"""
        if not self._pending:
            return False
        return self._core.room or (self._pending.has_full and self._core.room_for_full)

    def _pump(self) -> None:
        self._pump_due = False
        if self._may_take and not self._ended:
            self.feed(ev.Taken(payloads=self._pending.take(), now_ms=self._bookies.now_ms()))

    def _perform(self, effect: ev.Effect) -> None:
        match effect:
            case ev.Confirmed() | ev.EntriesWritten() | ev.LacKnown() | ev.LacUntold():
                self._tell(effect)
            case ev.Released():
                self.used_bytes -= effect.size_bytes
                assert self.used_bytes >= 0, "more was released than was appended"
                self._room_wanted = False
                self._released.set()
            case ev.ChangeEnsemble():
                self._start(self._change(effect))
            case ev.LookUpLedger():
                self._start(self._look_up())
            case ev.Suspect():
                self._bookies.suspect(effect.bookie, effect.error)
            case ev.Stop():
                if isinstance(effect.error, LostQuorum):
                    effect.error.add(self._bookies.said_of_zones())
                session_lines.writer_stopped(self._identity.ledger_id, effect.error)
                self._abandon = effect.close
                self.stopped = effect.error
                self.used_bytes = 0
                self._pending.clear()
                self._wake_all()
            case _:
                self._perform_in_lane(effect)

    def _perform_in_lane(self, effect: ev.LaneEffect) -> None:
        match effect:
            case ev.Send():
                self._send(effect)
            case ev.OpenLane():
                self._start(self._open(effect))
            case ev.CloseLane():
                if (closed := self.lanes.pop(effect.term, None)) is not None:
                    closed.lane.close()
            case ev.SendLac():
                self._send_lac(effect)
            case ev.Force():
                self._start(self._force(effect, self.lanes[effect.term]))
            case _:
                assert_never(effect)

    def _tell(self, news: ev.News) -> None:
        """Wake the calls that waited for this."""
        match news:
            case ev.Confirmed():
                self._confirmed(news.last)
            case ev.EntriesWritten():
                self._for_written.wake(news.last)
                if self._room_wanted:
                    self._events.append(ev.ForceWanted(upto=news.last))
            case ev.LacKnown():
                self._lac_told(None)
            case ev.LacUntold():
                self._lac_told(news.error)
            case _:
                assert_never(news)

    def _send(self, effect: ev.Send) -> None:
        to = self.lanes[effect.term]
        for first, frame in effect.frames:
            try:
                number = to.lane.append(frame)
            except errors.ProtocolError as error:
                self.feed(ev.Blocked(term=effect.term, first=first, error=error))
                return
            to.sink.sent(number, first)
            self._bookies.count_written(to.bookie, frame.size_bytes)

    def _send_lac(self, effect: ev.SendLac) -> None:
        to = self.lanes[effect.term]
        try:
            number = to.lane.write_lac(self._sealer.seal_lac(effect.confirmed))
        except errors.ProtocolError as error:
            self.feed(ev.LacFailed(term=effect.term, lac=effect.confirmed, error=error))
        else:
            to.sink.sent_lac(number, effect.confirmed)

    def _confirmed(self, last: EntryId) -> None:
        """Wake the calls that wait for entries up to this one."""
        self._bookies.counters.entries_confirmed += self._core.confirmed - self._counted
        self._counted = self._core.confirmed
        self._for_confirmed.wake(last)
        self._for_written.wake(last)

    def _lac_told(self, failure: Exception | None) -> None:
        waiting, self._for_lac = self._for_lac, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(failure)

    def _wake_all(self) -> None:
        """Wake all calls that wait: nothing more will happen."""
        self._confirmed(self.last_appended)
        self._lac_told(None)
        self._released.set()
        self._heard.set()

    def _raise_stopped(self) -> NoReturn:
        assert self.stopped is not None
        self.told = True
        raise self.stopped.with_traceback(None)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        try:
            task = self._tasks.start(work)
        except ClientClosed:
            self._loop.call_soon(self._client_ended)  # later: more effects may follow this one
            return
        self._children.add(task)
        task.add_done_callback(self._child_ended)

    def _child_ended(self, task: asyncio.Task[None]) -> None:
        self._children.discard(task)
        if task.cancelled():  # by the end of the client, or of this session
            self._client_ended()

    def _client_ended(self) -> None:
        """End the session, because its client has ended; calls that wait raise the reason."""
        self.end(self._tasks.closed(maybe_applied=True))

    async def _open(self, wanted: ev.OpenLane) -> None:
        sink = Ear(wanted.term, self.feed)
        opening = self._identity.opening(wanted)
        if not wanted.was_open and not await self._is_fresh():
            error = errors.NotConnected("metadata does not say whether the ledger is there")
            self.feed(ev.LaneRefused(term=wanted.term, error=error))
            return
        try:
            link = await self._bookies.pool.link(wanted.bookie)
            lane = await link.open_fragment(opening, sink, was_open=wanted.was_open)
        except errors.ProtocolError as error:
            self.feed(ev.LaneRefused(term=wanted.term, error=error))
            return
        if self._ended:
            lane.close()
            return
        self.lanes[wanted.term] = OpenedLane(lane, sink, wanted.bookie)
        self.first_starts.setdefault(wanted.bookie, lane.boot_epoch)
        self.feed(ev.LaneOpened(term=wanted.term))

    async def _force(self, wanted: ev.Force, to: OpenedLane) -> None:
        """Make a bookie sync what it acknowledged in a lane.

        The force counts only if the bookie was in the boot that the lane talks to. Boot epochs only
        grow. So the epoch is read after the force: if it is still the lane's, it was so then, too.
        """
        try:
            link = await self._bookies.pool.link(to.bookie)
            await link.force(self._identity.ledger_id, self._identity.master_key)
            if (await link.info()).boot_epoch != to.lane.boot_epoch:
                raise errors.ConnectionLost(f"{to.bookie} was started again")
        except errors.ProtocolError as error:
            self.feed(ev.ForceFailed(term=wanted.term, error=error))
        else:
            self.feed(ev.Forced(term=wanted.term, upto=wanted.upto))

    async def _change(self, wanted: ev.ChangeEnsemble) -> None:
        outcome = await self._steward.change(wanted)
        if isinstance(outcome, ev.Changed):
            self._seen_s = self._loop.time()
            self._bookies.counters.ensemble_changes += 1
        self.feed(outcome)

    async def _look_up(self) -> None:
        begun_s = self._loop.time()
        outcome = await self._steward.look_up()
        if isinstance(outcome, ev.LedgerStands):
            self._seen_s = begun_s
        self.feed(outcome)

    async def _is_fresh(self) -> bool:
        """Was the ledger there not long ago? If that is not known, look it up.

        A bookie that never had the ledger open for this writer knows of a deletion only by a
        tombstone, and a tombstone is not kept for ever. A writer may sleep for longer.
        """
        if self._loop.time() - self._seen_s > UNSEEN_MAX_S:
            await self._look_up()
        return not self._ended and self._loop.time() - self._seen_s <= UNSEEN_MAX_S

    def _relocate(self) -> None:
        zones = {who: self._bookies.zone(who) for who in self._core.ensemble}
        self.feed(ev.Located(zones=zones))

    def _watch_time(self) -> None:
        if self._tick is None and self._core.waits and not self._ended:
            set_s = self._loop.time()
            self._tick = self._loop.call_later(TICK_MS / 1_000, self._ticked, set_s)

    def _ticked(self, set_s: float) -> None:
        """Feed the time to the core; if this process stood still, feed how long it did.

        After a standstill the loop runs timers first, although answers that came in time wait to
        be read. These are read before the next tick. If the next tick is late, too, its time
        counts, because a loop may be late every time.
        """
        self._tick = None
        late_ms = int((self._loop.time() - set_s) * 1_000) - TICK_MS
        was_late, self._was_late = self._was_late, late_ms > patience.LATE_MS
        if self._was_late and not was_late:
            self.feed(ev.StoodStill(late_ms=late_ms))
        else:
            self.feed(ev.Ticked(now_ms=self._bookies.now_ms()))
