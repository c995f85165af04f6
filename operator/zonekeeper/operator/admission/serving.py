"""A small HTTPS server for one path: it takes a POST with a body, and answers it.

The API server is its only meant client, but every process that reaches the port may send requests.
So the size and the time of a request and the number of connections are bounded, one request a
connection is answered, and what is no request gets the matching status. At the limit the oldest
connection is closed.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, TypeAlias

from zonekeeper.operator.admission.reviews import BadReviewError
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import listening

PATH: Final = "/validate"
HEAD_BYTES_MAX: Final = 16 << 10
#: A resource in etcd has at most 1.5 MiB, and a question has two of them.
BODY_BYTES_MAX: Final = 4 << 20
#: For reading a request and answering it.
REQUEST_TIMEOUT_MS: Final = 9_000
HANDSHAKE_TIMEOUT_S: Final = 5.0
CONNECTIONS_MAX: Final = 32

#: Gives the answer to a body; raises ``BadReviewError``.
BodyAnswer: TypeAlias = Callable[[bytes], Awaitable[bytes]]

_END: Final = b"\r\n\r\n"
_WORDS: Final = 3
_LENGTH_DIGITS_MAX: Final = 10

_logger = logging.getLogger(__name__)


class _WrongRequestError(Exception):
    """The request gets this status instead of an answer."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


@asynccontextmanager
async def served(
    answer: BodyAnswer, address: Address, context: ssl.SSLContext
) -> AsyncIterator[int]:
    """Serve until the block ends; give the port. Raises ``OSError``."""
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
                writer.write(await _response(answer, reader))
                await writer.drain()
        except (TimeoutError, ConnectionError):
            writer.transport.abort()  # the client is gone, or too slow
        finally:
            served_now.pop(writer, None)
            writer.close()

    server = await listening.start_server(
        serve,
        address,
        limit=HEAD_BYTES_MAX,
        context=context,
        handshake_timeout_s=HANDSHAKE_TIMEOUT_S,
    )
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in tuple(served_now):
            writer.transport.abort()


async def _response(answer: BodyAnswer, reader: asyncio.StreamReader) -> bytes:
    try:
        body = await answer(await _body(reader))
    except _WrongRequestError as wrong:
        return _bytes(wrong.status, f"{wrong}\n".encode(), "text/plain; charset=utf-8")
    except BadReviewError as error:
        text = f"{error}\n".encode()
        return _bytes(HTTPStatus.BAD_REQUEST, text, "text/plain; charset=utf-8")
    except Exception:  # a bug in one answer must not end the server
        _logger.exception("an admission review was not answered")
        text = b"a bug of the operator: see its log\n"
        return _bytes(HTTPStatus.INTERNAL_SERVER_ERROR, text, "text/plain; charset=utf-8")
    return _bytes(HTTPStatus.OK, body, "application/json")


async def _body(reader: asyncio.StreamReader) -> bytes:
    """Read a request to the end; raises ``_WrongRequestError``."""
    try:
        head = await reader.readuntil(_END)
    except asyncio.LimitOverrunError as error:
        raise _WrongRequestError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large"
        ) from error
    except asyncio.IncompleteReadError as error:
        raise _WrongRequestError(HTTPStatus.BAD_REQUEST, "the request ends too early") from error
    first, *lines = head.removesuffix(_END).split(b"\r\n")
    words = first.split(b" ")
    if len(words) != _WORDS or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise _WrongRequestError(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
    if words[1].partition(b"?")[0] != PATH.encode():
        raise _WrongRequestError(HTTPStatus.NOT_FOUND, f"there is only: {PATH}")
    if words[0] != b"POST":
        raise _WrongRequestError(HTTPStatus.METHOD_NOT_ALLOWED, "only POST of an AdmissionReview")
    length = _length(lines)
    try:
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise _WrongRequestError(HTTPStatus.BAD_REQUEST, "the body ends too early") from error


def _length(lines: list[bytes]) -> int:
    pairs = [line.partition(b":") for line in lines]
    said = {value.strip() for name, _, value in pairs if name.lower() == b"content-length"}
    if len(said) != 1:
        raise _WrongRequestError(HTTPStatus.LENGTH_REQUIRED, "one Content-Length is required")
    (text,) = said
    if not text.isdigit() or len(text) > _LENGTH_DIGITS_MAX:
        raise _WrongRequestError(HTTPStatus.BAD_REQUEST, "Content-Length is no number")
    if int(text) > BODY_BYTES_MAX:
        words = f"the body has more than {BODY_BYTES_MAX} bytes"
        raise _WrongRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
    return int(text)


def _bytes(status: HTTPStatus, body: bytes, content_type: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: POST")
    return "\r\n".join(lines).encode() + _END + body
