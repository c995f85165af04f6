"""The pages that a process shows over HTTP: for looking only; they change nothing.

The server answers GET for the paths of a table, one request a connection. It refuses anything else
with the matching status. Every process that reaches the port may send requests. So the size and
the time of a request, and the number of connections, are bounded. At the limit the oldest
connection is closed. A peer that opens connections and sends nothing must not keep a probe out,
because a process whose probe fails is killed.

A bookie and an autorecovery process use this beside their service. It is not part of the contract
between a client and a bookie.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.exposition import Family, single
from zonekeeper.wire.running import listening

REQUEST_BYTES_MAX: Final = 8 << 10
REQUEST_TIMEOUT_MS: Final = 5_000
CONNECTIONS_MAX: Final = 64

_END: Final = b"\r\n\r\n"
_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a request."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Pages: TypeAlias = Mapping[str, Callable[[], Page]]


_NO_REMARKS: Final[Mapping[str, str]] = {}


def readiness(missing: Mapping[str, str], remarks: Mapping[str, str] = _NO_REMARKS) -> Page:
    """Give the page that says whether the process is ready, and what is missing otherwise.

    ``remarks`` stand on the page in either case, and do not decide.
    """
    lines = [f"{name}: {why}\n" for name, why in (*missing.items(), *remarks.items())]
    if missing:
        return Page("".join(lines), HTTPStatus.SERVICE_UNAVAILABLE)
    return Page("".join(("ready\n", *lines)))


def as_json(data: Mapping[str, object]) -> Page:
    """Give a page of JSON."""
    text = json.dumps(data, indent=2, sort_keys=True) + "\n"
    return Page(text, content_type="application/json; charset=utf-8")


def store_connected(*, connected: bool) -> Family:
    """Give the metric that says whether this process reaches the metadata store."""
    text = "1 while this process is connected with the metadata store, else 0."
    return single("zonekeeper_store_connected", connected, text)


@asynccontextmanager
async def served(pages: Pages, address: Address) -> AsyncIterator[int]:
    """Serve pages until the block ends; give the port. Raises ``OSError``."""
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
                writer.write(_bytes(await _answer(pages, reader)))
                await writer.drain()
        except (TimeoutError, ConnectionError):
            writer.transport.abort()  # the client is gone, or too slow
        finally:
            served_now.pop(writer, None)
            writer.close()

    server = await listening.start_server(serve, address, limit=REQUEST_BYTES_MAX)
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
