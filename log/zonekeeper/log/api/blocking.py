"""The client of logs for code that does not await: scripts, notebooks, Spark's workers.

The names are those of ``log_client``, ``log_writer`` and ``log_reader``, whose docstrings say what
each call does. Here a call returns when it is done. Threads may share all objects except streams
(the results of ``read``, ``names`` and ``namespaces``) and followers, which belong to the thread
that iterates over them. A writer's block closes the log at its end. If the block raises, the writer
stops at once, like a process that dies. A process that ends inside a writer's block waits some
seconds for the acknowledgements of its messages (``client.api.exit_flush``).

No object here can be sent to another process, and none works in a forked child. Send the address
and the ``ClientConfig``, and call ``connect`` there. Each call costs a trip to the event loop and
back: ``append`` makes one for each message, ``append_many`` one for each MiB, and reading one for
each batch.
"""

import asyncio
import warnings
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterator,
)
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from typing import Self, TypeVar

from zonekeeper.client.api import exit_flush, loop_thread
from zonekeeper.client.api.exit_flush import Lacking
from zonekeeper.client.api.loop_objects import LoopObject, streamed
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.base import arguments
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import TailClosed, WaitTimedOut
from zonekeeper.log.api import log_client
from zonekeeper.log.api.blocking_writer import BlockingLogWriter
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.log.api.log_reader import LogReader, ReadMessage, ReadMessages
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.log_figures import LogFigures
from zonekeeper.log.sessions.rebuilding import RebuiltLog
from zonekeeper.log.standby import handing_over
from zonekeeper.log.standby.handing_over import HandedOver, SeenCandidate
from zonekeeper.log.writing.budget import BUDGET_BYTES
from zonekeeper.metadata.formats.log_record import LogRecord, LogRules
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs.log_cursor import CursorMark
from zonekeeper.placement.base.troubles import Trouble

Result = TypeVar("Result")


@contextmanager
def connect(
    uri: str, config: ClientConfig | None = None, *, budget_bytes: int = BUDGET_BYTES
) -> Iterator["BlockingLogs"]:
    """Give a client of the logs of the cluster at a metadata address, until the block ends.

    ``budget_bytes``: what all writers of this client together may hold.
    """
    with over(log_client.connect(uri, config, budget_bytes=budget_bytes)) as logs:
        yield logs


@contextmanager
def over(opening: AbstractAsyncContextManager[LogClient]) -> Iterator["BlockingLogs"]:
    """Give a client over an async client, which is opened, used and closed on the loop."""
    with loop_thread.opened(opening) as (opened, calls):
        yield BlockingLogs(opened, calls)


