"""A port of the socket lane, and strangers who shake hands as far as they like."""

import asyncio
import random
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.support.raw_sockets import LIMIT_S, until
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, PATIENT
from zonekeeper.wire.formats import socket_framing, socket_messages
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.socket_messages import ClientGreeting, ConnectionKind
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.handshakes import HandshakeLimits
from zonekeeper.wire.socket.socket_server import SocketLimits, SocketServer
from zonekeeper.wire.socket.socket_tls import SocketTls

#: In milliseconds: longer than any test.
FOR_EVER_MS = 3_600_000
HERE, THERE = "127.0.0.1", "127.0.0.2"


def limited(
    *,
    waiting_max: int = 1_024,
    begun_max: int = 64,
    stalled_s: float = FOR_EVER_MS,
    failed_per_s: float = 50.0,
    turns_max: int = 64,
) -> SocketLimits:
    handshakes = HandshakeLimits(
        waiting_max=waiting_max,
        begun_max=begun_max,
        stalled_s=stalled_s,
        failed_per_s=failed_per_s,
        turns_max=turns_max,
    )
    return SocketLimits(greeting_ms=FOR_EVER_MS, handshakes=handshakes)


@asynccontextmanager
async def serving(files: TlsFiles | None, limits: SocketLimits) -> AsyncIterator[SocketServer]:
    encryption = None if files is None else SocketTls(files, serving=True)
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = SocketServer(host, Address(HERE, 0), name=BOOKIE, tls=encryption, limits=limits)
    await server.start()
    try:
        yield server
    finally:
        async with asyncio.timeout(LIMIT_S):
            await server.stop(0)


async def taken(server: SocketServer, number: int) -> None:
    """Wait until so many connections were taken, those that have ended included."""
    await until(lambda: server.figures.now + server.figures.ended.total() >= number)


async def failed(server: SocketServer, number: int) -> None:
    """Wait until so many handshakes have failed, and nothing else has ended since."""
    await until(lambda: server.figures.ended[EndCause.HANDSHAKE] >= number)
    assert server.figures.ended[EndCause.HANDSHAKE] == number


async def ask(server: SocketServer, files: TlsFiles | None) -> None:
    """Ask as an honest client does, over a connection of its own."""
    encryption = None if files is None else SocketTls(files, serving=False)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        at = Address(HERE, server.port)
        lane = socket_link.SocketPlace(name=BOOKIE, address=at, tls=encryption)
        link = socket_link.connect(lane, tasks=tasks, chance=random.Random(1), settings=PATIENT)
        try:
            assert (await link.info()).bookie_id == BOOKIE
        finally:
            await link.close()


class Stranger:
    """A connection that is driven by hand, and shakes hands as far as it likes."""

    def __init__(self, port: int, context: ssl.SSLContext, host: str = HERE) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = socket.create_connection((HERE, port), source_address=(host, 0))
        self._sock.setblocking(False)
        self._heard, self._says = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._heard, self._says, server_hostname=BOOKIE)
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self.hello = self._says.read()

    def send(self, data: bytes) -> None:
        self._sock.send(data)

    async def answered(self) -> None:
        """Wait for the bookie's part of the handshake."""
        async with asyncio.timeout(LIMIT_S):
            heard = await self._loop.sock_recv(self._sock, 1)
        assert heard
        self._heard.write(heard)

    async def finish(self) -> None:
        """Shake hands, once the hello was sent."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    self._tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self._heard.write(await self._loop.sock_recv(self._sock, 1 << 14))
        self.send(self._says.read())

    async def greet(self) -> None:
        """Greet as a client does, and wait for the answer; after ``finish``."""
        greeting = ClientGreeting(bookie=BOOKIE, kind=ConnectionKind.CALLS, speaks=None)
        said = socket_messages.build_client_greeting(greeting)
        self._tls.write(socket_framing.headed(said))
        self.send(self._says.read())
        async with asyncio.timeout(LIMIT_S):
            while not self._read():
                self._heard.write(await self._loop.sock_recv(self._sock, 1 << 14))

    def _read(self) -> bytes:
        """Give what has come, without TLS; nothing, if that is no whole record."""
        try:
            return self._tls.read()
        except ssl.SSLWantReadError:
            return b""

    async def heard_end(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            try:
                while await self._loop.sock_recv(self._sock, 1 << 14):
                    pass
            except ConnectionError:
                pass

    def is_silent(self) -> bool:
        """Is the connection there, and has nothing come?"""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False

    def end_side(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Break the connection: the other side gets a reset, and no end."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def close(self) -> None:
        self._sock.close()


Strange = Callable[..., Stranger]


@asynccontextmanager
async def strangers(server: SocketServer, files: TlsFiles) -> AsyncIterator[Strange]:
    """Make strangers: with these files they could shake hands, if they would."""
    context = SocketTls(files, serving=False).current()
    with_none = ssl.create_default_context(cafile=str(files.authority))
    with_none.check_hostname = False
    async with AsyncExitStack() as ends:

        def make(*, certified: bool = True, host: str = HERE) -> Stranger:
            stranger = Stranger(server.port, context if certified else with_none, host)
            ends.callback(stranger.close)
            return stranger

        yield make
