"""The console's HTTP server: one request a connection, everything bounded, nothing kept.

An answer is a value that is there when it is asked for: no request waits for the store. So a slow
client holds one answer and one connection, and both end after ``REPLY_TIMEOUT_MS``. At the limit of
connections the oldest is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from zonekeeper.shell.console import http_requests
from zonekeeper.shell.console.http_requests import ConsoleReply, ConsoleRequest
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.running import listening
from zonekeeper.wire.running.processes import explained

REQUEST_BYTES_MAX: Final = 8 << 10
REQUEST_TIMEOUT_MS: Final = 5_000
REPLY_TIMEOUT_MS: Final = 20_000
CONNECTIONS_MAX: Final = 64

_END: Final = b"\r\n\r\n"

Answer = Callable[[ConsoleRequest], ConsoleReply]


@asynccontextmanager
async def served(answer: Answer, host: str, port: int, names: Set[str]) -> AsyncIterator[int]:
    """Serve until the block ends; give the port. ``names`` may be in Host. Raises ``OSError``."""
    #: The open connections, oldest first.
    served_now: dict[asyncio.StreamWriter, None] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served_now[writer] = None
        if len(served_now) > CONNECTIONS_MAX:
            oldest = next(iter(served_now))
            del served_now[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1000):
                reply = await _replied(answer, reader, names)
            async with asyncio.timeout(REPLY_TIMEOUT_MS / 1000):
                writer.write(reply)
                writer.close()
                await writer.wait_closed()  # until the client has taken the last byte
        except (TimeoutError, ConnectionError):
            writer.transport.abort()  # the client is gone, or too slow
        finally:
            served_now.pop(writer, None)
            writer.close()

    with explained(f"cannot listen on {host}, port {port} (see --host, --port)"):
        where = addresses.of(host, port)
        server = await listening.start_server(serve, where, limit=REQUEST_BYTES_MAX)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in served_now:
            writer.transport.abort()


async def _replied(answer: Answer, reader: asyncio.StreamReader, names: Set[str]) -> bytes:
    try:
        head = await reader.readuntil(_END)
    except asyncio.LimitOverrunError:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        reply = http_requests.refused(status, "the request is too large")
        return http_requests.rendered(reply, body_wanted=True)
    except asyncio.IncompleteReadError:
        reply = http_requests.refused(HTTPStatus.BAD_REQUEST, "the request ends too early")
        return http_requests.rendered(reply, body_wanted=True)
    request = http_requests.parse(head, names)
    if isinstance(request, ConsoleReply):
        return http_requests.rendered(request, body_wanted=not head.startswith(b"HEAD "))
    return http_requests.rendered(answer(request), body_wanted=request.body_wanted)
