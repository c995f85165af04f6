"""The HTTP port of an autorecovery process: for looking, never for changing anything.

GET on a table of paths, one request a connection, nothing kept alive; whatever else comes is
refused with the status that says so. Anybody who reaches the port may try, so the size of a
request, its time, and how many there are at once are bounded.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from zonekeeper.replication.settings import Address

REQUEST_BYTES_MAX: Final = 8 << 10
REQUEST_TIMEOUT_MS: Final = 5_000
CONNECTIONS_MAX: Final = 64

_END: Final = b"\r\n\r\n"
_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Pages: TypeAlias = Mapping[str, Callable[[], Page]]


@asynccontextmanager
async def served(pages: Pages, address: Address) -> AsyncIterator[int]:
    """Serve pages until the block ends; give the port. Raises ``OSError``."""
    gate = asyncio.Semaphore(CONNECTIONS_MAX)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1000):
                async with gate:
                    writer.write(_bytes(await _answer(pages, reader)))
                await writer.drain()
        except (TimeoutError, ConnectionError):
            pass  # whoever asked is gone, or too slow
        finally:
            writer.close()

    server = await asyncio.start_server(
        serve, address.bare_host, address.port, limit=REQUEST_BYTES_MAX
    )
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def _answer(pages: Pages, reader: asyncio.StreamReader) -> Page:
    try:
        head = await reader.readuntil(_END)
    except asyncio.LimitOverrunError:
        return Page("the request is too large\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    except asyncio.IncompleteReadError:
        return Page("the request ends too early\n", HTTPStatus.BAD_REQUEST)
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != _WORDS or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        return Page("this is not HTTP/1.1\n", HTTPStatus.BAD_REQUEST)
    if words[0] != b"GET":
        return Page("only GET: this port is for looking\n", HTTPStatus.METHOD_NOT_ALLOWED)
    page = pages.get(words[1].partition(b"?")[0].decode("ascii", "replace"))
    if page is None:
        return Page(f"there is only: {' '.join(sorted(pages))}\n", HTTPStatus.NOT_FOUND)
    return page()


def _bytes(page: Page) -> bytes:
    body = page.text.encode()
    lines = [
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET")
    return "\r\n".join(lines).encode() + _END + body
