"""Peers that follow no rule, over real gRPC: they harm themselves, and the others are served."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import pytest
from grpc import aio

from tests.bookie.running import BOOKIE, KEY, LEDGER, append, frame, open_fragment, opening, running
from tests.bookie.test_links import Sink, reading
from zonekeeper.bookie.memory_files import MemoryFileSystem
from zonekeeper.bookie.service import Bookie, Limits
from zonekeeper.placement.ids import EntryId
from zonekeeper.wire import carriers, errors, grpc_edge, grpc_link, grpc_server
from zonekeeper.wire.grpc_server import GrpcServer
from zonekeeper.wire.links import BookieLink
from zonekeeper.wire.serving import Host, HostLimits

ENTRY = bytes(100 << 10)
ENTRIES = 20
#: What wire.grpc_edge allows a connection.
STREAMS_MAX = 1_024
LIMIT_S = 60

Stream = aio.StreamStreamCall[bytes, bytes]


@dataclass
class Place:
    """A bookie on a port."""

    bookie: Bookie
    host: Host
    address: str

    @asynccontextmanager
    async def hostile(self) -> AsyncIterator[aio.Channel]:
        """A peer's connection, as gRPC gives it to anybody."""
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with aio.insecure_channel(self.address, options=options) as channel:
            yield channel

    @asynccontextmanager
    async def friendly(self) -> AsyncIterator[BookieLink]:
        async with asyncio.TaskGroup() as tasks:
            link = grpc_link.connect(
                BOOKIE, self.address, credentials=None, tasks=tasks, chance=random.Random(1)
            )
            yield link
            await link.close()


@asynccontextmanager
async def serving(limits: HostLimits, bookie_limits: Limits | None = None) -> AsyncIterator[Place]:
    files = MemoryFileSystem()
    async with running(files, limits=bookie_limits, segment_bytes=4 << 20) as bookie:
        await open_fragment(bookie, opening())
        for number in range(ENTRIES):
            assert await append(bookie, frame(number, data=ENTRY, lac=number - 1)) == [None]
        host = Host(bookie, limits)
        server = GrpcServer(host, "127.0.0.1:0", credentials=None)
        await server.start()
        yield Place(bookie, host, f"127.0.0.1:{server.port}")
        await server.stop(0)


async def stream_of(channel: aio.Channel, method: str) -> Stream:
    start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
        grpc_edge.method_path(method)
    )
    return start()


def greedy(number: int) -> bytes:
    """A read of all there is."""
    read = carriers.Read(
        number=number,
        ledger_id=LEDGER,
        first=EntryId(0),
        last=EntryId(ENTRIES - 1),
        step=1,
        max_bytes=4 << 20,
        fence_key=None,
    )
    return carriers.build([read])


async def served(place: Place) -> bool:
    async with place.friendly() as link, asyncio.timeout(LIMIT_S):
        reply = await link.read(reading(0, 0))
    return len(reply.frames) == 1


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop, and the network, go on until something is so."""
    async with asyncio.timeout(LIMIT_S):
        for _ in range(10_000_000):
            if condition():
                return
            await asyncio.sleep(0)


async def test_a_message_above_the_limit_ends_its_stream_and_no_other() -> None:
    async with serving(HostLimits()) as place, place.hostile() as channel:
        stream = await stream_of(channel, "Append")
        await stream.read()
        await stream.write(bytes(grpc_edge.MESSAGE_BYTES_MAX + 1))
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await served(place)


async def test_who_asks_for_much_and_takes_nothing_is_bounded_and_then_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_server, "SEND_TIMEOUT_MS", 300)
    limits = HostLimits(read_bytes_max=8 << 20, all_replies_bytes_max=8 << 20)
    async with serving(limits) as place, place.hostile() as channel:
        streams = [await stream_of(channel, "Read") for _ in range(6)]
        for stream in streams:
            for number in range(20):
                await stream.write(greedy(number))
        await until(lambda: place.host.reply_bytes >= limits.all_replies_bytes_max)
        # One reply may pass on each stream that saw room.
        assert place.host.reply_bytes <= limits.all_replies_bytes_max + 6 * (4 << 20)
        assert await served(place)
        await until(lambda: not place.host.reply_bytes)


async def test_more_appends_than_the_memory_is_for_are_refused_and_the_rest_is_kept() -> None:
    waiting_max = 1 << 20
    async with serving(HostLimits(), Limits(waiting_bytes_max=waiting_max)) as place:
        async with place.friendly() as link:
            sink = Sink()
            lane = await link.open_fragment(opening(), sink)
            count = 60
            for number in range(ENTRIES, ENTRIES + count):
                lane.append(frame(number, data=ENTRY))
            outcomes = [await sink.outcomes.get() for _ in range(count)]
            refused = [error for _, error in outcomes if error is not None]
            assert all(isinstance(error, errors.TooManyRequests) for error in refused)
            acked = [ENTRIES + number for number, error in outcomes if error is None]
            for number in acked:
                assert (await link.read(reading(number, number))).frames
        assert acked
        await place.bookie.fence(LEDGER, KEY)


async def test_streams_above_the_limit_of_a_connection_wait_and_other_peers_are_served() -> None:
    extra = 3
    async with serving(HostLimits()) as place, place.hostile() as channel:
        first = await stream_of(channel, "Append")
        # A peer hears the limit with the server's first message, and may break it before.
        await first.read()
        rest = [await stream_of(channel, "Append") for _ in range(STREAMS_MAX - 1 + extra)]
        hellos = {asyncio.ensure_future(stream.read()): stream for stream in rest}
        async with asyncio.timeout(LIMIT_S):
            waiting = set(hellos)
            while len(waiting) > extra:
                done, waiting = await asyncio.wait(
                    waiting, return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT_S
                )
                assert all(isinstance(each.result(), bytes) for each in done)
            assert await served(place)
            assert not any(each.done() for each in waiting)
            first.cancel()
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert all(isinstance(each.result(), bytes) for each in done)
        for stream in rest:
            stream.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
