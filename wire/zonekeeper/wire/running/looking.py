"""The pages that a process shows over HTTP: for looking only; they change nothing.

The server answers GET for the paths of a table, one request a connection. It refuses anything else
with the matching status. Every process that reaches the port may send requests. So the size and
the time of a request, and the number of connections, are bounded. At the limit the oldest
connection of the host that has the most is closed. A peer that opens connections and sends nothing
must not keep a probe out, because a process whose probe fails is killed.

Pages may be by certificate (``ByCertificate``). Then the port speaks TLS. A peer may show a
certificate, and only a peer that may look is shown a page. Every other peer is told one word by
``/healthz`` and ``/readyz``, because probes have no certificate, and nothing else. A peer that
speaks no TLS is told so, and is told nothing else.

A bookie and an autorecovery process use this beside their service. It is not part of the contract
between a client and a bookie.
"""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.exposition import Family, single
from zonekeeper.wire.running import listening, seam, tls_stream
from zonekeeper.wire.running.tls_stream import TlsStream

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ByCertificate:
    """How pages are by certificate: TLS of the port, and the decision about a peer.

    A certificate is in DER, and TLS has checked it; None: the peer showed none.
    """

    #: Waits until a peer of this host may shake hands; the block calls what it is given if the peer
    #: showed a certificate.
    turn: Callable[[str], AbstractAsyncContextManager[Callable[[], None]]]
    #: Gives what the next connection uses.
    context: Callable[[], ssl.SSLContext]
    #: May a peer with this certificate see the pages?
    may_look: Callable[[bytes | None], bool]
    #: Takes note that this peer, at this address, may not, and gives the answer.
    refused: Callable[[bytes | None, str], Page]
    #: Takes note that a handshake failed.
    failed: Callable[[], None]


#: What every peer may ask, and the word that it is told.
_WORD_OF: Final[Mapping[str, str]] = {seam.ALIVE_PATH: "alive", seam.READY_PATH: "ready"}
_NO_TLS: Final = Page("this port speaks TLS: ask with https\n", HTTPStatus.BAD_REQUEST)
_TOO_LARGE: Final = Page("the request is too large\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
_TOO_EARLY: Final = Page("the request ends too early\n", HTTPStatus.BAD_REQUEST)

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
async def served(
    pages: Pages, address: Address, by_certificate: ByCertificate | None = None
) -> AsyncIterator[int]:
    """Serve pages until the block ends; give the port. Raises ``OSError``.

    ``by_certificate`` is None: every peer that reaches the port may look, and there is no TLS.
    """
    #: The open connections and their hosts, oldest first.
    served_now: dict[asyncio.StreamWriter, str] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served_now[writer] = listening.host_of(writer.get_extra_info("peername"))
        if len(served_now) > CONNECTIONS_MAX:
            goes = _first_to_go(served_now)
            del served_now[goes]
            goes.transport.abort()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1000):
                if by_certificate is None:
                    writer.write(_bytes(_answer(pages, await _head(reader))))
                    await writer.drain()
                else:
                    await _serve_by_certificate(pages, by_certificate, reader, writer)
        except ssl.SSLError:
            pass  # the peer was told why
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


def _first_to_go(served_now: Mapping[asyncio.StreamWriter, str]) -> asyncio.StreamWriter:
    """Give the oldest connection of the host that has the most."""
    many = Counter(served_now.values())
    return max(served_now, key=lambda one: many[served_now[one]])


async def _serve_by_certificate(
    pages: Pages,
    by_certificate: ByCertificate,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Serve one connection over TLS. Raises ``ssl.SSLError``."""
    first = await reader.read(1)
    if first != tls_stream.HANDSHAKE:
        if first:
            await _head(reader)  # what is not read may cost the peer the answer
            writer.write(_bytes(_NO_TLS))
            await writer.drain()
        return
    stream = TlsStream(reader, writer, by_certificate.context(), first)
    sockname = writer.get_extra_info("peername")
    async with by_certificate.turn(listening.host_of(sockname)) as succeeded:
        try:
            await stream.shake_hands()
        except ssl.SSLError:
            by_certificate.failed()
            raise
        if stream.certificate is not None:
            succeeded()
    peer = listening.peer_of(sockname)
    caller = _Caller(by_certificate, stream.certificate, peer)
    await stream.write_last(_bytes(_answer(pages, await _head_over(stream), caller)))


@dataclass(frozen=True, slots=True)
class _Caller:
    """The peer of a connection over TLS."""

    by_certificate: ByCertificate
    certificate: bytes | None
    peer: str

    def may_look(self) -> bool:
        return self.by_certificate.may_look(self.certificate)

    def refused(self) -> Page:
        return self.by_certificate.refused(self.certificate, self.peer)


async def _head(reader: asyncio.StreamReader) -> bytes | Page:
    """Read the head of a request, or give the answer to what is none."""
    try:
        return await reader.readuntil(_END)
    except asyncio.LimitOverrunError:
        return _TOO_LARGE
    except asyncio.IncompleteReadError:
        return _TOO_EARLY


async def _head_over(stream: TlsStream) -> bytes | Page:
    """Do the same over TLS."""
    head = b""
    while _END not in head:
        if len(head) > REQUEST_BYTES_MAX:
            return _TOO_LARGE
        part = await stream.read()
        if not part:
            return _TOO_EARLY
        head += part
    return head if head.index(_END) <= REQUEST_BYTES_MAX else _TOO_LARGE


def _answer(pages: Pages, head: bytes | Page, caller: _Caller | None = None) -> Page:
    """Answer a request; ``caller`` is None: every peer may look."""
    if isinstance(head, Page):
        return head
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != _WORDS or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        return Page("this is not HTTP/1.1\n", HTTPStatus.BAD_REQUEST)
    path = words[1].partition(b"?")[0].decode("ascii", "replace")
    page = pages.get(path) if words[0] == b"GET" else None
    if caller is not None and not caller.may_look():
        word = _WORD_OF.get(path)
        return caller.refused() if page is None or word is None else _only(word, page().status)
    if words[0] != b"GET":
        return Page("only GET: this port is for looking\n", HTTPStatus.METHOD_NOT_ALLOWED)
    if page is None:
        return Page(f"there is only: {' '.join(sorted(pages))}\n", HTTPStatus.NOT_FOUND)
    return page()


def _only(word: str, status: HTTPStatus) -> Page:
    """Give a page's status and one word: its reasons name clusters, zones and hosts."""
    return Page(f"{word}\n" if status is HTTPStatus.OK else f"not {word}\n", status)


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
