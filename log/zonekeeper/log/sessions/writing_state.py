"""What the tasks of a log's writer share, and what calls of an application wait for.

A batch goes to ``ledger``. At a rotation the ledger behind it is made ahead, and then becomes
``ledger``, while the one before stays in ``old`` until its end is in the record. Whatever a task
changes here, it rings. A ring looks for what the others wait for, and wakes those for whom that is
so: a task that wakes for nothing costs more than the look. A call that waits for a message has a
future instead, which is done when its message has come so far.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base.waiters import Waiters
from zonekeeper.log.base import errors
from zonekeeper.log.base.log_figures import LogWriterFigures
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.sessions.running import RunningLedger
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.log.writing.tally import LedgerTally
from zonekeeper.log.writing.unsent import Unsent
from zonekeeper.metadata.formats.log_record import LogTaken
from zonekeeper.placement.base.troubles import Trouble

#: After so many appended bytes ``append`` yields to the event loop once, or a long run of appends
#: would keep the loop from sending until the budget is spent.
TURN_BYTES: Final = 1 << 20


class WritingState:
    """The state of one log's writing."""

    def __init__(
        self, held: LedgerChain, first: Writer, budget: LogBudget, figures: LogWriterFigures
    ) -> None:
        self.chain = held
        self.budget = budget
        self.figures = figures
        self.unsent = Unsent(held.next_sequence, figures)
        #: Messages below this sequence are seen by every reader that looks from now on.
        self.visible = held.next_sequence
        #: Some call waits until messages below this sequence are visible, or forced.
        self.wanted = 0
        self._forced_wanted = 0
        self.closing = False
        self.ended = False
        self.failure: Trouble | None = None
        #: The ledger that batches are sent to.
        self.ledger = self.running(first, held.next_sequence)
        #: The one before it, while it has no end in the record.
        self.old: RunningLedger | None = None
        #: The one behind it: it is in the record, and nothing is written to it.
        self.ahead: Writer | None = None
        #: The ledger whose last confirmed entry is being told to readers.
        self.told: RunningLedger | None = None
        #: What of the budget this log has.
        self._held_bytes = 0
        #: Appended since the event loop had its last turn.
        self._turn_bytes = 0
        #: Calls that wait for room.
        self._without_room = 0
        self._was_downgraded = False
        self._loop = asyncio.get_running_loop()
        #: What each task waits for.
        self._awaited: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._for_stored, self._for_visible = Waiters(self._loop), Waiters(self._loop)
        self._for_forced = Waiters(self._loop)
        #: Rings when the ledger is old enough for a rotation.
        self._timer = self._loop.call_at(self.ledger.old_s, self.ring)
        if held.deferred_sync:
            budget.join(self.ring)
        figures.open_now += 1
        self._note_downgraded(held.is_downgraded)

    @property
    def name(self) -> str:
        """The log's name."""
        return self.chain.name

    @property
    def all_sent(self) -> bool:
        """Is the writer closing, and has nothing more to send?"""
        return self.closing and not self.unsent.has_unsent

    def is_confirmed(self, ledger: RunningLedger) -> bool:
        """Has a ledger confirmed all that it will ever be sent?"""
        return ledger.sealed and not self.unsent.unconfirmed(ledger.id)

    def is_written(self, ledger: RunningLedger) -> bool:
        """Has an ack quorum all that a ledger will ever be sent, perhaps in memory?"""
        return ledger.sealed and not self.unsent.in_flight(ledger.id)

    def must_force(self, ledger: RunningLedger) -> bool:
        """With deferred sync: is a ledger to be forced now?

        It is where a call waits for that, where it gets nothing more, and where a log waits for the
        room that its messages take.
        """
        if not self.unsent.unconfirmed(ledger.id):
            return False
        wanted = max(self._forced_wanted, self.wanted)
        return ledger.sealed or self.unsent.acked < wanted or self.budget.is_short

    def running(self, writer: Writer, first: int) -> RunningLedger:
        """Give a ledger with its tally; its first message has a sequence."""
        opening_bytes = len(self.chain.opening(first, None))  # each is as long as this one
        tally = LedgerTally(writer.ledger_id, first, opening_bytes)
        return RunningLedger(writer, tally, self.chain.record.rules)

    def begin(self, ledger: RunningLedger) -> None:
        """Send to another ledger from now on."""
        self.ledger = ledger
        self._timer.cancel()
        self._timer = self._loop.call_at(ledger.old_s, self.ring)
        self._note_downgraded(self.chain.is_downgraded)
        self.ring()

    def halt(self) -> None:
        """Stop the writing of all ledgers at once."""
        self.ledger.writer.halt()
        if self.old is not None:
            self.old.writer.halt()
        if self.ahead is not None:
            self.ahead.halt()

    def end(self) -> None:
        """Note that nothing is written any more; calls that wait hear why."""
        self.ended = True
        self._timer.cancel()
        self.budget.leave(self.ring)
        self._hold(0)
        self.figures.open_now -= 1
        self._note_downgraded(False)
        for waiters in (self._for_stored, self._for_forced, self._for_visible):
            waiters.wake(self.unsent.given)
        self.ring()

    def _note_downgraded(self, is_so: bool) -> None:
        self.figures.downgraded_now += is_so - self._was_downgraded
        self._was_downgraded = is_so

    # ── what has come how far ──

    def settled(self) -> None:
        """Note that every ledger has its end in the record."""
        self.old = self.ahead = None
        self.unsent.moved(self.chain.next_sequence)
        self.progressed()
        self.shown(self.unsent.acked)

    def progressed(self) -> None:
        """Note that a ledger has written or confirmed more."""
        self._hold(self.unsent.used_bytes)
        self._for_stored.wake(self.unsent.stored - 1)
        self._for_forced.wake(self.unsent.acked - 1)
        self.ring()

    def shown(self, upto: int) -> None:
        """Note that readers see the messages below a sequence."""
        self.visible = max(self.visible, upto)
        self._for_visible.wake(self.visible - 1)
        self.ring()

    async def until_stored(self, sequence: int) -> None:
        """Wait until a message is stored."""
        if self.unsent.stored <= sequence and not self.ended:
            await self._for_stored.wait(sequence)
        if self.unsent.stored <= sequence and self.ended:
            raise self.over()

    async def until_forced(self, sequence: int) -> None:
        """Have a message forced, and wait until it is in the log for good."""
        if self.unsent.acked <= sequence and not self.ended:
            self._forced_wanted = max(self._forced_wanted, sequence + 1)
            self.ring()
            await self._for_forced.wait(sequence)
        if self.unsent.acked <= sequence:
            raise self.over()

    async def until_visible(self, sequence: int) -> None:
        """Wait until every reader whose look begins afterwards sees a message."""
        if self.visible <= sequence and not self.ended:
            self.wanted = max(self.wanted, sequence + 1)
            self.ring()
            await self._for_visible.wait(sequence)
        if self.visible <= sequence:
            raise self.over()

    # ── the budget ──

    def takes(self, size: int) -> bool:
        """May so many bytes be appended at once, without a wait or a turn of the event loop?"""
        if self._turn_bytes >= TURN_BYTES or self.ended or self.closing:
            return False
        return self.budget.has_room(size, held_bytes=self._held_bytes)

    async def until_takes(self, size: int) -> None:
        """Give the event loop a turn, and wait for room; raises why the writer takes nothing."""
        self._without_room += 1
        try:
            self._check_open()
            while not self.takes(size):
                # Other calls append while this one waits, so the turn may be used up again.
                if self._turn_bytes >= TURN_BYTES:
                    self._turn_bytes = 0
                    await asyncio.sleep(0)
                else:
                    self.budget.listen(self.ring)
                    await self._rung(lambda: self._is_worth_a_look(size))
                self._check_open()
        finally:
            self._without_room -= 1
            if not self._without_room:
                self.budget.forget(self.ring)

    def _is_worth_a_look(self, size: int) -> bool:
        """Would a call that waits for room go on now: with room, a turn or an error?"""
        return self.closing or self._turn_bytes >= TURN_BYTES or self.takes(size)

    def put(self, message: LogMessage, size: int) -> int:
        """Append a message that the budget takes, and give its sequence."""
        unsent = self.unsent
        begins, filled = not unsent.has_unsent, unsent.filled
        sequence = unsent.append(message, size)
        self._turn_bytes += size
        self._held_bytes += size
        self.budget.change(size)
        if begins or unsent.filled != filled:
            self.ring()
        return sequence

    def put_all(self, many: Sequence[LogMessage], size: int) -> bool:
        """Append messages that go into one batch; False: nothing was appended.

        One message may go over the budget where a log holds nothing, but never several.
        """
        begins = not self.unsent.has_unsent
        if not self.budget.has_room_for_all(size) or not self.takes(size):
            return False
        if not self.unsent.extend(many, size):
            return False
        if begins:
            self.ring()
        self._turn_bytes += size
        self._held_bytes += size
        self.budget.change(size)
        return True

    def _check_open(self) -> None:
        if self.ended or self.closing:
            raise self.over()

    def _hold(self, size_bytes: int) -> None:
        """Hold so much of the budget."""
        before, self._held_bytes = self._held_bytes, size_bytes
        self.budget.change(size_bytes - before)

    # ── waiting ──

    def ring(self) -> None:
        """Wake what waits for something that is so now; at the end, wake everything."""
        for waiter, is_so in self._awaited.items():
            if not waiter.done() and (self.ended or is_so()):
                waiter.set_result(None)

    async def until_ended(self) -> None:
        """Wait until the writer has ended, for whatever reason."""
        while not self.ended:
            await self._rung(lambda: False)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; raises why it will never be, once the writer has ended."""
        while not is_so():
            if self.ended:
                raise self.over()
            await self._rung(is_so)

    async def _rung(self, is_so: Callable[[], bool]) -> None:
        """Wait for a ring at which something is so. By the time of its turn it may not be."""
        waiter = self._loop.create_future()
        self._awaited[waiter] = is_so
        try:
            await waiter
        finally:
            del self._awaited[waiter]

    def over(self) -> Trouble:
        """Give the error of a call that comes too late."""
        if isinstance(self.failure, LogTaken):
            return LogTaken(f"log {self.name}: {self.failure}")
        if self.failure is not None:
            return errors.LogEnded(f"log {self.name}: the writer has ended: {self.failure}")
        return errors.LogEnded(f"log {self.name}: the writer was closed", maybe_applied=False)
