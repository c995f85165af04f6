"""Between a client and a bookie with TLS nothing that an application wrote can be read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.support.certificates import Authorities, certified
from tests.support.raw_sockets import LIMIT_S
from tests.wire.link.worlds import BOOKIE, PATIENT, opened, read
from tests.wire.socket.test_socket_tls import serving
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_link import SocketPlace
from zonekeeper.wire.socket.socket_tls import SocketTls

WORDS = b"the word that nobody else may read"


class Tap:
    """Passes on what two sides say, and keeps a copy."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self.heard = bytearray()

    async def join(self, near: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        far, onwards = await asyncio.open_connection("127.0.0.1", self._to)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pass(near, onwards))
            tasks.create_task(self._pass(far, answer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                self.heard += data
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()


@asynccontextmanager
async def tapped(port: int) -> AsyncIterator[Tap]:
    tap = Tap(port)
    server = await asyncio.start_server(tap.join, "127.0.0.1", 0)
    tap.port = server.sockets[0].getsockname()[1]
    async with server:
        yield tap


@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_tap_hears_the_words_only_without_tls(
    is_secure: bool, authorities: Authorities
) -> None:
    files: dict[str, TlsFiles | None] = {"bookie": None, "client": None}
    if is_secure:
        files = {
            "bookie": certified(authorities.ours, BOOKIE, "bookie"),
            "client": certified(authorities.ours, "client", "client"),
        }
    async with (
        asyncio.timeout(LIMIT_S),
        serving(files["bookie"]) as server,
        tapped(server.port) as tap,
        asyncio.TaskGroup() as tasks,
    ):
        client = files["client"]
        tls = None if client is None else SocketTls(client, serving=False)
        place = SocketPlace(name=BOOKIE, address=Address("127.0.0.1", tap.port), tls=tls)
        link = socket_link.connect(place, tasks=tasks, chance=Random(1), settings=PATIENT)
        writer, lane, outcomes = await opened(link, 7)
        frame = writer.frame(WORDS)
        lane.append(frame)
        await outcomes.all_of(1)
        assert (await link.read(read(7, 0, 0))).frames == (frame,)
        await link.close()
        assert len(tap.heard) > 2 * len(WORDS), "it heard both ways"
        assert (WORDS in tap.heard) is not is_secure
        assert (b"bookie" in tap.heard) is not is_secure, "not even the greeting"
