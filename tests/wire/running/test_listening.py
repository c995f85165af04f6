"""A port at [::] is reached over IPv6 and over IPv4, whichever part of a process has it."""

import asyncio
import http.client
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
)

import pytest

from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.running import listening, looking
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.socket.socket_server import SocketServer


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return socket.has_dualstack_ipv6()


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")

EVERYWHERE = Address("[::]", 0)
#: Each address, and those at which it is reached.
REACHED = [
    ("[::]", {"::1", "127.0.0.1"}),
    ("[0:0:0:0:0:0:0:0]", {"::1", "127.0.0.1"}),
    ("[::1]", {"::1"}),
    ("0.0.0.0", {"127.0.0.1"}),
    ("127.0.0.1", {"127.0.0.1"}),
]


@contextmanager
def port_for(hosts: set[str]) -> Iterator[int]:
    """Give a port that is free at these addresses, and at which nobody else listens at the other.

    Of a port at both no other process has a part.
    """
    others = {"::1", "127.0.0.1"} - hosts
    if not others:
        yield 0
        return
    (other,) = others
    with ExitStack() as held:
        while True:
            holder = held.enter_context(socket.socket(_family(other)))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((other, 0))  # and it never listens
            port = int(holder.getsockname()[1])
            try:
                (free,) = hosts
                socket.create_server((free, port), family=_family(free)).close()
            except OSError:
                continue  # somebody has it there
            yield port
            return


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def reached(port: int) -> set[str]:
    """Give the addresses of this machine at which a port takes connections."""
    found = set()
    for host in ("::1", "127.0.0.1"):
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            continue
        writer.close()
        found.add(host)
    return found


@needs_ipv6
@pytest.mark.parametrize(("host", "hosts"), REACHED)
async def test_a_socket_is_reached_at_what_it_was_given(host: str, hosts: set[str]) -> None:
    with port_for(hosts) as port, closing(listening.opened(Address(host, port))) as listener:
        assert await reached(listener.getsockname()[1]) == hosts


@needs_ipv6
@pytest.mark.parametrize(("host", "hosts"), REACHED)
async def test_so_are_pages(host: str, hosts: set[str]) -> None:
    pages = {"/": lambda: Page("here")}
    with port_for(hosts) as wanted:
        async with looking.served(pages, Address(host, wanted)) as port:
            assert await reached(port) == hosts
            for one in hosts:
                assert await asyncio.to_thread(page, one, port) == "here"


@asynccontextmanager
async def lane(address: Address) -> AsyncIterator[int]:
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = SocketServer(host, address, name=f"{BOOKIE}", tls=None)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop(0)


@asynccontextmanager
async def grpc(address: Address) -> AsyncIterator[int]:
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = GrpcServer(host, str(address), name=f"{BOOKIE}", credentials=None)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop(0)


@needs_ipv6
@pytest.mark.parametrize("served", [lane, grpc])
async def test_so_are_both_ports_of_a_bookie(
    served: Callable[[Address], AbstractAsyncContextManager[int]],
) -> None:
    async with served(EVERYWHERE) as port:
        assert await reached(port) == {"::1", "127.0.0.1"}
    with port_for({"::1"}) as wanted:
        async with served(Address("[::1]", wanted)) as port:
            assert await reached(port) == {"::1"}


@needs_ipv6
async def test_a_port_that_one_family_has_taken_is_refused_at_both() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            listening.opened(Address("[::]", port))
        with pytest.raises(OSError, match="in use"):
            async with looking.served({}, Address("[::]", port)):
                pass


def test_a_peer_has_one_name_whichever_socket_took_it() -> None:
    assert listening.peer_of(("10.0.0.9", 4711)) == "10.0.0.9:4711"
    assert listening.peer_of(("::ffff:10.0.0.9", 4711, 0, 0)) == "10.0.0.9:4711"
    assert listening.peer_of(("fd00::9", 4711, 0, 0)) == "[fd00::9]:4711"
    assert listening.peer_of(("fe80::9%eth0", 4711, 0, 2)) == "[fe80::9%eth0]:4711"


def test_hosts_are_told_apart_by_what_a_machine_has_for_itself() -> None:
    def host(name: str) -> str:
        return listening.host_of((name, 4711, 0, 0))

    assert host("10.0.0.9") == host("::ffff:10.0.0.9") == "10.0.0.9"
    assert host("10.0.0.8") != host("10.0.0.9")
    assert host("fd00:1::9") == host("fd00:1::8:9"), "a machine takes any address of its network"
    assert host("fd00:1::9") != host("fd00:1:0:1::9")
    assert host("fe80::9%eth0") == host("fe80::8")


@pytest.mark.parametrize(
    ("host", "everywhere"),
    [("[::]", True), ("[::0]", True), ("[::1]", False), ("0.0.0.0", False), ("localhost", False)],
)
def test_only_the_empty_address_of_ipv6_is_everywhere(host: str, everywhere: bool) -> None:
    assert listening.is_everywhere(addresses.of(host, 80)) is everywhere


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "[::0]"])
def test_what_is_everywhere_is_advertised_as_the_machine_s_name(host: str) -> None:
    assert addresses.advertised(Address(host, 80), "m1") == "m1"
    assert addresses.advertised(Address("[::1]", 80), "m1") == "[::1]"
    assert addresses.advertised(Address("m2.example", 80), "m1") == "m2.example"


def page(host: str, port: int) -> str:
    with closing(http.client.HTTPConnection(host, port, timeout=10)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