class BlockingLogs(LoopObject):
    """See ``log_client.LogClient``. Make it with ``connect``."""

    def __init__(self, opened: LogClient, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._logs = opened

    def create(self, name: str, rules: LogRules | None = None, *, first_sequence: int = 0) -> None:
        """Create a log; raises ``LogExistsError``, and changes nothing."""
        self._calls.do(lambda: self._logs.create(name, rules, first_sequence=first_sequence))

    @property
    def figures(self) -> LogFigures:
        """The numbers of this client's logs, for a page of metrics."""
        return self._logs.figures

    @contextmanager
    def writer(
        self, name: str, *, address: str = "", deferred_sync: bool = False
    ) -> Iterator[BlockingLogWriter]:
        """Take a log over for writing, until the block ends; the end closes the log."""
        dead: list[bool] = []
        self._calls.check()
        opening = self._logs.writer(name, address=address, deferred_sync=deferred_sync)
        held = _held(opening, dead)
        with loop_thread.opened(held) as (writer, calls):

            async def flush(most_s: float) -> Lacking:
                return await _flushed(writer, most_s)

            with exit_flush.watched(flush, calls):
                try:
                    yield BlockingLogWriter(writer, calls)
                except BaseException as error:
                    dead.append(True)
                    if isinstance(error, GeneratorExit) and not calls.forked:
                        _warn_of_drop(writer)
                    raise

    def reader(self, name: str) -> "BlockingLogReader":
        """Give a reader of a log; the log is looked up when it is read."""
        return BlockingLogReader(self._logs.reader(name), self._calls)

    def record(self, name: str) -> LogRecord:
        """Give the record of a log, no older than this call; raises ``NoLogError``."""
        return self._calls.do(lambda: self._logs.record(name))

    def set_rules(self, name: str, rules: LogRules) -> None:
        """Set all rules of a log. Its writer follows them from its next ledger on."""
        self._calls.do(lambda: self._logs.set_rules(name, rules))

    def change_rules(self, name: str, change: Callable[[LogRules], LogRules]) -> LogRules:
        """Change some rules of a log; ``change`` runs on the loop, perhaps several times."""
        return self._calls.do(lambda: self._logs.change_rules(name, change))

    def trim(self, name: str, sequence: int) -> None:
        """Forget all messages before one; ledgers that have only such messages are deleted."""
        self._calls.do(lambda: self._logs.trim(name, sequence))

    def trim_to_id(self, name: str, message: MessageId) -> None:
        """Forget all messages before the one with an id."""
        self._calls.do(lambda: self._logs.trim_to_id(name, message))

    def trim_to_time(self, name: str, wall_ms: int) -> None:
        """Forget the messages before the first one that may be of a time or later."""
        self._calls.do(lambda: self._logs.trim_to_time(name, wall_ms))

    def trim_to_bytes(self, name: str, keep_bytes: int) -> None:
        """Forget the oldest ledgers, such that the others have at least so many bytes."""
        self._calls.do(lambda: self._logs.trim_to_bytes(name, keep_bytes))

    def trim_by_rules(self, name: str) -> bool:
        """Trim as the log's rules say; give whether the start moved."""
        return self._calls.do(lambda: self._logs.trim_by_rules(name))

    def delete(self, name: str) -> None:
        """Delete a log with all its messages and cursors; raises ``NoLogError``."""
        self._calls.do(lambda: self._logs.delete(name))

    def cursor(
        self, name: str, cursor: str, *, at_end: bool = False, address: str = ""
    ) -> "BlockingLogCursor":
        """Open a consumer's cursor, and take it from the consumer that had it."""
        held = self._calls.do(
            lambda: self._logs.cursor(name, cursor, at_end=at_end, address=address)
        )
        return BlockingLogCursor(held, self._calls)

    def cursors(self, name: str) -> dict[str, CursorMark]:
        """Give the cursors of a log by their names."""
        return self._calls.do(lambda: self._logs.cursors(name))

    def delete_cursor(self, name: str, cursor: str) -> None:
        """Delete a cursor, also one that a consumer has open; raises ``NoCursorError``."""
        self._calls.do(lambda: self._logs.delete_cursor(name, cursor))

    def rebuild(
        self,
        name: str,
        *,
        rules: LogRules | None = None,
        log_id: str | None = None,
        without: Collection[int] = (),
    ) -> RebuiltLog:
        """Make the record of a log anew that was lost, or is older than the log's ledgers."""
        return self._calls.do(
            lambda: self._logs.rebuild(name, rules=rules, log_id=log_id, without=without)
        )

    def candidates(self, name: str) -> list[SeenCandidate]:
        """Give the candidates of a log, the one that should write first."""
        return self._calls.do(lambda: self._logs.candidates(name))

    def handover(
        self, name: str, to: str, *, timeout_s: float = handing_over.TIMEOUT_S
    ) -> HandedOver:
        """Have the candidate that writes a log hand it over to another one; nothing is lost."""
        return self._calls.do(lambda: self._logs.handover(name, to, timeout_s=timeout_s))

    def namespaces(self) -> Generator[str, None, None]:
        """List the namespaces that have logs; ``""``: logs whose name has one part."""
        return streamed(self._calls, self._logs.namespaces)

    def names(self, namespace: str = "") -> Generator[str, None, None]:
        """List the logs of one namespace, in an order that is always the same."""
        return streamed(self._calls, lambda: self._logs.names(namespace))


class BlockingLogReader(LoopObject):
    """See ``log_reader.LogReader``."""

    def __init__(self, opened: LogReader, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._reader = opened

    @property
    def name(self) -> str:
        """The log's name."""
        return self._reader.name

    def earliest(self) -> MessageId | None:
        """Give the first message that is kept; None: from the log's beginning on."""
        return self._calls.do(self._reader.earliest)

    def latest(self) -> MessageId | None:
        """Give the place behind the last message that a reader sees now."""
        return self._calls.do(self._reader.latest)

    def end(self) -> int:
        """Give the sequence that follows the last message that a reader sees now."""
        return self._calls.do(self._reader.end)

    def at_sequence(self, sequence: int) -> MessageId:
        """Give the id of the message with a sequence."""
        return self._calls.do(lambda: self._reader.at_sequence(sequence))

    def sequence_of(self, message_id: MessageId) -> int:
        """Give the sequence of the message with an id."""
        return self._calls.do(lambda: self._reader.sequence_of(message_id))

    def at_time(self, wall_ms: int) -> MessageId | None:
        """Give the first message that may be of a time or later; None: there is none yet."""
        return self._calls.do(lambda: self._reader.at_time(wall_ms))

    def read(self, start: MessageId | None = None) -> Generator[ReadMessages, None, None]:
        """Read batches from a message on (None: from the earliest) to the end as it is now."""
        return streamed(self._calls, lambda: self._reader.read(start))

    def read_messages(self, start: MessageId | None = None) -> Generator[ReadMessage, None, None]:
        """Read like ``read``, message by message."""
        with closing(self.read(start)) as many:
            for batch in many:
                yield from batch

    def follow(self, start: MessageId | None = None) -> "LogFollower":
        """Read from a message on (None: from the earliest), and go on as the log grows."""
        return LogFollower(lambda: self._reader.follow(start), self._reader, self._calls)


class BlockingLogCursor(LoopObject):
    """See ``log_cursor.LogCursor``."""

    def __init__(self, opened: LogCursor, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._cursor = opened

    @property
    def sequence(self) -> int:
        """The sequence of the message that is read next."""
        return self._cursor.sequence

    def read(self) -> Generator[ReadMessages, None, None]:
        """Read from the cursor on to the end as it is now; the cursor itself stays."""
        return streamed(self._calls, self._cursor.read)

    def follow(self) -> "LogFollower":
        """Read from the cursor on, and go on as the log grows; the cursor itself stays."""
        return LogFollower(self._cursor.follow, self._cursor, self._calls)

    def move(self, behind: ReadMessages | ReadMessage) -> None:
        """Move behind a message, or behind all messages of a batch, that were read."""
        self._calls.do(lambda: self._cursor.move(behind))

    def seek(self, message: MessageId) -> None:
        """Read a message next; raises ``LogTrimmed`` or ``NotInLog``, and the cursor stays."""
        self._calls.do(lambda: self._cursor.seek(message))

    def seek_earliest(self) -> None:
        """Read the earliest message next that is kept."""
        self._calls.do(self._cursor.seek_earliest)

    def seek_end(self) -> None:
        """Read next what is appended from now on."""
        self._calls.do(self._cursor.seek_end)

    def lag(self) -> int:
        """Give the number of confirmed messages that the consumer has not passed yet."""
        return self._calls.do(self._cursor.lag)


class LogFollower(LoopObject):
    """Follows a log as it grows. A wait that times out or is interrupted loses no message.

    A batch counts as given when this thread takes it, not when the loop has it. So the number of
    the batch is kept here, and each call to the loop asks for a batch by its number.
    """

    def __init__(
        self,
        begin: Callable[[], AsyncGenerator[ReadMessages, None]],
        over: LogReader | LogCursor,
        calls: Calls,
    ) -> None:
        super().__init__(calls, over)
        self._fetched = calls.do_now(lambda: _Fetched(begin()))
        self._given = 0
        #: A follower that nobody has any more stops; this takes no lock and waits for nothing.
        self._abandon = weakref.finalize(self, calls.drop, self._fetched.stop)
        self._abandon.atexit = False

    def next(self, timeout: float | None = None) -> ReadMessages:
        """Wait for the next batch."""
        arguments.check_timeout(timeout)
        batch = self._calls.do(lambda: self._fetched.at(self._given, timeout))
        self._given += 1
        return batch

    def close(self) -> None:
        """Stop following."""
        self._abandon()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReadMessages:
        return self.next()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Fetched:
    """A stream on the loop, of which the batch with the highest number is kept."""

    def __init__(self, stream: AsyncGenerator[ReadMessages, None]) -> None:
        self._stream = stream
        self._number = -1
        self._coming: asyncio.Future[ReadMessages] | None = None
        self._stopped = False

    async def at(self, number: int, timeout_s: float | None) -> ReadMessages:
        """Give the batch with a number: the one that was given last, or the next one."""
        if self._stopped:
            raise TailClosed("the follower of the log was closed; nothing was taken")
        if self._coming is None or number != self._number:
            assert number == self._number + 1, "a batch is asked for after the one before it"
            self._coming, self._number = asyncio.ensure_future(anext(self._stream)), number
            self._coming.add_done_callback(_noted)
        done, _ = await asyncio.wait({self._coming}, timeout=timeout_s)
        if not done:
            raise WaitTimedOut("no message has come in this time; nothing is lost: wait again")
        if self._stopped:
            raise TailClosed("the follower of the log was closed meanwhile; nothing was taken")
        return self._coming.result()

    def stop(self) -> None:
        """Stop. A call that waits, and any later one, raises ``TailClosed``."""
        self._stopped = True
        if self._coming is not None:
            self._coming.cancel()


def _noted(coming: "asyncio.Future[ReadMessages]") -> None:
    """Take note of an error that nobody waits for."""
    if not coming.cancelled():
        coming.exception()


class _Died(Exception):
    """The block of a writer has raised."""


@asynccontextmanager
async def _held(
    opening: AbstractAsyncContextManager[LogWriter], dead: list[bool]
) -> AsyncIterator[LogWriter]:
    """Hold a writer until the block ends; ``dead`` is filled before if the block has raised."""
    with suppress(_Died):
        async with opening as writer:
            yield writer
            if dead:
                raise _Died


def _warn_of_drop(writer: LogWriter) -> None:
    lacking = range(writer.first_unstored, writer.next_sequence)
    lost = f"; messages {lacking[0]} to {lacking[-1]} are not acknowledged" if lacking else ""
    warnings.warn(
        f"log {writer.name}: its writer was dropped inside its block, and stops{lost}: leave the "
        "block of a writer",
        ResourceWarning,
        stacklevel=2,
    )


async def _flushed(writer: LogWriter, most_s: float) -> Lacking:
    """Wait until everything that was appended is in the log for good, and give what is not."""
    end = writer.next_sequence
    if writer.first_unstored < end:
        try:
            async with asyncio.timeout(most_s):
                await writer.force()
        except (TimeoutError, Trouble):
            pass
    lacking = range(writer.first_unstored, end)
    return {(f"log {writer.name}", "messages"): lacking} if lacking else {}
