"""Peers of the socket lane that break a rule: each loses its connection, and no other does.

Each test has an honest writer beside it, and looks at the count by cause and at the log.
"""

import asyncio
import dataclasses
from contextlib import AsyncExitStack

import pytest

from tests.support.raw_sockets import RawSocket, raw_socket, until
from tests.wire import carrying
from tests.wire.link.worlds import BOOKIE, SocketWorld, Writer, opened
from tests.wire.socket.hostile_world import (
    SOON_MS,
    call,
    ended,
    honest,
    limited,
    played,
    soon,
    tail,
    warned,
)
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import carriers, errors, socket_framing, socket_messages
from zonekeeper.wire.formats.socket_messages import (
    AnswerTaken,
    BookieGreeting,
    CallEnd,
    ConnectionKind,
    RefusedGreeting,
)
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.socket_server import SocketLimits

TLS_HELLO = bytes.fromhex("16030102000100") + bytes(60)
APACHE_2_ADD = bytes.fromhex("00000030 02010000") + bytes(44)
APACHE_3_AUTH = bytes.fromhex("0000000c 0a06080310051801 a2060000")


@pytest.mark.parametrize(
    ("first", "cause", "words"),
    [
        (TLS_HELLO, EndCause.OTHER_PROTOCOL, "speaks TLS, and this port has no TLS"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", EndCause.OTHER_PROTOCOL, "HTTP/2, as gRPC does"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", EndCause.OTHER_PROTOCOL, "speaks HTTP"),
        (APACHE_2_ADD, EndCause.OTHER_PROTOCOL, "version 2 of Apache BookKeeper's protocol"),
        (APACHE_3_AUTH, EndCause.OTHER_PROTOCOL, "version 3 of Apache BookKeeper's protocol"),
        (
            socket_framing.headed(socket_messages.build_auth("kerberos", b"")),
            EndCause.OTHER_PROTOCOL,
            "its plugin is 'kerberos'",
        ),
        (bytes(4096), EndCause.MALFORMED, "0 bytes"),
        (b"\xff" * 100, EndCause.OVERSIZED, "4294967295 bytes, the limit is 4096"),
        (socket_framing.headed(b"ZKCR" + bytes(60)), EndCause.MALFORMED, "5a4b4352"),
        (
            socket_framing.headed(socket_messages.build_auth("zonekeeper", b"{")),
            EndCause.MALFORMED,
            "no JSON",
        ),
    ],
    ids=["TLS", "gRPC", "HTTP", "v2", "v3", "plugin", "zeros", "ones", "carrier", "no JSON"],
)
@played()
async def test_a_connection_that_begins_with_something_else_ends_and_the_log_names_it(
    world: SocketWorld,
    caplog: pytest.LogCaptureFixture,
    first: bytes,
    cause: EndCause,
    words: str,
) -> None:
    async with honest(world), raw_socket(world.port) as peer:
        peer.send(first)
        await peer.heard_end()
        await ended(world, {cause: 1})
        assert warned(caplog, words), caplog.messages


@pytest.mark.parametrize("begun", [b"", b"\0", b"\0\0\0\x60\x02\x03"], ids=["nothing", "1", "6"])
@played()
async def test_a_peer_that_never_finishes_its_greeting_is_let_go(
    world: SocketWorld, begun: bytes
) -> None:
    await limited(world, SocketLimits(greeting_ms=SOON_MS))
    async with raw_socket(world.port) as peer:
        peer.send(begun)
        await peer.heard_end()
        await ended(world, {EndCause.HANDSHAKE: 1})
    await opened(world.link(), 1)


