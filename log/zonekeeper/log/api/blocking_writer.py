"""The writer of a log for code that does not await; it is made by ``blocking.BlockingLogs``.

``append`` makes a trip to the event loop and back for each message, ``append_many`` one for each
MiB.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

from zonekeeper.client.api.loop_objects import LoopObject
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.base.errors import WaitTimedOut
from zonekeeper.client.base.time_limits import TimeLimit
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.message_ids import MessageId

#: Messages of so many bytes go to the loop at once.
_TURN_BYTES: Final = 1 << 20
#: And at most so many: messages may be empty.
_TURN_MESSAGES: Final = 10_000

Result = TypeVar("Result")


class BlockingLogWriter(LoopObject):
    """See ``log_writer.LogWriter``. A call whose ``timeout`` is over raises ``WaitTimedOut``."""

    def __init__(self, opened: LogWriter, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._writer = opened

    @property
    def name(self) -> str:
        """The log's name."""
        return self._writer.name

    @property
    def next_sequence(self) -> int:
        """The sequence of the next message that is appended."""
        return self._writer.next_sequence

    @property
    def is_downgraded(self) -> bool:
        """Has the newest ledger only the log's minimum of quorums? For an alert."""
        return self._writer.is_downgraded

    @property
    def first_unstored(self) -> int:
        """The messages below this sequence are stored."""
        return self._writer.first_unstored

    @property
    def first_unforced(self) -> int:
        """The messages below this sequence are on the disks of an ack quorum."""
        return self._writer.first_unforced

    def append(self, message: LogMessage, timeout: float | None = None) -> int:
        """Append a message, and give its sequence; wait only while the byte budget is spent."""
        return self._within(timeout, lambda: self._writer.append(message), self._no_room)

    def append_many(self, many: Iterable[LogMessage], timeout: float | None = None) -> int:
        """Append messages in order, and give the sequence after the last one.

        The messages are taken from ``many`` in this thread, and go to the loop in portions. If the
        call ends with an error, some may have been appended: ``next_sequence`` says how many.
        """
        limit = TimeLimit(timeout, self._calls.now_s)
        for portion in _portions(many):
            append = partial(self._writer.append_many, portion)
            self._within(limit.left_s, append, self._no_room)
        return self.next_sequence

    def append_and_wait(
        self, message: LogMessage, *, stored: bool = False, timeout: float | None = None
    ) -> int:
        """Append a message, and wait until it is readable; with ``stored``, until it is stored."""
        append = partial(self._writer.append_and_wait, message, stored=stored)
        return self._within(timeout, append, self._not_yet if stored else self._not_shown)

    def stored(self, sequence: int, timeout: float | None = None) -> None:
        """Wait until a message, and so everything before it, is in the log for good."""
        self._within(timeout, lambda: self._writer.stored(sequence), self._not_yet)

    def force(self, timeout: float | None = None) -> None:
        """Wait until everything that was appended so far is in the log for good."""
        self._within(timeout, self._writer.force, self._not_forced)

    def flushed(self, sequence: int, timeout: float | None = None) -> MessageId:
        """Wait until every reader whose look begins afterwards sees a message; give its id."""
        return self._within(timeout, lambda: self._writer.flushed(sequence), self._not_shown)

    def _within(
        self,
        timeout: float | None,
        work: Callable[[], Coroutine[None, None, Result]],
        over: Callable[[], WaitTimedOut],
    ) -> Result:
        limit = TimeLimit(timeout, self._calls.now_s)
        return self._calls.do(lambda: limit.hold(work(), over))

    def _no_room(self) -> WaitTimedOut:
        return WaitTimedOut(
            f"log {self.name}: there was no room for the message; the next sequence is "
            f"{self._writer.next_sequence}: what is below it was appended, nothing else was"
        )

    def _not_yet(self) -> WaitTimedOut:
        return WaitTimedOut(
            f"log {self.name}: messages below {self._writer.first_unstored} are stored, of those "
            f"below {self.next_sequence} that were appended; the others are on their way: wait "
            "again for them"
        )

    def _not_forced(self) -> WaitTimedOut:
        return WaitTimedOut(
            f"log {self.name}: messages below {self._writer.first_unforced} are on the disks of an "
            f"ack quorum, of those below {self.next_sequence} that were appended; nothing is lost: "
            "force again"
        )

    def _not_shown(self) -> WaitTimedOut:
        return WaitTimedOut(
            f"log {self.name}: readers may not see the message yet; messages below "
            f"{self._writer.first_unstored} are stored, of those below {self.next_sequence} that "
            "were appended: wait again with flushed()"
        )


def _portions(many: Iterable[LogMessage]) -> Iterator[list[LogMessage]]:
    portion, size_bytes = list[LogMessage](), 0
    for message in many:
        portion.append(message)
        size_bytes += batches.size_bytes(message)
        if size_bytes >= _TURN_BYTES or len(portion) >= _TURN_MESSAGES:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion
