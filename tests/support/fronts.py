"""Ports that lead to other ports, as a name leads to an address: where they lead can be changed.

A connection that is there stays where it leads, as connections do when a name changes; ``cut`` ends
them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager


class Front:
    """One port."""

    def __init__(self, leads_to: int) -> None:
        #: The port on the loopback that new connections are led to.
        self.leads_to = leads_to
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)

    def cut(self) -> None:
        """End the connections that are there."""
        for connection in self._connections:
            connection.cancel()

    async def close(self) -> None:
        """End everything."""
        assert self._server is not None
        await close(self._server)
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of its own: a stream server logs it as an error that one of its own is cancelled.
        connection = asyncio.ensure_future(self.lead_on(reader, writer))
        self._connections.add(connection)
        try:
            await asyncio.wait([connection])
        finally:
            self._connections.discard(connection)
            writer.transport.abort()
        error = None if connection.cancelled() else connection.exception()
        if error is not None and not isinstance(error, OSError):  # no process listens there
            raise error

    async def lead_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection: bytes both ways, until either side ends."""
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.leads_to)
        try:
            await _until_one_ends(
                self.pass_there(reader, there_writer), pass_on(there_reader, writer)
            )
        finally:
            there_writer.transport.abort()

    async def pass_there(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        """Pass on what is sent to where it leads; a front that spoils something does it here."""
        await pass_on(source, to)


async def close(server: asyncio.Server) -> None:
    """Let nobody else in, and close when all who are on the way in are through the door.

    Whom asyncio has accepted when its server closes, and not yet given to a protocol, is closed by
    nobody; nor is one whose handler is cancelled before it began.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening)
    for _ in range(10):
        await asyncio.sleep(0)
    server.close()


@asynccontextmanager
async def fronts() -> AsyncIterator["Fronts"]:
    """Give fronts for any number of ports, which end with the block."""
    async with AsyncExitStack() as stack:
        yield Fronts(stack)


class Fronts:
    """Fronts, by the names of what they lead to at first."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._named: dict[str, Front] = {}
        self._homes: dict[str, int] = {}

    def __getitem__(self, name: str) -> Front:
        return self._named[name]

    async def add(self, name: str, port: int) -> int:
        """Put a front before a port; give the front's."""
        front = Front(port)
        await front.open()
        self._stack.push_async_callback(front.close)
        self._named[name], self._homes[name] = front, port
        return front.port

    def home(self, name: str) -> int:
        """Give the port that a front led to at first."""
        return self._homes[name]

    def lead(self, name: str, to: str) -> None:
        """Let a front lead to what another one led to at first, and only new connections."""
        self._named[name].leads_to = self.home(to)


async def _until_one_ends(*ways: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Pass bytes on until their end."""
    while data := await source.read(1 << 16):
        to.write(data)
        await to.drain()