@pytest.mark.parametrize("kind", ConnectionKind)
@played()
async def test_a_message_above_the_limit_ends_its_connection_with_the_reason(
    world: SocketWorld, kind: ConnectionKind
) -> None:
    async with honest(world), raw_socket(world.port) as peer:
        assert isinstance(await peer.greet(BOOKIE, kind), BookieGreeting)
        peer.send((socket_framing.MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"))
        end = await peer.heard_end()
        assert end is not None
        assert end.code == errors.BadRequest.code
        assert "larger than the limit" in end.detail
        await ended(world, {EndCause.OVERSIZED: 1})


@pytest.mark.parametrize("kind", ConnectionKind)
@played()
async def test_half_a_message_for_ever_ends_its_connection(
    world: SocketWorld, kind: ConnectionKind
) -> None:
    await limited(world, soon(half_ms=SOON_MS))
    async with honest(world), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, kind)
        peer.send((1 << 15).to_bytes(4, "big") + b"ZKCR")
        end = await peer.heard_end()
        assert end is not None
        assert end.detail == f"half a message, and no more of it within {SOON_MS} ms"
        await ended(world, {EndCause.HALF_MESSAGE: 1})


@played()
async def test_half_messages_of_many_connections_have_a_limit_and_the_oldest_goes(
    world: SocketWorld,
) -> None:
    half = (8 << 20).to_bytes(4, "big") + bytes(socket_framing.READ_BYTES)
    limit = 10 * 2 * socket_framing.READ_BYTES
    await limited(world, dataclasses.replace(SocketLimits(), half_bytes_max=limit))
    server = world.server
    assert server is not None
    async with honest(world):
        async with AsyncExitStack() as crowd:
            first = await crowd.enter_async_context(raw_socket(world.port))
            await first.greet(BOOKIE, ConnectionKind.APPEND)
            first.send(half)
            await until(lambda: server.half_bytes > 0)
            for _ in range(20):
                peer = await crowd.enter_async_context(raw_socket(world.port))
                await peer.greet(BOOKIE, ConnectionKind.READ)
                peer.send(half)
                assert server.half_bytes <= limit
            end = await first.heard_end()
            assert end is not None
            assert "half messages take" in end.detail
            assert server.half_bytes <= limit
        await until(lambda: not server.half_bytes)


@played()
async def test_a_peer_that_is_silent_for_long_is_let_go_and_one_that_pings_stays(
    world: SocketWorld,
) -> None:
    await limited(world, soon(silent_ms=2 * SOON_MS))
    async with raw_socket(world.port) as silent, raw_socket(world.port) as pinging:
        for peer in (silent, pinging):
            await peer.greet(BOOKIE, ConnectionKind.APPEND)
            await peer.hear()  # the Hello
        async with alongside(_pings(pinging)):
            end = await silent.heard_end()
            assert end is not None
            assert end.detail == f"nothing was heard for {2 * SOON_MS} ms"
            await ended(world, {EndCause.SILENT: 1})
            pong = await pinging.hear()
        assert pong == b"ZKPO"


async def _pings(peer: RawSocket) -> None:
    while True:
        peer.say(b"ZKPI")
        await asyncio.sleep(SOON_MS / 4_000)


FLOOD_ITEMS = 100


def _unknown(first: int) -> bytes:
    """Appends to a ledger that is not open: each is refused, and so has an answer."""
    packet = Writer(404).lac(0)
    items = [
        carriers.WriteLac(number=number, ledger_id=LedgerId(404), packet=packet)
        for number in range(first, first + FLOOD_ITEMS)
    ]
    return carriers.build(items)


async def _flood(peer: RawSocket) -> None:
    number = 0
    while True:
        peer.say(_unknown(number))
        number += FLOOD_ITEMS
        await peer.drained()


@played()
async def test_a_peer_that_takes_no_answers_is_not_heard_further_and_then_let_go(
    world: SocketWorld,
) -> None:
    world.limits = dataclasses.replace(world.limits, answers_max=1_000)
    await limited(world, soon(send_ms=4 * SOON_MS))
    async with honest(world), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.APPEND)
        await until(lambda: len(world.host.pipes) == 2)
        mine = world.host.pipes[-1]
        async with alongside(_flood(peer)):
            await until(lambda: bool(world.figures.ended))
        assert mine.waiting < 1_000 + FLOOD_ITEMS, "a carrier above the limit"
        await ended(world, {EndCause.TAKES_NOTHING: 1})


