"""A bookie's HTTP port: for looking, never for changing anything.

It speaks just enough HTTP/1.1 to be probed: GET on a table of paths, one request a connection. What
it does not know it refuses with the status that says so. Sizes, times and the number of connections
are bounded, because anybody who reaches the port may try.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from zonekeeper.bookie.settings import Address

REQUEST_BYTES_MAX: Final = 8 << 10
REQUEST_TIMEOUT_MS: Final = 5_000
CONNECTIONS_MAX: Final = 64

_REQUEST_LINE_PARTS: Final = 3
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    status: HTTPStatus
    text: str
    content_type: str = "text/plain; charset=utf-8"


class Conditions:
    """What a bookie must have to be ready, by name; in the order in which it gets them."""

    def __init__(self, *names: str) -> None:
        self._missing: dict[str, str] = dict.fromkeys(names, "not yet")

    def met(self, name: str) -> None:
        """Say that a condition is met."""
        self._missing.pop(name, None)

    def missing(self, name: str, why: str) -> None:
        """Say that a condition is not met, and why."""
        self._missing[name] = why

    @property
    def unmet(self) -> dict[str, str]:
        """Give what is missing, and why."""
        return dict(self._missing)


def readiness(missing: Mapping[str, str]) -> Page:
    """Give the page that says whether anything is missing, and why."""
    if not missing:
        return Page(HTTPStatus.OK, "ready\n")
    lines = [f"{name}: {why}\n" for name, why in missing.items()]
    return Page(HTTPStatus.SERVICE_UNAVAILABLE, "".join(lines))


class LookingServer:
    """Serves pages; made by ``listen``."""

    def __init__(self, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._pages = pages
        self._connections = 0
        self._server: asyncio.Server | None = None

    async def listen(self, address: Address) -> int:
        """Begin to serve, and give the port; raises ``OSError``."""
        self._server = await asyncio.start_server(
            self._serve, address.bare_host, address.port, limit=REQUEST_BYTES_MAX
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Serve no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1_000):
                if self._connections > CONNECTIONS_MAX:
                    page = Page(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections\n")
                else:
                    page = await self._answer(reader)
                writer.write(_response(page))
                await writer.drain()
        except (TimeoutError, ConnectionError):
            pass  # whoever asked is gone, or too slow
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Page:
        try:
            head = await reader.readuntil(_HEAD_END)
        except asyncio.LimitOverrunError:
            return Page(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too large\n")
        except asyncio.IncompleteReadError:
            return Page(HTTPStatus.BAD_REQUEST, "the request ends too early\n")
        parts = head.split(b"\r\n", 1)[0].split(b" ")
        if len(parts) != _REQUEST_LINE_PARTS or parts[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
            return Page(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1\n")
        if parts[0] != b"GET":
            return Page(HTTPStatus.METHOD_NOT_ALLOWED, "only GET: this port is for looking\n")
        path = parts[1].partition(b"?")[0].decode("ascii", "replace")
        page = self._pages.get(path)
        if page is None:
            known = " ".join(sorted(self._pages))
            return Page(HTTPStatus.NOT_FOUND, f"there is only: {known}\n")
        return page()


def _response(page: Page) -> bytes:
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
    return "\r\n".join(lines).encode() + _HEAD_END + body
