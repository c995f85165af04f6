"""Streams whose messages are handed over as they come: no task, event or future for a message.

An ``Inlet`` is what hears a stream, and an ``Outlet`` is its way back. The cores of both ends, the
host's streams and the link's halves, are inlets, over every transport. A transport that hears
messages by callback hands them over at once. One that only has a ``pipes.Pipe`` does so with the
two tasks of a ``PipedOutlet``.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Protocol

from zonekeeper.wire.contract.pipes import Pipe, until_one_ends
from zonekeeper.wire.formats.versions import WireVersions


class Inlet(Protocol):
    """Hears a stream. Its methods never wait."""

    def taken(self, message: bytes | bytearray) -> None:
        """Take a message; raises ``WireError`` if it breaks a rule: then the stream ends."""
        ...

    def has_room_again(self) -> None:
        """Go on putting messages into the outlet: it has room again."""
        ...


class Outlet(Protocol):
    """The way back of a stream."""

    @property
    def has_room(self) -> bool:
        """May another message be put? If not, the inlet is told when it may."""
        ...

    def put(self, message: bytes) -> None:
        """Send a message; there must be room. After the stream's end this does nothing."""
        ...

    def hold(self) -> None:
        """Hand over nothing more for now, but for what was received already."""
        ...

    def go_on(self) -> None:
        """Hand messages over again."""
        ...


class FlatWay(Outlet, Protocol):
    """The outlet of a transport that hands messages over by itself."""

    async def over(self) -> None:
        """Wait until the stream ends; raises the error that ended it."""
        ...


class ClientPipe(Pipe, Protocol):
    """The end of the peer that started the stream."""

    async def answered_by(self) -> WireVersions | None:
        """Give what the bookie speaks; None: it does not say. Only after a message has come."""
        ...

    def attach(self, inlet: Inlet) -> FlatWay | None:
        """Hand all further messages to this inlet; None: they must be received here.

        Only after a message has come.
        """
        ...

    def cancel(self) -> None:
        """End the stream at once, for both sides; does nothing if it has ended."""
        ...


class NotFlat:
    """The part of a ``ClientPipe`` that is received from, and cannot be attached."""

    def attach(self, inlet: Inlet) -> FlatWay | None:
        """Leave the messages to be received."""
        del inlet
        return None


class PipedOutlet:
    """An outlet over a pipe: it holds one message, until the pipe has sent it."""

    def __init__(self) -> None:
        self._message: bytes | None = None
        self._put = asyncio.Event()
        self._heard = asyncio.Event()
        self._heard.set()

    @property
    def has_room(self) -> bool:
        """Is there no message that has not left?"""
        return self._message is None

    def put(self, message: bytes) -> None:
        """Have a message sent."""
        assert self._message is None, "there is room for one"
        self._message = message
        self._put.set()

    def hold(self) -> None:
        """Receive nothing more for now."""
        self._heard.clear()

    def go_on(self) -> None:
        """Receive again."""
        self._heard.set()

    async def exchange(
        self, pipe: Pipe, inlet: Inlet, *others: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        """Hand over and send until the pipe, or one of the others, ends or fails."""
        await until_one_ends(
            partial(self._send, pipe, inlet), partial(self._hear, pipe, inlet), *others
        )

    async def _send(self, pipe: Pipe, inlet: Inlet) -> None:
        while True:
            await self._put.wait()
            self._put.clear()
            if self._message is not None:
                await pipe.send(self._message)
                self._message = None
                inlet.has_room_again()

    async def _hear(self, pipe: Pipe, inlet: Inlet) -> None:
        while (message := await pipe.receive()) is not None:
            inlet.taken(message)
            await self._heard.wait()
