"""A peer of the socket lane without manners: it sends what it likes, and takes what it likes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from zonekeeper.wire.formats import socket_framing, socket_messages
from zonekeeper.wire.formats.socket_messages import (
    BookieGreeting,
    ClientGreeting,
    ConnectionKind,
    RefusedGreeting,
    Said,
    StreamEnd,
)
from zonekeeper.wire.formats.versions import WireVersions

#: A test that waits longer has found something.
LIMIT_S = 60


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(LIMIT_S):
        for _ in range(10_000_000):
            if condition():
                return
            await asyncio.sleep(0.001)


class RawSocket:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    def say(self, body: bytes) -> None:
        """Send a message."""
        self.send(socket_framing.headed(body))

    async def drained(self) -> None:
        """Wait until there is room to send; if the other side has gone, wait for ever."""
        try:
            await self._writer.drain()
        except ConnectionError:
            await asyncio.Event().wait()

    async def flood(self, data: bytes) -> None:
        """Send bytes over and over, as fast as they are taken."""
        while True:
            self.send(data)
            await self.drained()

    async def hear(self) -> bytes | None:
        """Wait for a message; None: the other side has ended the connection."""
        async with asyncio.timeout(LIMIT_S):
            try:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                return await self._reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None

    async def heard_end(self) -> StreamEnd | None:
        """Take everything until the connection ends; give the reason, if one was given."""
        end: StreamEnd | None = None
        while (message := await self.hear()) is not None:
            if message.startswith(b"ZKEN"):
                said: Said = socket_messages.parse(message)
                assert isinstance(said, StreamEnd)
                end = said
        return end

    async def greet(
        self, name: str, kind: ConnectionKind, speaks: WireVersions | None = None
    ) -> BookieGreeting | RefusedGreeting:
        """Greet as a client does; give the answer."""
        greeting = ClientGreeting(bookie=name, kind=kind, speaks=speaks)
        self.say(socket_messages.build_client_greeting(greeting))
        answer = await self.hear()
        assert answer is not None, "a bookie answers a greeting"
        plugin, payload = socket_messages.parse_auth(answer)
        assert plugin == socket_messages.PLUGIN
        return socket_messages.parse_bookie_greeting(payload)

    def close(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()


@asynccontextmanager
async def raw_socket(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[RawSocket]:
    """Give a connection to a port of this machine."""
    # The reader takes nothing beyond this by itself, so that a peer can leave answers alone.
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10, ssl=context)
    peer = RawSocket(reader, writer)
    try:
        yield peer
    finally:
        peer.close()
