"""A bookie on a real port for peers that follow no rule, and an honest writer beside them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
from grpc import aio

from tests.bookie.running import BOOKIE, append, frame, open_fragment, opening, running
from tests.bookie.serving.test_links import Sink, reading
from tests.wire.link.worlds import WatchedHost, linked
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.capacity import BookieLimits
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.metadata.store.background import alongside
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import grpc_edge, tls
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.host.host_limits import HostLimits

ENTRY: Final = bytes(100 << 10)
ENTRIES: Final = 20
LIMIT_S: Final = 60
#: Who takes no answer for so long is cut off, where a test waits for that: long enough for the
#: honest one, which has as long on a machine that is busy with the others.
TAKING_MS: Final = 3_000

Stream = aio.StreamStreamCall[bytes, bytes]


@dataclass
class Place:
    """A bookie on a port."""

    bookie: BookieServer
    host: WatchedHost
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def hostile(self) -> AsyncIterator[aio.Channel]:
        """A peer's connection, as gRPC gives it to every peer."""
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with aio.insecure_channel(self.address, options=options) as channel:
            yield channel

    def friendly(
        self, credentials: tls.ClientCredentials | None = None
    ) -> AbstractAsyncContextManager[BookieLink]:
        # The peers beside it keep this loop so busy that an answer may take its time.
        return linked(BOOKIE, self.address, credentials)

    async def serves_a_newcomer(self) -> bool:
        """Is a peer served that connects now, and is as patient as a client?"""
        async with self.friendly() as link, asyncio.timeout(LIMIT_S):
            while True:
                with contextlib.suppress(errors.NotConnected):
                    return bool((await link.read(reading(0, 0))).frames)


@asynccontextmanager
async def serving(
    limits: HostLimits | None = None,
    bookie_limits: BookieLimits | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[Place]:
    files, sizes = MemoryFileSystem(), Sizes(segment_bytes=4 << 20)
    async with running(files, limits=bookie_limits, sizes=sizes) as bookie:
        await open_fragment(bookie, opening())
        for number in range(ENTRIES):
            assert await append(bookie, frame(number, data=ENTRY, lac=number - 1)) == [None]
        host = WatchedHost(bookie, limits or HostLimits())
        server = GrpcServer(host, "127.0.0.1:0", name=BOOKIE, credentials=credentials)
        await server.start()
        try:
            yield Place(bookie, host, server.port)
        finally:
            await server.stop(0)


@dataclass
class Honest:
    """A writer that has its entries acknowledged, one after the other."""

    link: BookieLink
    acked: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self) -> None:
        """Write until cancelled; a refusal is an error."""
        sink = Sink()
        lane = await self.link.open_fragment(opening(), sink)
        while True:
            lane.append(frame(ENTRIES + self.acked))
            number, error = await sink.outcomes.get()
            assert (number, error) == (self.acked, None)
            self.acked += 1
            self._changed.set()

    async def goes_on(self) -> bool:
        """Wait until more is acknowledged than when this was asked, over and over."""
        wanted = self.acked + 10
        async with asyncio.timeout(LIMIT_S):
            while self.acked < wanted:
                self._changed.clear()
                await self._changed.wait()
        return True


@asynccontextmanager
async def honest(
    place: Place, credentials: tls.ClientCredentials | None = None
) -> AsyncIterator[Honest]:
    """Let an honest writer be at work during a block; what was acknowledged is there after it."""
    async with place.friendly(credentials) as link:
        writer = Honest(link)
        async with alongside(writer.write()):
            assert await writer.goes_on()
            yield writer
            assert await writer.goes_on()
        last = ENTRIES + writer.acked - 1
        assert (await link.read(reading(last, last))).frames


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop, and the network, go on until something is so."""
    async with asyncio.timeout(LIMIT_S):
        for _ in range(10_000_000):
            if condition():
                return
            await asyncio.sleep(0)


def descriptors() -> int:
    """Count this process's open files."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def stream_of(channel: aio.Channel, method: str) -> Stream:
    start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
        grpc_edge.method_path(method)
    )
    return start(metadata=grpc_edge.meant_for(BOOKIE))
