"""One connection with real sockets at both ends: what is handed over, when, and what is kept."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from tests.support.raw_sockets import RawSocket, raw_socket, until
from zonekeeper.wire.formats import errors, socket_framing
from zonekeeper.wire.socket.connection import (
    Connection,
    ConnectionTimes,
    EndCause,
    HalfMessages,
    Message,
)

LIMIT = 1 << 20
GREETING = b"a greeting"


class Kept:
    """A taker that keeps what it is given, and does something at each message."""

    def __init__(self, does: Callable[[], object] = lambda: None) -> None:
        self.messages: list[bytes] = []
        self.does = does
        self.has_ended = False
        self.writables = 0

    def taken(self, message: Message) -> None:
        self.messages.append(bytes(message))
        self.does()

    def ended(self) -> None:
        self.has_ended = True

    def writable(self) -> None:
        self.writables += 1


@asynccontextmanager
async def connected(
    taker: Kept, times: ConnectionTimes | None = None, halves: HalfMessages | None = None
) -> AsyncIterator[tuple[Connection, RawSocket]]:
    """Give one end under test, and a raw peer at the other."""
    made = asyncio.get_running_loop().create_future()

    def make() -> Connection:
        connection = Connection(
            taker, times=times or ConnectionTimes(), bytes_max=LIMIT, halves=halves
        )
        made.set_result(connection)
        return connection

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    try:
        async with raw_socket(server.sockets[0].getsockname()[1]) as peer:
            connection: Connection = await made
            yield connection, peer
            connection.abort()
            await connection.gone.wait()
    finally:
        server.close()


def said(*bodies: bytes) -> bytes:
    return b"".join(map(socket_framing.headed, bodies))


async def greet(connection: Connection, taker: Kept, peer: RawSocket) -> None:
    peer.send(said(GREETING))
    await until(lambda: taker.messages == [GREETING])
    taker.messages.clear()
    connection.greeted(taker, LIMIT)


async def test_a_taker_that_has_enough_gets_nothing_more_of_what_was_read_already() -> None:
    taker = Kept()
    async with connected(taker) as (connection, peer):
        await greet(connection, taker, peer)
        taker.does = connection.pause_reading
        peer.send(said(b"ZKCR one", b"ZKCR two", b"ZKCR three"))
        await until(lambda: bool(taker.messages))
        assert taker.messages == [b"ZKCR one"]
        connection.resume_reading()
        assert taker.messages == [b"ZKCR one"], "never from within"
        await until(lambda: len(taker.messages) == 2)
        taker.does = lambda: None
        connection.resume_reading()
        peer.send(said(b"ZKCR four"))
        await until(lambda: len(taker.messages) == 4)
        assert taker.messages == [b"ZKCR one", b"ZKCR two", b"ZKCR three", b"ZKCR four"]


async def test_what_comes_with_the_greeting_waits_until_both_sides_have_greeted() -> None:
    first, then = Kept(), Kept()
    async with connected(first) as (connection, peer):
        peer.send(said(GREETING, b"ZKCR early", b"ZKPI", b"ZKCR late"))
        await until(lambda: bool(first.messages))
        assert first.messages == [GREETING]
        connection.greeted(then, LIMIT)
        assert await peer.hear() == b"ZKPO"
        await until(lambda: len(then.messages) == 2)
        assert (first.messages, then.messages) == ([GREETING], [b"ZKCR early", b"ZKCR late"])


async def test_a_taker_that_takes_over_gets_what_the_one_before_had_not_used_first() -> None:
    first, then = Kept(), Kept()
    async with connected(first) as (connection, peer):
        await greet(connection, first, peer)
        first.does = connection.pause_reading
        peer.send(said(b"ZKCR one", b"ZKCR two"))
        await until(lambda: bool(first.messages))
        connection.pass_to(then, [b"ZKCR one"])
        await until(lambda: len(then.messages) == 2)
        assert then.messages == [b"ZKCR one", b"ZKCR two"]


async def test_the_end_comes_behind_all_that_came_before_it_and_says_why() -> None:
    taker = Kept()
    async with connected(taker) as (connection, peer):
        await greet(connection, taker, peer)
        peer.send(said(b"ZKCR one", b"ZKEN\0\0\0\x0cbecause", b"ZKCR two"))
        await until(lambda: taker.has_ended)
        assert taker.messages == [b"ZKCR one"]
        assert isinstance(connection.failure, errors.BadRequest)
        assert connection.failure.detail == "because"


async def test_pongs_that_are_not_taken_are_not_kept() -> None:
    taker = Kept()
    async with connected(taker) as (connection, peer):
        await greet(connection, taker, peer)
        pings = said(*[b"ZKPI"] * 8_000)
        sending = asyncio.ensure_future(peer.flood(pings))
        try:
            await until(lambda: not connection.has_room)
            assert connection._transport is not None
            unsent = connection._transport.get_write_buffer_size()
            for _ in range(200):
                await asyncio.sleep(0)
            assert connection._transport.get_write_buffer_size() <= unsent + len(pings)
        finally:
            sending.cancel()


async def test_a_peer_that_takes_again_is_told_to_the_taker() -> None:
    taker = Kept()
    async with connected(taker) as (connection, peer):
        await greet(connection, taker, peer)
        sent = 0
        while connection.has_room:
            connection.put(b"ZKCR" + bytes(100_000))
            sent += 1
        assert taker.writables == 0
        for _ in range(sent):
            assert len(await peer.hear() or b"") == 100_004
        await until(lambda: taker.writables == 1)
        assert connection.has_room


async def test_time_in_which_nothing_was_read_is_no_silence_of_the_peer() -> None:
    taker = Kept()
    times = ConnectionTimes(silent_ms=200, half_ms=200)
    async with connected(taker, times) as (connection, peer):
        await greet(connection, taker, peer)
        peer.send(b"\0\0\1\0half")
        await until(lambda: connection.incoming.half_bytes > 0)
        connection.pause_reading()
        gone = asyncio.ensure_future(connection.gone.wait())
        await asyncio.wait([gone], timeout=0.6)
        assert not connection.is_over
        connection.resume_reading()
        await until(lambda: connection.is_over)
        assert connection.cause is EndCause.HALF_MESSAGE
        await gone


async def test_a_half_message_is_no_memory_of_the_port_once_its_connection_has_ended() -> None:
    taker, halves = Kept(), HalfMessages(1 << 30)
    async with connected(taker, halves=halves) as (connection, peer):
        await greet(connection, taker, peer)
        peer.send(LIMIT.to_bytes(4, "big") + bytes(200_000))
        await until(lambda: halves.bytes >= 200_000)
        connection.fail(errors.BadRequest("enough"), EndCause.MALFORMED)
        assert halves.bytes == 0
        assert connection.incoming.held_bytes == 0
        end = await peer.heard_end()
        assert end is not None
        assert end.detail == "enough"


def _given(connection: Connection) -> Connection:
    return connection


async def test_no_small_message_waits_until_the_peer_has_acknowledged_the_one_before() -> None:
    """The kernel would hold back an ack until the client's next append, or for 40 ms.

    A socket that was accepted, as a bookie accepts it, does not say that it is TCP. So asyncio
    leaves it as the kernel makes it.
    """
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asking = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    ends = []
    for sock in (accepted, asking):
        sock.setblocking(False)
        connection = Connection(Kept(), times=ConnectionTimes(), bytes_max=1 << 10)
        await loop.connect_accepted_socket(partial(_given, connection), sock)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        ends.append(connection)
    for connection in ends:
        connection.abort()
        await connection.gone.wait()
