"""A socket that listens at an address. ``[::]`` is every address of the machine, of IPv4 too.

A socket of IPv6 takes connections over IPv4 only if it is told so before it is bound, and both
``asyncio`` and ``socket`` tell it the contrary. Any other address is served as it stands. So
``0.0.0.0`` is every address of IPv4, and ``[::1]`` is one of IPv6.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address

_BACKLOG: Final = 128

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def is_everywhere(address: Address) -> bool:
    """Is it every address of the machine, of IPv6 and IPv4?"""
    try:
        return ipaddress.IPv6Address(address.bare_host) == ipaddress.IPv6Address("::")
    except ValueError:
        return False  # of IPv4, or a name


def opened(address: Address, *, backlog: int = _BACKLOG) -> socket.socket:
    """Give a socket that is bound and listens; raises ``OSError``. The caller closes it."""
    return socket.create_server(
        (address.bare_host, address.port),
        family=socket.AF_INET6 if ":" in address.host else socket.AF_INET,
        backlog=backlog,
        # Where the machine has no such sockets, the other kind is still better than none.
        dualstack_ipv6=is_everywhere(address) and socket.has_dualstack_ipv6(),
    )


async def start_server(
    serve: Serve,
    address: Address,
    *,
    limit: int,
    context: ssl.SSLContext | None = None,
    handshake_timeout_s: float | None = None,
) -> asyncio.Server:
    """Serve connections; ``limit`` is that of ``asyncio.start_server``. Raises ``OSError``."""
    if not is_everywhere(address):
        return await asyncio.start_server(
            serve,
            address.bare_host,
            address.port,
            limit=limit,
            ssl=context,
            ssl_handshake_timeout=handshake_timeout_s,
        )
    listener = opened(address)
    try:
        return await asyncio.start_server(
            serve,
            sock=listener,
            limit=limit,
            ssl=context,
            ssl_handshake_timeout=handshake_timeout_s,
        )
    except BaseException:
        listener.close()
        raise


def host_of(sockname: tuple[object, ...]) -> str:
    """Name what the other side of a connection has for itself: its address.

    Of IPv6 that is a network of 64 bits, of which any machine may take any address.
    """
    host = ipaddress.ip_address(str(sockname[0]).partition("%")[0])
    if isinstance(host, ipaddress.IPv4Address):
        return str(host)
    if host.ipv4_mapped is not None:
        return str(host.ipv4_mapped)
    return host.packed[:8].hex(":", 2)


def peer_of(sockname: tuple[object, ...]) -> str:
    """Name the other side of a connection: ``HOST:PORT``.

    A peer over IPv4 has the same name, whichever kind of socket took its connection.
    """
    host, port = str(sockname[0]), int(str(sockname[1]))
    try:
        mapped = ipaddress.IPv6Address(host).ipv4_mapped
    except ValueError:
        mapped = None
    return str(addresses.of(host if mapped is None else str(mapped), port))
