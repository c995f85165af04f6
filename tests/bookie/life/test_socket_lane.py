"""The socket lane of a bookie's process: its flag, its registration, its pages, and TLS."""

import asyncio
import random
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.bookie.life.process_world import BOOKIE, INSTANCE, World, refused, started
from tests.bookie.running import LEDGER, frame, opening
from tests.bookie.serving.test_links import Sink, reading
from tests.support.certificates import Authority
from tests.support.raw_sockets import raw_socket
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import PATIENT
from tests.wire.running.test_listening import needs_ipv6
from zonekeeper.bookie.life import process, settings
from zonekeeper.metadata.bookies import registration
from zonekeeper.wire.formats import bookie_names
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.running.running import StopRequest
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_link import SocketPlace
from zonekeeper.wire.socket.socket_tls import SocketTls


async def lane_of(world: World) -> int | None:
    """Give the port of the lane that the bookie registers."""
    async with world.cluster() as cluster:
        info = await registration.read_service_info(cluster, BOOKIE)
    assert info is not None
    assert info.bookie is not None
    return None if info.socket is None else info.socket.port


async def write_and_read(port: int, tls: SocketTls | None = None) -> None:
    """Write an entry over the lane, and read it back."""
    name = bookie_names.name_of(BOOKIE, INSTANCE)
    place = SocketPlace(name=name, address=Address("127.0.0.1", port), tls=tls)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        link = socket_link.connect(place, tasks=tasks, chance=random.Random(1), settings=PATIENT)
        try:
            sink = Sink()
            lane = await link.open_fragment(opening(), sink)
            lane.append(frame(0))
            assert await sink.outcomes.get() == (0, None)
            assert (await link.read(reading(0, 0))).frames == (frame(0),)
            assert (await link.info()).boot_epoch == 1
            assert (await link.read_lac(LEDGER)).last_entry is not None
        finally:
            await link.close()


def page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
        return text


async def test_a_bookie_serves_the_lane_where_it_registers_it_and_counts_its_connections(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    await world.make()
    async with started(world, listen_socket="127.0.0.1:0") as bookie:
        port = await lane_of(world)
        assert port is not None
        assert f", socket 127.0.0.1:{port}, " in bookie.line
        await write_and_read(port)
        async with raw_socket(port) as peer:
            peer.send(b"GET / HTTP/1.1\r\n\r\n")
            assert await peer.hear() is None
        shown = await asyncio.to_thread(page, bookie.http_port)
        name = "zonekeeper_bookie_socket_connections"
        assert f'{name}_ended_total{{cause="other-protocol"}} 1' in shown
        assert f'{name}_ended_total{{cause="half-message"}} 0' in shown
        assert f"\n{name} " in shown
        assert f"\n{name}_unfinished 0\n" in shown


async def test_the_lane_is_open_whenever_grpc_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a client that connects while the bookie starts or stops finds a lane that is blocked."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    given = {
        "data": str(tmp_path),
        "metadata": "memory:",
        "id": BOOKIE,
        "listen": "127.0.0.1:0",
        "listen-socket": f"127.0.0.1:{port}",
    }
    seen: list[str] = []

    class Watched(GrpcServer):
        async def start(self) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            seen.append("before the start")
            await super().start()

        async def stop(self, grace_ms: int) -> None:
            await super().stop(grace_ms)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            seen.append("after the stop")

    monkeypatch.setattr(process, "GrpcServer", Watched)
    one = process._Process(settings.parse(given, {}), lambda _: None, StopRequest(60))
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    async with one._served(host, bookie_names.name_of(BOOKIE, INSTANCE), None, 0) as ports:
        assert ports.socket == port
        assert seen == ["before the start"]
    assert seen == ["before the start", "after the stop"]


async def test_a_bookie_without_the_flag_has_no_lane(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.make()
    async with started(world) as bookie:
        assert await lane_of(world) is None
        assert "socket" not in bookie.line
        assert "socket" not in await asyncio.to_thread(page, bookie.http_port)


async def test_a_port_of_the_lane_that_is_taken_is_named_before_anything_is_changed(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    await world.make()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = await refused(world.arguments(listen_socket=address))
    assert code == 1
    assert f"--listen-socket: cannot listen on {address}" in said
    assert not (world.data / "cookie").exists()


@needs_ipv6
@pytest.mark.parametrize("flag", ["listen", "listen-socket"])
def test_a_port_is_free_only_if_it_is_so_over_ipv6_and_ipv4(tmp_path: Path, flag: str) -> None:
    given = {
        "metadata": f"sqlite://{tmp_path}/meta.db",
        "id": BOOKIE,
        "data": str(tmp_path / "data"),
        "advertise": "127.0.0.1",
        "listen": "[::1]:0",
    }
    process._check_free(settings.parse({**given, flag: "[::1]:0"}, {}))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"[::]:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"--{flag}: cannot listen on ") as told:
            process._check_free(settings.parse({**given, flag: address}, {}))
    assert address in str(told.value)


async def test_the_lane_has_the_encryption_of_grpc(tmp_path: Path) -> None:
    world, authority = World(tmp_path), Authority(tmp_path / "authority")
    await world.make()

    def files(name: str) -> TlsFiles:
        pair = authority.sign(name, name=name, hosts=(name,))
        trusted = authority.pair.certificate
        return TlsFiles(authority=trusted, certificate=pair.certificate, key=pair.key)

    mine = files(BOOKIE)
    async with started(
        world,
        listen_socket="127.0.0.1:0",
        tls_authority=str(mine.authority),
        tls_certificate=str(mine.certificate),
        tls_key=str(mine.key),
    ):
        port = await lane_of(world)
        assert port is not None
        await write_and_read(port, SocketTls(files("client"), serving=False))
        with pytest.raises(ExceptionGroup):
            await write_and_read(port)
