"""The shell around ``WriterCore``: lanes, timers, budget, and those who wait for an entry.

Nothing here decides what is acknowledged. Events go in one at a time, whoever causes them; what
they cause in turn waits until the effects are done. Batches are taken when the loop comes round, so
that what is appended in one go leaves in one frame, and never by a timer.

There is no task and no future for an entry: a lane's sink hears of batches, and only who awaits an
entry costs a future. A waiter that is cancelled is forgotten; what it waited for goes on.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, assert_never

from zonekeeper.client.base.errors import ClientClosed
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.base.waiters import Waiters
from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.client.sessions.opened_lanes import Ear, OpenedLane
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.batches import ENTRY_OVERHEAD_BYTES
from zonekeeper.client.writing.pending_entries import PendingEntries
from zonekeeper.client.writing.writer_core import WriterCore
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import entries, errors, openings
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.link import patience

TICK_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What every opening of a ledger's fragments says."""

    ledger_id: LedgerId
    master_key: MasterKey
    quorums: Quorums
    digest: Digest


class Steward(Protocol):
    """Who changes the ledger's fragments for a writer: in metadata, or for a recovery in memory."""

    async def change(self, wanted: ev.ChangeEnsemble) -> ev.ChangeEvent:
        """Replace members of the last ensemble, and say what came of it."""
        ...

    async def abandon(self, last_entry: EntryId, length: int) -> None:
        """Give the ledger its end, if it still may be: its writer cannot go on."""
        ...


