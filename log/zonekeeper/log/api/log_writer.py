"""The writer of a log, for applications.

``append`` gives a message its sequence and returns. It never waits for the network, but for room in
the byte budget. ``stored(sequence)`` waits until the message is acknowledged: it is in the log for
good. ``flushed(sequence)`` waits until every reader whose look begins afterwards sees it, and gives
its id. That takes the bookies' knowledge of the last confirmed entry, which is told once for all
calls that wait.

With deferred sync a message is stored when an ack quorum has it in memory. Then it is lost only if
this writer ends before ``force``, or ``flushed``, which forces, and so many bookies lose power that
no ack quorum of disks has it. The end of the writer's block forces everything.

Tasks of the writer carry out everything (``sessions.log_writing``). They change ledgers when one is
full or fails, and send again what the log turned out not to hold. The writer ends for good when the
record of the log names another one.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.log.base import errors
from zonekeeper.log.base.log_figures import LogWriterFigures
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.sessions import chain
from zonekeeper.log.sessions.log_writing import LogWriting
from zonekeeper.log.sessions.writing_state import WritingState
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.metadata.formats.log_record import LogTaken, LogWriterMark
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.store.background import alongside

#: So many messages of a list are taken in one step, if they go into one batch.
PORTION: Final = 256


@asynccontextmanager
async def opened(  # noqa: PLR0913 each is a wish of its own, and has a name
    client: Client,
    name: str,
    mark: LogWriterMark,
    wall_ms: Callable[[], int],
    *,
    budget: LogBudget | None = None,
    figures: LogWriterFigures | None = None,
    deferred_sync: bool = False,
) -> AsyncIterator["LogWriter"]:
    """Open a log for writing, until the block ends; raises ``LogTaken`` if another was faster.

    ``mark.token`` was drawn for this call. Without a ``budget`` the writer has one of its own. The
    end of the block closes the writer. Where the block raises, the writer stops at once.
    """
    figures = figures or LogWriterFigures()
    held = await chain.claimed(client, name, mark, deferred_sync=deferred_sync)
    figures.takeovers_total += held.was_open
    state = WritingState(held, await held.begin(), budget or LogBudget(), figures)
    writer = LogWriter(state, wall_ms)
    try:
        async with alongside(writer.run()):
            yield writer
            await writer.close()
    finally:
        if not state.ended:  # the block raised at once: its task was cancelled before it ran
            state.halt()
            state.end()


class LogWriter:
    """The one writer of a log."""

    def __init__(self, state: WritingState, wall_ms: Callable[[], int]) -> None:
        self._chain = state.chain
        #: The number of this writer's claim; it ascends from writer to writer.
        self.epoch: Final = state.chain.record.epoch
        self._state = state
        self._unsent = state.unsent
        self._writing = LogWriting(state, wall_ms)

    @property
    def name(self) -> str:
        """The log's name."""
        return self._chain.name

    @property
    def is_over(self) -> bool:
        """Does the writer take no appends any more: is it being closed, or has it ended?"""
        return self._state.closing or self._state.ended

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
        return self._unsent.stored

    @property
    def first_unforced(self) -> int:
        """The messages below this sequence are on the disks of an ack quorum.

        Without deferred sync that is so as soon as they are stored.
        """
        return self._unsent.acked

    async def append(self, message: LogMessage) -> int:
        """Append a message, and give its sequence; wait only while the byte budget is spent.

        A call that is cancelled has appended nothing. Raises ``BadMessageError`` for a message that
        breaks a limit.
        """
        size = batches.size_bytes(message)
        if not self._state.takes(size):
            await self._state.until_takes(size)
        return self._state.put(message, size)

    async def append_many(self, many: Iterable[LogMessage]) -> int:
        """Append messages in order, and give the sequence after the last one.

        If the call is cancelled or fails, some may have been appended: ``next_sequence`` says how
        many. Messages in a list or a tuple cost less than those of other iterables.
        """
        if isinstance(many, list | tuple):
            for at in range(0, len(many), PORTION):
                portion = many[at : at + PORTION]
                size = batches.total_bytes(portion)
                if size is None or not self._state.put_all(portion, size):
                    await self._append_each(portion)
        else:
            await self._append_each(many)
        return self._unsent.given

    async def _append_each(self, many: Iterable[LogMessage]) -> None:
        for message in many:
            await self.append(message)

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
        await self._state.until_stored(sequence)

    async def force(self) -> None:
        """Wait until everything that was appended so far is in the log for good.

        Without deferred sync that is so as soon as it is stored.
        """
        if self._unsent.given:
            await self._state.until_forced(self._unsent.given - 1)

    async def flushed(self, sequence: int) -> MessageId:
        """Wait until every reader whose look begins afterwards sees a message; give its id."""
        self._check_given(sequence)
        await self._state.until_visible(sequence)
        known = self._unsent.id_of(sequence)
        return known or await self._chain.id_of(sequence)

    async def close(self) -> None:
        """Wait until everything is stored, and close the last ledger; raises why that failed."""
        self._state.closing = True
        self._state.ring()
        await self._state.until_ended()
        if self._state.failure is not None:
            raise self._state.failure

    async def ended(self) -> None:
        """Wait until the writer has ended, for whatever reason."""
        await self._state.until_ended()

    @property
    def is_taken(self) -> bool:
        """Has the writer ended because another one claimed the log?"""
        return isinstance(self._state.failure, LogTaken)

    async def run(self) -> None:
        """Carry out the writing, until the writer is closed or has lost the log."""
        await self._writing.run()

    def _check_given(self, sequence: int) -> None:
        if not 0 <= sequence < self._unsent.given:
            raise errors.NotAppended(
                f"log {self.name}: message {sequence} was not appended; the next one is "
                f"{self._unsent.given}"
            )
