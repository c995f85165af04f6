"""The writer of a log, for applications.

``append`` gives a message its sequence and returns. It never waits for the network, but for room in
the byte budget. ``stored(sequence)`` waits until the message is acknowledged: it is in the log for
good. ``flushed(sequence)`` waits until every reader whose look begins afterwards sees it, and gives
its id. That takes the bookies' knowledge of the last confirmed entry, which is told once for all
calls that wait.

Tasks of the writer carry out everything. When a ledger is full, the next one is made and added to
the record, while the old one takes writes. From then on all batches go to the new one, whose
opening names the last entry that was sent to the old one. A message of the new ledger is
acknowledged only when all of the old one is. The old ledger's end is put into the record then, and
only behind an end do readers look into the next ledger. So no reader sees a message that could
still be dropped, nothing is in the log twice, and nothing is out of order.

A ledger that fails does not end the writer. While the record names this writer, the writer recovers
what has no end, sends again exactly what the log turned out not to hold, and goes on in a new
ledger. The writer ends for good when the record names another one. Where no next ledger can be had,
the present one goes on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base import errors
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.sessions import chain
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.sessions.running import RunningLedger
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.log.writing.tally import LedgerTally
from zonekeeper.log.writing.unsent import Unsent
from zonekeeper.metadata.formats.log_record import LogTaken, LogWriterMark
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.troubles import Trouble

#: While so many batches are on their way, messages wait for the next one and fill it.
IN_FLIGHT_MAX: Final = 3
#: After so many appended bytes ``append`` yields to the event loop once, or a long run of appends
#: would keep the loop from sending until the budget is spent.
TURN_BYTES: Final = 1 << 20
#: The pause after a failure that may pass; doubled each time, up to the second one.
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def opened(
    client: Client,
    name: str,
    mark: LogWriterMark,
    wall_ms: Callable[[], int],
    *,
    budget: LogBudget | None = None,
) -> AsyncIterator["LogWriter"]:
    """Open a log for writing, until the block ends; raises ``LogTaken`` if another was faster.

    ``mark.token`` was drawn for this call. Without a ``budget`` the writer has one of its own. The
    end of the block closes the writer. Where the block raises, the writer stops at once.
    """
    held = await chain.claimed(client, name, mark)
    writer = LogWriter(held, await held.begin(), wall_ms, budget or LogBudget())
    async with alongside(writer.run()):
        yield writer
        await writer.close()


class LogWriter:
    """The one writer of a log."""

    def __init__(
        self,
        held: LedgerChain,
        first: Writer,
        wall_ms: Callable[[], int],
        budget: LogBudget,
    ) -> None:
        self._chain = held
        #: The number of this writer's claim; it ascends from writer to writer.
        self.epoch: Final = held.record.epoch
        self._wall_ms = wall_ms
        self._budget = budget
        #: What of the budget this log has.
        self._held_bytes = 0
        self._without_turn_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._unsent = Unsent(held.next_sequence)
        self._changed = asyncio.Event()
        #: Messages below this sequence are seen by every reader that looks from now on.
        self._visible = held.next_sequence
        #: Some call waits until messages below this sequence are visible.
        self._wanted = 0
        self._closing = False
        self._ended = False
        self._failure: Trouble | None = None
        self._last_wall_ms = 0
        #: The ledger that batches are sent to.
        self._ledger = self._running(first, held.next_sequence)
        #: The one before it, while it has no end in the record.
        self._old: RunningLedger | None = None
        #: The one behind it: it is in the record, and nothing is written to it.
        self._ahead: Writer | None = None
        #: The ledger whose last confirmed entry is being told to readers.
        self._told: RunningLedger | None = None
        #: Rings when the ledger is old enough for a rotation.
        self._timer = self._loop.call_at(self._ledger.old_s, self._ring)

    @property
    def name(self) -> str:
        """The log's name."""
        return self._chain.name

    @property
    def is_over(self) -> bool:
        """Does the writer take no appends any more: is it being closed, or has it ended?"""
        return self._closing or self._ended

    @property
    def is_downgraded(self) -> bool:
        """Has the newest ledger only the log's minimum of quorums? For an alert."""
        return self._chain.is_downgraded

    @property
    def next_sequence(self) -> int:
        """The sequence of the next message that is appended."""
        return self._unsent.given

    @property
    def first_unstored(self) -> int:
        """The messages below this sequence are stored."""
        return self._unsent.acked

    async def append(self, message: LogMessage) -> int:
        """Append a message, and give its sequence; wait only while the byte budget is spent.

        A call that is cancelled has appended nothing. Raises ``BadMessageError`` for a message that
        breaks a limit.
        """
        size = batches.size_bytes(message)
        self._check()
        if self._without_turn_bytes >= TURN_BYTES:
            self._without_turn_bytes = 0
            await asyncio.sleep(0)
            self._check()
        if not self._has_room(size):
            await self._until(lambda: self._has_room(size))
            self._check()
        sequence = self._unsent.append(message, size)
        self._without_turn_bytes += size
        self._hold(self._unsent.used_bytes)
        self._ring()
        return sequence

    async def append_many(self, many: Iterable[LogMessage]) -> int:
        """Append messages in order, and give the sequence after the last one.

        If the call is cancelled or fails, some may have been appended: ``next_sequence`` says how
        many.
        """
        for message in many:
            await self.append(message)
        return self._unsent.given

    async def append_and_wait(self, message: LogMessage, *, stored: bool = False) -> int:
        """Append a message, and wait until it is readable; with ``stored``, until it is stored."""
        sequence = await self.append(message)
        if stored:
            await self.stored(sequence)
        else:
            await self.flushed(sequence)
        return sequence

    async def stored(self, sequence: int) -> None:
        """Wait until a message, and so everything before it, is in the log for good."""
        self._check_given(sequence)
        await self._until(lambda: self._unsent.acked > sequence)

    async def flushed(self, sequence: int) -> MessageId:
        """Wait until every reader whose look begins afterwards sees a message; give its id."""
        self._check_given(sequence)
        self._wanted = max(self._wanted, sequence + 1)
        self._ring()
        await self._until(lambda: self._visible > sequence)
        known = self._unsent.id_of(sequence)
        return known or await self._chain.id_of(sequence)

    async def close(self) -> None:
        """Wait until everything is stored, and close the last ledger; raises why that failed."""
        self._closing = True
        self._ring()
        while not self._ended:
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure

    async def ended(self) -> None:
        """Wait until the writer has ended, for whatever reason."""
        while not self._ended:
            await self._changed.wait()

    async def run(self) -> None:
        """Carry out the writing, until the writer is closed or has lost the log."""
        self._budget.listen(self._ring)
        try:
            await self._write()
        except Trouble as error:
            self._failure = error
            self._halt()
        except BaseException:
            self._halt()
            raise
        finally:
            self._ended = True
            self._timer.cancel()
            self._budget.forget(self._ring)
            self._hold(0)
            self._ring()

    # ── the task ──

    async def _write(self) -> None:
        while True:
            try:
                async with alongside() as group:
                    group.create_task(self._send())
                    group.create_task(self._tell())
                    group.create_task(self._rotate(group))
                    group.create_task(self._hear(self._ledger))
                await self._ledger.writer.close()
            except client_errors.ClientError as error:
                # What becomes of it is for the settling to say, and for the record.
                _logger.warning("log %s: its ledgers are settled: %s", self.name, error)
                self._halt()
            if not await self._advance():
                return

    async def _advance(self) -> bool:
        """Settle the ledgers, and begin the next one; False: the writer is closing, and is done."""
        pause_s = _PAUSE_S
        while True:
            try:
                await self._chain.settle()
                self._old = self._ahead = None
                self._unsent.moved(self._chain.next_sequence)
                self._hold(self._unsent.used_bytes)
                self._visible = max(self._visible, self._unsent.acked)
                self._ring()
                if self._closing and not self._unsent.has_unsent:
                    return False
                next_ledger = await self._chain.next_ledger()
            except Trouble as error:
                if not error.retryable and not isinstance(error, client_errors.WriterStopped):
                    raise
                _logger.warning("log %s: its next ledger waits: %s", self.name, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            else:
                self._begin(self._running(next_ledger, self._chain.next_sequence))
                return True

    def _running(self, writer: Writer, first: int) -> RunningLedger:
        opening_bytes = len(self._chain.opening(first, None))  # each is as long as this one
        tally = LedgerTally(writer.ledger_id, first, opening_bytes)
        return RunningLedger(writer, tally, self._chain.record.rules)

    def _begin(self, ledger: RunningLedger) -> None:
        self._ledger = ledger
        self._timer.cancel()
        self._timer = self._loop.call_at(ledger.old_s, self._ring)
        self._ring()

    def _halt(self) -> None:
        """Stop the writing of all ledgers at once."""
        self._ledger.writer.halt()
        if self._old is not None:
            self._old.writer.halt()
        if self._ahead is not None:
            self._ahead.halt()

    @property
    def _all_sent(self) -> bool:
        return self._closing and not self._unsent.has_unsent

    def _is_confirmed(self, ledger: RunningLedger) -> bool:
        """Has a ledger confirmed all that it will ever be sent?"""
        return ledger.sealed and not self._unsent.in_flight(ledger.id)

    async def _send(self) -> None:
        """Send what is pending, until the writer closes; change ledgers when the next one is there.

        Only this task sends, and it alone changes the ledger: so what was sent to a ledger before
        the change is all that it ever gets.
        """
        while True:
            while (
                self._unsent.has_unsent and self._unsent.in_flight(self._ledger.id) < IN_FLIGHT_MAX
            ):
                await self._change()
                await self._send_one()
            if self._all_sent:
                self._ledger.sealed = True
                self._ring()
                return
            await self._change()
            await self._changed.wait()

    async def _change(self) -> None:
        """Go on in the ledger that was made ahead, if there is one."""
        if self._ahead is None:
            return
        old = self._ledger
        opening = self._chain.opening(old.tally.following, old.tally.predecessor)
        await self._ahead.append(opening)
        ledger = self._running(self._ahead, old.tally.following)
        self._ahead, self._old, old.sealed = None, old, True
        self._begin(ledger)

    async def _send_one(self) -> None:
        self._last_wall_ms = max(self._last_wall_ms, self._wall_ms())
        batch, tally = self._unsent.take(), self._ledger.tally
        raw = batches.build(batch.many, place=batch.first - tally.first, wall_ms=self._last_wall_ms)
        try:
            entry = await self._ledger.writer.append(raw)
        except BaseException:
            self._unsent.put_back(batch)
            raise
        self._unsent.sent(batch, self._ledger.id, entry)
        tally.sent(entry, messages=len(batch.many), size_bytes=len(raw), wall_ms=self._last_wall_ms)
        self._ring()

    async def _hear(self, ledger: RunningLedger) -> None:
        """Hear of a ledger's acknowledgements, until it has confirmed all that it will get."""
        first_sent = partial(self._unsent.first_sent, ledger.id)
        while True:
            await self._until(lambda: first_sent() is not None or self._is_confirmed(ledger))
            if (entry := first_sent()) is None:
                return
            await ledger.writer.flushed(entry)
            self._unsent.confirmed(ledger.id, ledger.writer.last_confirmed)
            self._hold(self._unsent.used_bytes)
            self._ring()

    async def _rotate(self, group: asyncio.TaskGroup) -> None:
        """Make each next ledger when the present one is full, and finish the one before."""
        while True:
            await self._until(lambda: self._ledger.is_full or self._ledger.sealed)
            if self._ledger.sealed or not await self._make_ahead():
                return
            await self._until(lambda: self._old is not None or self._ledger.sealed)
            if self._old is None:
                if self._ahead is not None:
                    await self._keep_trying(partial(self._chain.discard, self._ahead))
                return
            group.create_task(self._hear(self._ledger))
            await self._finish(self._old)

    async def _make_ahead(self) -> bool:
        """Make the next ledger; False: the writer closes, and needs none."""
        pause_s = _PAUSE_S
        while not self._all_sent:
            try:
                self._ahead = await self._chain.make_ahead(self._ledger.id)
            except Trouble as error:
                if not error.retryable and not isinstance(error, client_errors.ClientError):
                    raise
                if isinstance(error, client_errors.ClientClosed):
                    raise
                _logger.warning(
                    "log %s: no next ledger, its last one goes on: %s", self.name, error
                )
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            else:
                self._ring()
                return True
        return False

    async def _finish(self, old: RunningLedger) -> None:
        """Close the ledger before the present one, and put its end into the record."""
        await self._until(lambda: self._is_confirmed(old) and self._told is not old)
        await self._keep_trying(old.writer.close)
        await self._keep_trying(lambda: self._chain.end(old.id, old.tally.end()))
        self._visible = max(self._visible, old.tally.following)
        self._old = None
        self._ring()

    async def _keep_trying(self, step: Callable[[], Awaitable[Result]]) -> Result:
        """Do a step at the store, however long the store is away."""
        pause_s = _PAUSE_S
        while True:
            try:
                return await step()
            except Trouble as error:
                if not error.retryable:
                    raise
                _logger.warning("log %s: a rotation waits: %s", self.name, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    async def _tell(self) -> None:
        """Make readers see what calls wait for, until the last ledger has confirmed all.

        Of the present ledger they see nothing while the one before has no end in the record.
        """
        while True:
            await self._until(
                lambda: self._is_confirmed(self._ledger) or self._visible < self._to_tell
            )
            if self._is_confirmed(self._ledger):
                return
            ledger, upto = self._old or self._ledger, self._to_tell
            self._told = ledger
            try:
                await ledger.writer.tell_confirmed()
            except client_errors.LacNotTold as error:
                _logger.warning("log %s: %s", self.name, error)
                await asyncio.sleep(_PAUSE_S)
            else:
                self._visible = max(self._visible, upto)
            finally:
                self._told = None
                self._ring()

    @property
    def _to_tell(self) -> int:
        """What a call waits for, and could be told now: messages below this sequence."""
        wanted = min(self._wanted, self._unsent.acked)
        if self._old is None:
            return wanted
        if self._is_confirmed(self._old):
            return self._visible  # it is being closed, and readers will see all of it
        return min(wanted, self._old.tally.following)

    # ── what calls wait for ──

    def _has_room(self, size: int) -> bool:
        return self._budget.has_room(size, held_bytes=self._held_bytes)

    def _hold(self, size_bytes: int) -> None:
        """Hold so much of the budget."""
        before, self._held_bytes = self._held_bytes, size_bytes
        self._budget.change(size_bytes - before)

    def _ring(self) -> None:
        """Let every call that waits look again."""
        self._changed.set()
        self._changed.clear()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._ended:
                raise self._over()
            await self._changed.wait()

    def _check(self) -> None:
        if self._ended or self._closing:
            raise self._over()

    def _check_given(self, sequence: int) -> None:
        if not 0 <= sequence < self._unsent.given:
            raise errors.NotAppended(
                f"log {self.name}: message {sequence} was not appended; the next one is "
                f"{self._unsent.given}"
            )

    def _over(self) -> Trouble:
        if isinstance(self._failure, LogTaken):
            return LogTaken(f"log {self.name}: {self._failure}")
        if self._failure is not None:
            return errors.LogEnded(f"log {self.name}: the writer has ended: {self._failure}")
        return errors.LogEnded(f"log {self.name}: the writer was closed", maybe_applied=False)
