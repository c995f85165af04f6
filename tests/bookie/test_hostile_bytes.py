"""Peers below gRPC's manners: half messages, silence, floods of frames, bytes that are nothing."""

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.bookie.hostile import LIMIT_S, TAKING_MS, Place, descriptors, honest, serving, until
from tests.bookie.running import BOOKIE, LEDGER
from tests.support import raw_http2
from tests.support.certificates import Authority
from tests.support.raw_http2 import RawPeer, raw_peer
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.contract import messages
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.grpc import grpc_edge, grpc_server, tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.host_limits import HostLimits

#: Of a peer's greeting, or its request, where a test waits for the end.
SOON_MS = 1_000
ABSENT = LedgerId(404)

Flood = Callable[[RawPeer], Awaitable[None]]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a peer may take its time for be over soon."""
    monkeypatch.setattr(grpc_edge, "HANDSHAKE_TIMEOUT_MS", SOON_MS)
    monkeypatch.setattr(grpc_server, "REQUEST_TIMEOUT_MS", SOON_MS)
    monkeypatch.setattr(grpc_server, "SEND_TIMEOUT_MS", TAKING_MS)


async def told(peer: RawPeer, stream: int) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        return await peer.until_ended(stream)


def has(trailers: bytes, error: type[errors.ProtocolError]) -> bool:
    name, number = grpc_edge.ERROR_TRAILER.encode(), str(error.code).encode()
    return bytes([len(name)]) + name + bytes([len(number)]) + number in trailers


@pytest.mark.usefixtures("soon")
async def test_half_a_request_is_waited_for_and_then_let_go() -> None:
    async with serving() as place, honest(place) as writer, raw_peer(place.port, BOOKIE) as peer:
        halves = [peer.open("Fence") for _ in range(30)]
        for stream in halves:
            await peer.send_data(stream, b"\x00\x00\x10\x00\x00" + bytes(1 << 16))
        assert await writer.goes_on()
        for stream in halves:
            trailers = await told(peer, stream)
            assert has(trailers, errors.Timeout), trailers
            assert b"the request was not here within 1000 ms; nothing was done" in trailers
        request = messages.ledger(messages.LedgerCall(ledger_id=LEDGER)).SerializeToString()
        whole = peer.open("ReadLac")
        await peer.send_message(whole, request)
        assert await peer.until_data(whole), "the connection has its room again"


async def test_half_a_message_on_a_stream_is_held_for_few_streams_of_a_connection() -> None:
    announced = grpc_edge.MESSAGE_BYTES_MAX.to_bytes(4, "big")
    async with serving() as place, honest(place) as writer, raw_peer(place.port, BOOKIE) as peer:
        streams = [peer.open("Append") for _ in range(grpc_server.RAW_STREAMS_MAX + 20)]
        refused = []
        async with asyncio.TaskGroup() as sending:
            for stream in streams:
                half = b"\x00" + announced + bytes(1 << 20)
                sending.create_task(peer.send_data(stream, half))
        for stream in streams[grpc_server.RAW_STREAMS_MAX :]:
            refused.append(has(await told(peer, stream), errors.TooManyRequests))
        assert refused == [True] * 20
        assert not peer.ended.intersection(streams[: grpc_server.RAW_STREAMS_MAX])
        assert await writer.goes_on()


async def test_a_message_that_would_unpack_to_much_more_than_the_limit_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(8 * grpc_edge.MESSAGE_BYTES_MAX), compresslevel=1)
    async with serving() as place, honest(place) as writer, raw_peer(place.port, BOOKIE) as peer:
        stream = peer.open("Append", [("grpc-encoding", "gzip")])
        await peer.send_message(stream, bomb, compressed=True)
        assert b"Decompressed message larger than max" in await told(peer, stream)
        assert await writer.goes_on()


async def test_who_never_takes_its_acks_is_not_heard_further() -> None:
    limits = HostLimits(answers_max=1_000)
    async with (
        serving(limits) as place,
        honest(place) as writer,
        raw_peer(place.port, BOOKIE, takes_bytes=HELLO_BYTES) as peer,
    ):
        stream = peer.open("Append")
        assert await peer.until_data(stream)
        mine = place.host.pipes[-1]
        async with alongside(_flood(peer, stream)):
            await until(lambda: mine.came >= limits.answers_max)
            assert await writer.goes_on()
            assert mine.waiting < limits.answers_max + FLOOD_ITEMS, "a carrier above the limit"


@pytest.mark.usefixtures("soon")
async def test_who_takes_no_acks_for_long_is_cut_off_and_hears_it_when_it_does() -> None:
    async with (
        serving() as place,
        honest(place) as writer,
        raw_peer(place.port, BOOKIE, takes_bytes=HELLO_BYTES) as peer,
    ):
        stream = peer.open("Append")
        assert await peer.until_data(stream)
        async with alongside(_flood(peer, stream)):
            async with asyncio.timeout(LIMIT_S):
                await place.host.stream_ended.wait()
            assert await writer.goes_on()
            peer.take(stream, 1 << 20)
            trailers = await told(peer, stream)
        assert has(trailers, errors.Timeout), trailers
        assert b"the client took nothing for %d ms" % TAKING_MS in trailers


@pytest.mark.usefixtures("soon")
async def test_a_connection_that_leaves_many_answers_untaken_gets_no_others() -> None:
    request = messages.ledger(messages.LedgerCall(ledger_id=LEDGER)).SerializeToString()
    async with (
        serving() as place,
        honest(place) as writer,
        raw_peer(place.port, BOOKIE, takes_bytes=0) as peer,
    ):
        asked = [peer.open("ReadLac") for _ in range(grpc_server.STUCK_MAX)]
        for stream in asked:
            await peer.send_message(stream, request)
        peer.take(0, 1 << 30)  # the connection holds nothing back, but each of the streams does
        refused = b""
        async with asyncio.timeout(LIMIT_S):
            while b"leaves 8 answers untaken" not in refused:
                another = peer.open("ReadLac")
                await peer.send_message(another, request)
                peer.take(another, 1 << 20)
                refused = await peer.until_ended(another)
        assert has(refused, errors.TooManyRequests)
        assert not peer.ended.intersection(asked)
        assert await writer.goes_on()
        for stream in asked:
            peer.take(stream, 1 << 20)
            assert has(await told(peer, stream), errors.Timeout)
        served = peer.open("ReadLac")
        peer.take(served, 1 << 20)
        await peer.send_message(served, request)
        assert await peer.until_data(served)


#: The first answer of a stream, in gRPC's frame of five bytes.
HELLO_BYTES = 5 + len(carriers.build([carriers.Hello(boot_epoch=1)]))
#: Items of each carrier of a flood.
FLOOD_ITEMS = 100


async def _flood(peer: RawPeer, stream: int) -> None:
    """Append to a ledger that is not open, until the stream ends."""
    packet = ABSENT.to_bytes(8, "big") + bytes(28)
    number = 0
    while stream not in peer.ended:
        items = [
            carriers.WriteLac(number=at, ledger_id=ABSENT, packet=packet)
            for at in range(number, number + FLOOD_ITEMS)
        ]
        number += FLOOD_ITEMS
        await peer.send_message(stream, carriers.build(items))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02",
        bytes(4096),
    ],
    ids=["nothing", "half a greeting", "HTTP/1.1", "TLS", "zeros"],
)
async def test_who_does_not_greet_as_it_should_is_let_go(greeting: bytes) -> None:
    async with serving() as place, honest(place) as writer:
        before = descriptors()
        peers = [await asyncio.open_connection("127.0.0.1", place.port) for _ in range(20)]
        for _, wire in peers:
            wire.write(greeting)
        assert await writer.goes_on()
        async with asyncio.timeout(LIMIT_S):
            for reader, wire in peers:
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                wire.transport.abort()
        await until(lambda: descriptors() <= before)


async def test_connections_above_the_limit_are_closed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_edge, "CONNECTIONS_MAX", 8)
    async with serving() as place, honest(place) as writer, contextlib.AsyncExitStack() as crowd:
        before = descriptors()
        peers = [await crowd.enter_async_context(raw_peer(place.port, BOOKIE)) for _ in range(30)]
        await until(lambda: sum(not peer.closed for peer in peers) <= 7)
        # A connection of a test has both its ends here.
        assert descriptors() <= before + 30 + 8
        assert await writer.goes_on()
        await crowd.aclose()
        await until(lambda: descriptors() <= before)
        assert await place.serves_a_newcomer()


async def test_a_storm_of_connections_that_come_and_go_leaves_nothing_behind() -> None:
    async with serving() as place, honest(place) as writer:
        before = descriptors()
        for number in range(300):
            _, wire = await asyncio.open_connection("127.0.0.1", place.port)
            if number % 2:
                wire.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            wire.transport.abort()
        assert await writer.goes_on()
        await until(lambda: descriptors() <= before)


async def _resets(peer: RawPeer) -> None:
    """Begin calls and take them back at once."""
    for _ in range(1_000):
        peer.send(raw_http2.RST_STREAM, 0, peer.open("Info"), bytes(4))


async def _pings(peer: RawPeer) -> None:
    for _ in range(5_000):
        peer.send(raw_http2.PING, 0, 0, bytes(8))


async def _settings(peer: RawPeer) -> None:
    for _ in range(5_000):
        peer.send(raw_http2.SETTINGS, 0, 0)


async def _headers(peer: RawPeer) -> None:
    """Send headers of which there is no end."""
    stream = peer.open("Info", [(f"x-{number}", "x" * 100) for number in range(5_000)])
    await peer.until_ended(stream)


async def _nothing_known(peer: RawPeer) -> None:
    for number in range(500):
        peer.send(200, 0, 2 * number + 1, bytes(16_000))


@pytest.mark.parametrize("flood", [_resets, _pings, _settings, _headers, _nothing_known])
async def test_a_flood_of_frames_harms_its_sender_alone(flood: Flood) -> None:
    async with serving() as place, honest(place) as writer, raw_peer(place.port, BOOKIE) as peer:
        async with asyncio.timeout(LIMIT_S):
            await flood(peer)
        assert await writer.goes_on()
        assert await place.serves_a_newcomer()


async def test_on_a_port_with_tls_who_speaks_something_else_is_let_go(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    mine = authority.sign("bookie", name="bookie", hosts=(BOOKIE,))

    def shown(signer: Authority) -> TlsFiles:
        pair = signer.sign("client", name="client")
        return TlsFiles(
            authority=authority.pair.certificate, certificate=pair.certificate, key=pair.key
        )

    credentials = tls.server_credentials(
        TlsFiles(authority=authority.pair.certificate, certificate=mine.certificate, key=mine.key)
    )
    friends = tls.ClientCredentials(shown(authority))
    async with serving(credentials=credentials) as place, honest(place, friends) as writer:
        for other in (None, tls.ClientCredentials(shown(stranger))):
            await _is_kept_out(place, other)
        async with raw_peer(place.port, BOOKIE) as peer, asyncio.timeout(LIMIT_S):
            await peer.until_closed()
            assert not peer.data
        assert await writer.goes_on()


async def _is_kept_out(place: Place, credentials: tls.ClientCredentials | None) -> None:
    async with place.friendly(credentials) as link:
        with pytest.raises(errors.ProtocolError):
            await link.info()


async def test_a_bookie_without_tls_lets_go_who_begins_with_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("client", name="client")
    files = TlsFiles(
        authority=authority.pair.certificate, certificate=pair.certificate, key=pair.key
    )
    async with serving() as place, honest(place) as writer:
        await _is_kept_out(place, tls.ClientCredentials(files))
        assert await writer.goes_on()