@played()
async def test_a_flood_of_pings_of_which_no_answer_is_taken_takes_no_memory(
    world: SocketWorld,
) -> None:
    await limited(world, soon(send_ms=4 * SOON_MS))
    pings = socket_framing.headed(b"ZKPI") * 1_000
    async with honest(world), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        async with alongside(peer.flood(pings)):
            await until(lambda: world.figures.ended[EndCause.TAKES_NOTHING] == 1)


@pytest.mark.parametrize(
    "lie",
    [
        carriers.build([carrying.ONE_OF_EACH["Acked"]]),
        carriers.build(carrying.ONE_OF_EACH.values()),
        b"ZKCR",
        b"ZKXX",
        b"ZKCR\x03" + bytes(100),
        socket_messages.build(AnswerTaken(number=1)),
        socket_messages.build(CallEnd(number=1, code=0)),
        b"\x02\x03\x00\x00",
        b"x",
    ],
)
@pytest.mark.parametrize("kind", [ConnectionKind.APPEND, ConnectionKind.READ])
@played()
async def test_a_lie_on_a_stream_ends_it_with_the_reason(
    world: SocketWorld, kind: ConnectionKind, lie: bytes
) -> None:
    async with honest(world), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, kind)
        peer.say(lie)
        end = await peer.heard_end()
        assert end is not None
        assert end.code == errors.BadRequest.code, end
        await ended(world, {EndCause.MALFORMED: 1})


@played()
async def test_connections_above_the_limit_are_closed_at_once(world: SocketWorld) -> None:
    await limited(world, dataclasses.replace(SocketLimits(), connections_max=3))
    async with honest(world), raw_socket(world.port) as one, raw_socket(world.port) as other:
        for peer in (one, other):
            await peer.greet(BOOKIE, ConnectionKind.READ)
        async with raw_socket(world.port) as third:
            assert await third.hear() is None
        await ended(world, {EndCause.TOO_MANY: 1})
        one.close()
        await until(lambda: world.figures.now == 2)
        async with raw_socket(world.port) as later:
            assert isinstance(await later.greet(BOOKIE, ConnectionKind.READ), BookieGreeting)


@played()
async def test_a_storm_of_connections_that_come_and_go_leaves_nothing_behind(
    world: SocketWorld,
) -> None:
    async with honest(world):
        for number in range(200):
            async with raw_socket(world.port) as peer:
                if number % 3 == 1:
                    peer.send(b"\0\0\0\x60\x02")
                elif number % 3 == 2:
                    await peer.greet(BOOKIE, ConnectionKind.CALLS)
                    peer.say(call(1, "Tail", tail(1_000)))
        await until(lambda: world.figures.now == 1)


@played()
async def test_a_client_of_a_version_that_is_not_spoken_is_told_and_counted(
    world: SocketWorld,
) -> None:
    async with honest(world), raw_socket(world.port) as peer:
        answer = await peer.greet(BOOKIE, ConnectionKind.APPEND, WireVersions(7, 9))
        assert isinstance(answer, RefusedGreeting)
        assert answer.code == errors.UnsupportedVersion.code
        assert "upgrade the bookie" in answer.detail
        assert await peer.heard_end() is None
        await ended(world, {EndCause.VERSION: 1})


@played()
async def test_a_client_for_another_bookie_is_told_so_and_nothing_is_done(
    world: SocketWorld, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in ConnectionKind:
        async with raw_socket(world.port) as peer:
            answer = await peer.greet("rack-z-9", kind)
            assert answer == RefusedGreeting(
                code=errors.NotConnected.code,
                detail=f"rack-z-9 was meant, and {BOOKIE} answers; nothing was done",
            )
            assert await peer.heard_end() is None
    await ended(world, {EndCause.NOT_MEANT: 3})
    assert warned(caplog, "rack-z-9 was meant")
    assert not world.host.pipes