class WriteSession:
    """One ledger being written, by its writer or by a recovery."""

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
        self._pending = PendingEntries()
        #: Bytes that are not released: pending, under way, or kept for laggards.
        self.used_bytes = 0
        self.last_appended = core.confirmed
        self._counted = core.confirmed
        self._events: deque[ev.Event] = deque()
        self._busy = False
        self._pump_due = False
        self._tick: asyncio.TimerHandle | None = None
        #: Was the last tick much too late?
        self._was_late = False
        self._lanes: dict[ev.Term, OpenedLane] = {}
        self._for_confirmed, self._for_written = Waiters(self._loop), Waiters(self._loop)
        #: For the LAC to be known; why it is not, or None.
        self._for_lac: list[asyncio.Future[Exception | None]] = []
        self._released = asyncio.Event()
        #: Something happened.
        self._heard = asyncio.Event()
        #: Somebody waits for bytes to be released: what is written is forced for that.
        self._room_wanted = False
        self._abandon = False
        self._ended = False
        #: Why nothing more will be confirmed; None: it goes on.
        self.stopped: Exception | None = None
        self._children: set[asyncio.Task[None]] = set()
        bookies.listen(self._relocate)

    @property
    def core(self) -> WriterCore:
        """What is known of the writing; to look at, not to touch."""
        return self._core

    @property
    def quiet(self) -> bool:
        """Has everything that was appended its ack quorum?"""
        return not self._pending and self._core.quiet

    def put(self, payload: bytes) -> EntryId:
        """Append; the caller has looked after the budget, and that the writer has not stopped."""
        begins = self._pending.put(payload)
        self.used_bytes += len(payload) + ENTRY_OVERHEAD_BYTES
        self.last_appended = EntryId(self.last_appended + 1)
        # An entry that joins a batch changes nothing: that batch waits for the pump, or for an ack.
        if begins and not self._pump_due and self._may_take:
            self._pump_due = True
            self._loop.call_soon(self._pump)
        return self.last_appended

    async def confirmed(self, entry_id: EntryId) -> None:
        """Wait until an entry is confirmed; raises what stopped the writer before that."""
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
        """Have everything up to an entry on disk, and wait for that; raises like ``confirmed``."""
        await self.written(entry_id)
        self.feed(ev.ForceWanted(upto=entry_id))
        await self.confirmed(entry_id)

    async def lac_known(self) -> None:
        """Have the LAC known to every reader who asks; raises ``LacNotTold``."""
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
        """Wait until each bookie has what it was sent, not the ack quorum alone; so long at most.

        Whoever ends a session cuts off what is on its way to the others.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_ms / 1_000):
                while self._lacks_copies():
                    self._heard.clear()
                    await self._heard.wait()

    def _lacks_copies(self) -> bool:
        """Is there a bookie that was not sent everything, or has not answered for it?"""
        if self._ended or self.stopped is not None:
            return False
        return self.used_bytes > 0 or any(each.sink.waits for each in self._lanes.values())

    async def settled(self) -> None:
        """Wait, after a stop, until nothing more is done in metadata."""
        while self._children and not self._ended:
            await asyncio.wait(self._children)

    def fell_quiet(self) -> None:
        """Say that nothing was appended for a while."""
        self.feed(ev.FellQuiet())

    def end(self, reason: Exception) -> None:
        """Give up all lanes and timers; who still waits for an entry is told the reason."""
        if self._ended:
            return
        self._ended = True
        if self._tasks.failed:
            reason = self._tasks.closed(maybe_applied=True)  # that is why, whoever says so
        self.stopped = self.stopped or reason
        self.used_bytes = 0
        self._pending.clear()
        self._wake_all()
        self._bookies.forget(self._relocate)
        if self._tick is not None:
            self._tick.cancel()
        for child in self._children:
            child.cancel()
        lanes, self._lanes = self._lanes, {}
        for each in lanes.values():
            each.lane.close()

    def feed(self, event: ev.Event) -> None:
        """Take an event in, and do what it and what follows from it asks for."""
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
        """Give the next event: what happened, then what the application wants."""
        if self._events:
            return self._events.popleft()
        if self._may_take:
            return ev.Taken(payloads=self._pending.take(), now_ms=self._bookies.now_ms())
        return None

    @property
    def _may_take(self) -> bool:
        """Is there a batch for which the core has room?"""
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
            case ev.Suspect():
                self._bookies.suspect(effect.bookie, effect.error)
            case ev.Stop():
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
                if (closed := self._lanes.pop(effect.term, None)) is not None:
                    closed.lane.close()
            case ev.SendLac():
                self._send_lac(effect)
            case ev.Force():
                self._start(self._force(effect, self._lanes[effect.term]))
            case _:
                assert_never(effect)

    def _tell(self, news: ev.News) -> None:
        """Wake those who waited for this."""
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
        to = self._lanes[effect.term]
        for first, frame in effect.frames:
            try:
                number = to.lane.append(frame)
            except errors.ProtocolError as error:
                self.feed(ev.Blocked(term=effect.term, first=first, error=error))
                return
            to.sink.sent(number, first)
            self._bookies.count_written(to.bookie, frame.size_bytes)

    def _send_lac(self, effect: ev.SendLac) -> None:
        to = self._lanes[effect.term]
        try:
            number = to.lane.write_lac(self._sealer.seal_lac(effect.confirmed))
        except errors.ProtocolError as error:
            self.feed(ev.LacFailed(term=effect.term, lac=effect.confirmed, error=error))
        else:
            to.sink.sent_lac(number, effect.confirmed)

    def _confirmed(self, last: EntryId) -> None:
        """Wake those who wait for entries up to this one."""
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
        """Wake everybody: nothing will come any more."""
        self._confirmed(self.last_appended)
        self._lac_told(None)
        self._released.set()
        self._heard.set()

    def _raise_stopped(self) -> NoReturn:
        assert self.stopped is not None
        raise self.stopped.with_traceback(None)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        try:
            task = self._tasks.start(work)
        except ClientClosed:
            self._loop.call_soon(self._client_ended)  # effects may follow this one
            return
        self._children.add(task)
        task.add_done_callback(self._child_ended)

    def _child_ended(self, task: asyncio.Task[None]) -> None:
        self._children.discard(task)
        if task.cancelled():  # by the client's end, or by ours
            self._client_ended()

    def _client_ended(self) -> None:
        """End, because nothing more can be done: who waits is told why."""
        self.end(self._tasks.closed(maybe_applied=True))

    async def _open(self, wanted: ev.OpenLane) -> None:
        sink = Ear(wanted.term, self.feed)
        opening = openings.FragmentOpening(
            ledger_id=self._identity.ledger_id,
            master_key=self._identity.master_key,
            quorums=self._identity.quorums,
            digest=self._identity.digest,
            first_entry_id=wanted.first_entry,
            ensemble=wanted.ensemble,
        )
        try:
            link = await self._bookies.pool.link(wanted.bookie)
            lane = await link.open_fragment(opening, sink)
        except errors.ProtocolError as error:
            self.feed(ev.LaneRefused(term=wanted.term, error=error))
            return
        if self._ended:
            lane.close()
            return
        self._lanes[wanted.term] = OpenedLane(lane, sink, wanted.bookie)
        self.feed(ev.LaneOpened(term=wanted.term))

    async def _force(self, wanted: ev.Force, to: OpenedLane) -> None:
        """Have a bookie sync what it acknowledged in a lane, in the boot that the lane talks to.

        Boots only grow: if the bookie is still in that one afterwards, it was when it was forced.
        """
        try:
            link = await self._bookies.pool.link(to.bookie)
            await link.force(self._identity.ledger_id)
            if (await link.info()).boot_epoch != to.lane.boot_epoch:
                raise errors.ConnectionLost(f"{to.bookie} was started again")
        except errors.ProtocolError as error:
            self.feed(ev.ForceFailed(term=wanted.term, error=error))
        else:
            self.feed(ev.Forced(term=wanted.term, upto=wanted.upto))

    async def _change(self, wanted: ev.ChangeEnsemble) -> None:
        outcome = await self._steward.change(wanted)
        if isinstance(outcome, ev.Changed):
            self._bookies.counters.ensemble_changes += 1
        self.feed(outcome)

    def _relocate(self) -> None:
        zones = {who: self._bookies.zone(who) for who in self._core.ensemble}
        self.feed(ev.Located(zones=zones))

    def _watch_time(self) -> None:
        if self._tick is None and self._core.waits and not self._ended:
            set_s = self._loop.time()
            self._tick = self._loop.call_later(TICK_MS / 1_000, self._ticked, set_s)

    def _ticked(self, set_s: float) -> None:
        """Say what time it is; or, where this process stood still, how long.

        Then answers that came in time may wait to be read, and timers come first. They are read by
        the next tick: if that is late, too, its time counts, for a loop may always be late.
        """
        self._tick = None
        late_ms = int((self._loop.time() - set_s) * 1_000) - TICK_MS
        was_late, self._was_late = self._was_late, late_ms > patience.LATE_MS
        if self._was_late and not was_late:
            self.feed(ev.StoodStill(late_ms=late_ms))
        else:
            self.feed(ev.Ticked(now_ms=self._bookies.now_ms()))
