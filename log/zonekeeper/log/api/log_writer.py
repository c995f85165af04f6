"""The writer of a log, for applications.

``append`` gives a message its sequence and returns. It never waits for the network, but for room in
the byte budget. ``stored(sequence)`` waits until the message is acknowledged: it is in the log for
good. ``flushed(sequence)`` waits until every reader whose look begins afterwards sees it, and gives
its id. That takes the bookies' knowledge of the last confirmed entry, which is told once for all
calls that wait.

One task carries out everything. It writes one ledger until that one is full or fails, settles it,
and goes on in the next one. Nothing of the next ledger is sent before the end of the one before it
stands in the record. So no reader sees a message that could still be dropped, nothing is in the log
twice, and nothing is out of order. Messages that wait meanwhile take room of the budget only.

A ledger that fails does not end the writer. While the record names this writer, the writer recovers
the ledger, sends again exactly what the ledger turned out not to hold, and goes on. The writer ends
for good when the record names another one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base import errors
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.sessions import chain
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.writing.unsent import Unsent
from zonekeeper.metadata.formats.log_record import LogTaken, LogWriterMark
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.store.background import alongside, together
from zonekeeper.placement.base.troubles import Trouble

#: While so many batches are on their way, messages wait for the next one and fill it.
IN_FLIGHT_MAX: Final = 3
BUDGET_BYTES: Final = 64 << 20
#: The pause after a failure that may pass; doubled each time, up to the second one.
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def opened(
    client: Client,
    name: str,
    mark: LogWriterMark,
    wall_ms: Callable[[], int],
    *,
    budget_bytes: int = BUDGET_BYTES,
) -> AsyncIterator["LogWriter"]:
    """Open a log for writing, until the block ends; raises ``LogTaken`` if another was faster.

    ``mark.token`` was drawn for this call. The end of the block closes the writer. Where the block
    raises, the writer stops at once.
    """
    held = await chain.claimed(client, name, mark)
    writer = LogWriter(held, await held.begin(), wall_ms, budget_bytes)
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
        budget_bytes: int,
    ) -> None:
        self._chain = held
        self._ledger = first
        self._wall_ms = wall_ms
        self._budget_bytes = budget_bytes
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
        #: Rings when the ledger is old enough for a rotation.
        self._timer = self._loop.call_soon(self._ring)
        self._begin_ledger()

    @property
    def name(self) -> str:
        """The log's name."""
        return self._chain.name

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
        await self._until(lambda: self._has_room(size))
        sequence = self._unsent.append(message, size)
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

    async def run(self) -> None:
        """Carry out the writing, until the writer is closed or has lost the log."""
        try:
            await self._write()
        except Trouble as error:
            self._failure = error
            self._ledger.halt()
        except BaseException:
            self._ledger.halt()
            raise
        finally:
            self._ended = True
            self._timer.cancel()
            self._ring()

    # ── the task ──

    async def _write(self) -> None:
        while True:
            try:
                await together([self._send(), self._hear(), self._tell()])
                await self._ledger.close()
            except client_errors.ClientError as error:
                # What becomes of it is for the settling to say, and for the record.
                _logger.warning("log %s: its ledger is settled: %s", self.name, error)
                self._ledger.halt()
            if not await self._advance():
                return

    async def _advance(self) -> bool:
        """Settle the ledger, and begin the next one; False: the writer is closing, and is done."""
        pause_s = _PAUSE_S
        while True:
            try:
                await self._chain.settle()
                self._unsent.moved(self._chain.next_sequence)
                self._visible = max(self._visible, self._unsent.acked)
                self._ring()
                if self._closing and not self._unsent.has_unsent:
                    return False
                self._ledger = await self._chain.next_ledger()
            except Trouble as error:
                if not error.retryable and not isinstance(error, client_errors.WriterStopped):
                    raise
                _logger.warning("log %s: its next ledger waits: %s", self.name, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            else:
                self._begin_ledger()
                return True

    def _begin_ledger(self) -> None:
        self._first = self._chain.next_sequence
        self._ledger_bytes = 0
        self._sent_messages = 0
        self._finished = False
        rules = self._chain.record.rules
        self._rotate_s = self._loop.time() + rules.rotate_after_ms / 1_000
        self._timer.cancel()
        self._timer = self._loop.call_at(self._rotate_s, self._ring)

    @property
    def _is_full(self) -> bool:
        rules = self._chain.record.rules
        return self._sent_messages > 0 and (
            self._ledger_bytes >= rules.rotate_bytes
            or self._sent_messages >= rules.rotate_messages
            or self._loop.time() >= self._rotate_s
        )

    async def _send(self) -> None:
        """Send what is pending, until the ledger is full or the writer closes."""
        while True:
            while (
                self._unsent.has_unsent
                and self._unsent.in_flight < IN_FLIGHT_MAX
                and not self._is_full
            ):
                await self._send_one()
            done = self._is_full or (self._closing and not self._unsent.has_unsent)
            if done and not self._unsent.in_flight:
                self._finished = True
                self._ring()
                return
            await self._changed.wait()

    async def _send_one(self) -> None:
        self._last_wall_ms = max(self._last_wall_ms, self._wall_ms())
        batch = self._unsent.take()
        raw = batches.build(batch.many, place=batch.first - self._first, wall_ms=self._last_wall_ms)
        try:
            entry = await self._ledger.append(raw)
        except BaseException:
            self._unsent.put_back(batch)
            raise
        self._unsent.sent(batch, self._ledger.ledger_id, entry)
        self._ledger_bytes += len(raw)
        self._sent_messages += len(batch.many)
        self._ring()

    async def _hear(self) -> None:
        """Hear of acknowledgements, until the ledger is finished."""
        while True:
            await self._until(lambda: self._unsent.first_sent is not None or self._finished)
            if (entry := self._unsent.first_sent) is None:
                return
            await self._ledger.flushed(entry)
            self._unsent.confirmed(self._ledger.last_confirmed)
            self._ring()

    async def _tell(self) -> None:
        """Make readers see what calls wait for, until the ledger is finished."""
        while True:
            await self._until(
                lambda: self._finished or self._visible < min(self._wanted, self._unsent.acked)
            )
            if self._finished:
                return
            acked = self._unsent.acked
            try:
                await self._ledger.tell_confirmed()
            except client_errors.LacNotTold as error:
                _logger.warning("log %s: %s", self.name, error)
                await asyncio.sleep(_PAUSE_S)
                continue
            self._visible = max(self._visible, acked)
            self._ring()

    # ── what calls wait for ──

    def _has_room(self, size: int) -> bool:
        used = self._unsent.used_bytes
        return used == 0 or used + size <= self._budget_bytes

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
