"""TLS on the socket lane: the same files and rules as gRPC's, from the first byte."""

import asyncio
import logging
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.certificates import Authorities, certified, place
from tests.support.raw_sockets import LIMIT_S, raw_socket, until
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, PATIENT, opened, read
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.socket_server import SocketLimits, SocketServer
from zonekeeper.wire.socket.socket_tls import SocketTls


@asynccontextmanager
async def serving(
    files: TlsFiles | None, limits: SocketLimits | None = None
) -> AsyncIterator[SocketServer]:
    encryption = None if files is None else SocketTls(files, serving=True)
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = SocketServer(host, Address("127.0.0.1", 0), name=BOOKIE, tls=encryption, limits=limits)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


@asynccontextmanager
async def linked(
    server: SocketServer, files: TlsFiles | None, bookie: str = BOOKIE
) -> AsyncIterator[BookieLink]:
    encryption = None if files is None else SocketTls(files, serving=False)
    address = Address("127.0.0.1", server.port)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        place = socket_link.SocketPlace(name=bookie, address=address, tls=encryption)
        link = socket_link.connect(place, tasks=tasks, chance=random.Random(1), settings=PATIENT)
        try:
            yield link
        finally:
            await link.close()


async def test_both_sides_of_one_authority_talk_on_all_three_connections(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with serving(bookie_files) as server, linked(server, client_files) as link:
        assert (await link.info()).bookie_id == BOOKIE
        writer, lane, outcomes = await opened(link, 7)
        frame = writer.frame(b"one", b"x" * 3_000_000)
        lane.append(frame)
        await outcomes.all_of(1)
        assert (await link.read(read(7, 0, 1, bytes_max=4 << 20))).frames == (frame,)


async def refused(
    bookie_files: TlsFiles | None, client_files: TlsFiles | None
) -> Counter[EndCause]:
    """Let a client ask that is not served; give what the bookie counted."""
    async with serving(bookie_files, SocketLimits(greeting_ms=1_000)) as server:
        async with linked(server, client_files) as link:
            with pytest.raises(errors.NotConnected) as caught:
                await link.info()
            assert not caught.value.maybe_applied
            with pytest.raises(errors.NotConnected):
                await link.read(read(7, 0, 0))
        await until(lambda: not server.figures.now)
        return server.figures.ended


async def test_a_client_without_tls_is_not_served(bookie_files: TlsFiles) -> None:
    assert (await refused(bookie_files, None))[EndCause.HANDSHAKE] == 2


async def test_a_client_with_tls_is_not_served_without_and_the_log_says_so(
    client_files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await refused(None, client_files))[EndCause.OTHER_PROTOCOL] == 2
    assert "the peer speaks TLS, and this port has no TLS" in caplog.text


async def test_a_client_of_another_authority_is_not_served(
    authorities: Authorities, bookie_files: TlsFiles
) -> None:
    stranger = certified(authorities.theirs, "client", "stranger")
    trusts_ours = replace(stranger, authority=bookie_files.authority)
    assert (await refused(bookie_files, trusts_ours))[EndCause.HANDSHAKE] == 2


async def test_a_bookie_of_another_authority_is_not_believed(
    authorities: Authorities, client_files: TlsFiles
) -> None:
    impostor = certified(authorities.theirs, BOOKIE, "impostor")
    await refused(replace(impostor, authority=client_files.authority), client_files)


async def test_another_bookie_of_the_same_cluster_is_not_believed(
    authorities: Authorities, client_files: TlsFiles
) -> None:
    await refused(certified(authorities.ours, "rack-b-0", "other"), client_files)


async def test_a_client_that_shows_no_certificate_is_not_served(
    bookie_files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(cafile=str(bookie_files.authority))
    context.check_hostname = False
    async with serving(bookie_files) as server:
        try:
            async with raw_socket(server.port, context) as peer:
                assert await peer.hear() is None
        except OSError:
            pass  # with TLS 1.2 the client hears of it in the handshake
        await until(lambda: not server.figures.now)
        assert server.figures.ended == {EndCause.HANDSHAKE: 1}
        assert "the handshake failed" in caplog.text


async def test_a_bookie_whose_id_has_a_colon_is_not_asked(client_files: TlsFiles) -> None:
    async with asyncio.TaskGroup() as tasks:
        place = socket_link.SocketPlace(
            name="rack-a-0:1@cluster",
            address=Address("127.0.0.1", 1),
            tls=SocketTls(client_files, serving=False),
        )
        with pytest.raises(errors.NotConnected, match=r"'rack-a-0:1' cannot be .* without colons"):
            socket_link.connect(place, tasks=tasks, chance=random.Random(1))


async def test_half_a_handshake_is_waited_for_and_then_let_go(bookie_files: TlsFiles) -> None:
    async with serving(bookie_files, SocketLimits(greeting_ms=400)) as server:
        async with raw_socket(server.port) as peer:
            peer.send(bytes.fromhex("16030102000100"))
            assert await peer.hear() is None
        await until(lambda: not server.figures.now)
        assert server.figures.ended == {EndCause.HANDSHAKE: 1}


def test_a_file_that_is_not_what_it_should_be_is_named(client_files: TlsFiles) -> None:
    swapped = replace(client_files, certificate=client_files.key)
    with pytest.raises(ValueError, match=rf"{client_files.key}: no PEM block .* CERTIFICATE"):
        SocketTls(swapped, serving=False)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        SocketTls(replace(client_files, key=Path("/nowhere.pem")), serving=True)


async def test_each_new_connection_uses_the_files_as_they_are_then(
    authorities: Authorities, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bookie = place(tmp_path / "bookie", authorities.ours, BOOKIE)
    client = place(tmp_path / "client", authorities.ours, "client")
    async with serving(bookie) as server, linked(server, client) as link:
        assert (await link.info()).bookie_id == BOOKIE
        place(tmp_path / "bookie", authorities.theirs, BOOKIE)
        assert (await link.info()).bookie_id == BOOKIE, "a connection that is there goes on"
        with pytest.raises(errors.NotConnected):
            await opened(link, 7)
        place(tmp_path / "client", authorities.theirs, "client")
        while True:
            try:
                await link.read(read(7, 0, 0))
            except errors.NotConnected:
                await asyncio.sleep(0.01)
            except errors.NoSuchLedger:
                break
        (tmp_path / "client" / "tls.key").write_bytes(b"half of a k")
        with caplog.at_level(logging.WARNING):
            async with linked(server, place(tmp_path / "other", authorities.theirs, "c")):
                pass
        assert BookieId(BOOKIE) == link.bookie_id
