"""What is at an address: no such host, nothing that listens, or something that takes a connection.

This is for messages to people. A host name is looked up in a thread that nobody waits for: an
unanswered look-up would keep a command from its end otherwise.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from zonekeeper.metadata.store.background import together

Places: TypeAlias = Sequence[tuple[socket.AddressFamily, tuple[str, int]]]


async def connect(connection: socket.socket, address: tuple[str, int]) -> None:
    """Connect a socket; raises ``OSError``."""
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, address)


async def resolved(host: str, port: int) -> Places:
    """Look up a host, whose IPv6 form has no brackets; raises ``OSError``."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Places] = loop.create_future()

    def look() -> None:
        try:
            every = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            trouble = error if isinstance(error, OSError) else OSError(f"no host name: {error}")
            tell = partial(_fail, found, trouble)
        else:
            places = [(family, (str(at[0]), int(at[1]))) for family, _, _, _, at in every]
            tell = partial(_give, found, places)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=look, name="look-up", daemon=True).start()
    return await found


def reason(error: OSError) -> str:
    """Say in the system's words why a host was not reached."""
    is_of_system = not isinstance(error, socket.gaierror) and error.errno
    return os.strerror(error.errno or 0) if is_of_system else error.strerror or str(error)


async def each_server(servers: Iterable[str], within_ms: int) -> str:
    """Say of each ZooKeeper server, ``host:port``, what is there."""
    return "; ".join(await together(_server(server, within_ms) for server in servers))


async def _server(server: str, within_ms: int) -> str:
    host, _, port = server.rpartition(":")
    try:
        async with asyncio.timeout(within_ms / 1000):
            (family, place), *_ = await resolved(host.strip("[]"), int(port))
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                await connect(connection, place)
    except TimeoutError:
        return f"{server} does not take a connection"
    except OSError as error:
        return f"{server}: {reason(error)}"
    return f"{server} takes a connection and does not answer as a ZooKeeper with a quorum"


def _give(found: "asyncio.Future[Places]", value: Places) -> None:
    if not found.done():
        found.set_result(value)


def _fail(found: "asyncio.Future[Places]", error: OSError) -> None:
    if not found.done():
        found.set_exception(error)
