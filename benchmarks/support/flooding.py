"""Floods of peers that follow no rule, from a process of their own.

    python -m benchmarks.support.flooding KIND NICENESS AUTHORITY CERTIFICATE KEY PORT...

It says ``flooding`` once the flood is on, and goes on until its standard input ends. The files are
those of a client whom bookies let in; only ``resets`` shows them, because it needs a stream. Where
the clock counts, the process has the lowest priority (``LOWEST``): a real flood comes from other
machines, whose CPUs it does not take from the honest ones.
"""

import asyncio
import contextlib
import os
import resource
import ssl
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final

from tests.support.raw_http2 import RST_STREAM, raw_peer
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import BookieId

HALF_HANDSHAKES: Final = 5_000
CONNECTIONS: Final = 10_000
#: Calls that are begun and taken back before the next look at the clock.
_RESETS: Final = 100
_PEERS: Final = 4
#: The first bytes of a hello of TLS; its length says that much more follows.
_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
_HOST: Final = "127.0.0.1"
#: The niceness of the lowest priority.
LOWEST: Final = 19


async def _connected(port: int) -> asyncio.StreamWriter | None:
    try:
        _, wire = await asyncio.open_connection(_HOST, port)
    except OSError:
        return None
    return wire


async def half_handshakes(ports: Sequence[int], begun: asyncio.Event) -> None:
    """Keep thousands of handshakes half done, each at a byte a second."""
    wires: list[asyncio.StreamWriter | None] = [None] * HALF_HANDSHAKES
    sent = [0] * HALF_HANDSHAKES
    while True:
        for at, wire in enumerate(wires):
            if wire is None or wire.is_closing() or sent[at] >= len(_HELLO):
                wires[at], sent[at] = await _connected(ports[at % len(ports)]), 0
            else:
                wire.write(_HELLO[sent[at] :][:1])
                sent[at] += 1
        _tell(wires, begun)
        await asyncio.sleep(1)


def _tell(wires: Sequence[asyncio.StreamWriter | None], begun: asyncio.Event) -> None:
    """The flood is on once most of its connections were made."""
    if sum(wire is not None for wire in wires) > len(wires) // 2:
        begun.set()


async def connections(ports: Sequence[int], begun: asyncio.Event) -> None:
    """Connect and be silent, and connect again as soon as one is closed."""
    wires: list[asyncio.StreamWriter | None] = [None] * CONNECTIONS
    while True:
        for at, wire in enumerate(wires):
            if wire is None or wire.is_closing():
                wires[at] = await _connected(ports[at % len(ports)])
        _tell(wires, begun)
        await asyncio.sleep(0.1)


async def handshakes(ports: Sequence[int], begun: asyncio.Event) -> None:
    """Shake hands without a certificate, again and again."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def one(port: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                _, wire = await asyncio.open_connection(_HOST, port, ssl=context)
                wire.transport.abort()
                begun.set()

    async with asyncio.TaskGroup() as tasks:
        for port in ports:
            for _ in range(_PEERS):
                tasks.create_task(one(port))


async def resets(ports: Sequence[int], begun: asyncio.Event) -> None:
    """Begin calls over HTTP/2 and take them back at once, with a certificate that is let in."""
    authority, certificate, key = sys.argv[3:6]
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = False
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])

    async def one(port: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                async with raw_peer(port, BookieId("bk-a-0"), tls=context) as peer:
                    while not peer.closed:
                        for _ in range(_RESETS):
                            peer.send(RST_STREAM, 0, peer.open("Info"), bytes(4))
                        begun.set()
                        await peer.drain()
                        await asyncio.sleep(0)  # the end of a connection is heard here

    async with asyncio.TaskGroup() as tasks:
        for port in ports:
            tasks.create_task(one(port))


Flood = Callable[[Sequence[int], asyncio.Event], Coroutine[None, None, None]]


#: Every flood, by the way whose ports are flooded.
FLOODS: Final[Mapping[BookieWay, Mapping[str, Flood]]] = {
    BookieWay.GRPC: {
        "half handshakes": half_handshakes,
        "connections": connections,
        "handshakes": handshakes,
        "resets": resets,
    },
    BookieWay.SOCKET: {
        "half handshakes": half_handshakes,
        "connections": connections,
        "handshakes": handshakes,
    },
}


async def flood(kind: str, ports: Sequence[int]) -> None:
    """Flood until standard input ends."""
    begun = asyncio.Event()

    async def told() -> None:
        await begun.wait()
        print("flooding", flush=True)

    async with asyncio.TaskGroup() as tasks:
        telling = tasks.create_task(told())
        flooding = tasks.create_task(FLOODS[BookieWay.GRPC][kind](ports, begun))
        await asyncio.to_thread(sys.stdin.read)
        telling.cancel()
        flooding.cancel()


def main() -> None:
    """Flood as the arguments say."""
    kind, niceness, ports = sys.argv[1], int(sys.argv[2]), sys.argv[6:]
    os.nice(niceness)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(flood(kind, [int(port) for port in ports]))


if __name__ == "__main__":
    main()
