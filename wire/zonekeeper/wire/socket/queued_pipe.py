"""A stream of messages over a connection, for a reader that asks for one after the other.

What came and was not asked for is bounded: beyond ``QUEUE_BYTES``, or ``QUEUE_MESSAGES``, the
connection is not read, and TCP's own flow control stops the peer.
"""

import asyncio
from collections import deque
from typing import Final

from zonekeeper.wire.socket.connection import (
    Connection,
    ConnectionTimes,
    HalfMessages,
    Message,
    Taker,
)

QUEUE_BYTES: Final = 1 << 20
QUEUE_MESSAGES: Final = 256


class QueuedPipe:
    """A ``pipes.Pipe``, and the ``Taker`` of its connection."""

    def __init__(
        self, *, times: ConnectionTimes, bytes_max: int, halves: HalfMessages | None = None
    ) -> None:
        self.connection = Connection(self, times=times, bytes_max=bytes_max, halves=halves)
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()

    def taken(self, message: Message) -> None:
        """Queue a message."""
        self._messages.append(message)
        self._bytes += len(message)
        self._changed.set()
        if self._is_full():
            self.connection.pause_reading()

    def ended(self) -> None:
        """Let the reader hear of the end."""
        self._changed.set()

    def writable(self) -> None:
        """Do nothing: ``send`` waits for this by itself."""

    def hand_over(self, taker: Taker) -> None:
        """Let another taker have what is queued, and all that comes."""
        left = list(self._messages)
        self._messages.clear()
        self._bytes = 0
        self.connection.pass_to(taker, left)

    async def send(self, message: bytes) -> None:
        """Send a message; waits while the peer takes nothing."""
        await self.connection.send(message)

    async def receive(self) -> Message | None:
        """Wait for a message; None if the peer ended the stream without an error."""
        while not self._messages:
            if self.connection.is_over:
                if (failure := self.connection.failure) is not None:
                    raise failure
                return None
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        self._bytes -= len(message)
        if not self._is_full():
            self.connection.resume_reading()
        return message

    def _is_full(self) -> bool:
        return self._bytes >= QUEUE_BYTES or len(self._messages) >= QUEUE_MESSAGES
