"""A stream over a connection without a queue: each message goes to its inlet as it comes.

Nothing runs between the socket and the core of either end: no task, no event, no future for a
message.
"""

import asyncio

from zonekeeper.wire.contract.inlets import Inlet
from zonekeeper.wire.socket.connection import Connection, Message


class FlatStream:
    """An ``inlets.FlatWay``, and the ``Taker`` of its connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inlet: Inlet | None = None
        self._over = asyncio.Event()

    def begin(self, inlet: Inlet) -> None:
        """Hand messages to this inlet."""
        self._inlet = inlet

    def taken(self, message: Message) -> None:
        """Hand over a message."""
        assert self._inlet is not None
        self._inlet.taken(message)

    def ended(self) -> None:
        """Note the end of the connection."""
        self._over.set()

    def writable(self) -> None:
        """Let the inlet go on."""
        if self._inlet is not None and not self._connection.is_over:
            self._inlet.has_room_again()

    @property
    def has_room(self) -> bool:
        """Does the peer take what it is sent?"""
        return self._connection.has_room

    def put(self, message: bytes) -> None:
        """Send a message."""
        if not self._connection.is_over:
            self._connection.put(message)

    def hold(self) -> None:
        """Read nothing more for now."""
        self._connection.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        self._connection.resume_reading()

    async def over(self) -> None:
        """Wait until the connection ends; raises the error that ended it."""
        await self._over.wait()
        if (failure := self._connection.failure) is not None:
            raise failure
