"""A connection that breaks in the middle of a frame, or falls silent there (scenario S11)."""

import asyncio
import enum
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.client.test_over_grpc import cluster_of
from zonekeeper.client import client as clients
from zonekeeper.client.config import ClientConfig
from zonekeeper.wire.links import LinkSettings

ENTRY_BYTES = 50_000
ENTRIES = 60


class Ending(enum.Enum):
    RESET = "reset"
    SILENT = "silent"


class Proxy:
    """Stands in front of a bookie; the first connection ends after so many bytes to it."""

    def __init__(self, ending: Ending, after_bytes: int) -> None:
        self.ending = ending
        self.left_bytes = after_bytes
        self.ended = asyncio.Event()
        self._connections: list[asyncio.Task[None]] = []
        self._port = 0
        self._servers: list[asyncio.Server] = []

    async def front(self, zone: str, port: int) -> int:
        if zone != "a":
            return port
        self._port = port
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._servers.append(server)
        listening: int = server.sockets[0].getsockname()[1]
        return listening

    async def _connected(
        self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.append(connection)
        bookie, to_bookie = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(bookie, to_client))
                both.create_task(self._limited(client, to_bookie, to_client))
        except* (OSError, _OverError):
            pass
        finally:
            to_client.transport.abort()
            to_bookie.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            to.write(data)
            await to.drain()
        raise _OverError

    async def _limited(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        while data := await source.read(1 << 16):
            if not self.ended.is_set() and len(data) > self.left_bytes:
                to.write(data[: self.left_bytes])
                await to.drain()
                self.ended.set()
                if self.ending is Ending.SILENT:
                    await asyncio.Event().wait()
                back.transport.abort()
                raise _OverError
            self.left_bytes -= 0 if self.ended.is_set() else len(data)
            to.write(data)
            await to.drain()
        raise _OverError

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class _OverError(Exception):
    """Ends both ways of a connection."""


@asynccontextmanager
async def proxied(ending: Ending, after_bytes: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(ending, after_bytes)
    try:
        yield proxy
    finally:
        await proxy.close()


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("after_bytes", [70_001, 1_000_003])
async def test_s11_a_stream_that_breaks_inside_a_frame_costs_no_entry(
    tmp_path: Path, ending: Ending, after_bytes: int
) -> None:
    chance = random.Random(after_bytes)
    sent = [chance.randbytes(ENTRY_BYTES) for _ in range(ENTRIES)]
    config = ClientConfig(links=LinkSettings(append_timeout_ms=1_500, back_off_first_ms=10))
    async with (
        proxied(ending, after_bytes) as proxy,
        cluster_of(tmp_path, "abc", proxy.front) as (uri, _),
        clients.connect(uri, config) as client,
    ):
        writer = await client.create()
        await writer.append_many(sent)
        await writer.flush()
        async with asyncio.timeout(30):
            await proxy.ended.wait()
        await writer.close()
        reader = await client.open(writer.ledger_id)
        assert [bytes(entry.payload) async for entry in reader.read_entries()] == sent
        assert not client.counters.bad_copies
