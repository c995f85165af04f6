"""The HTTP port answers GET on what there is, and refuses the rest with the right status."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from zonekeeper.bookie import looking
from zonekeeper.bookie.looking import Conditions, LookingServer, Page
from zonekeeper.bookie.settings import Address


@pytest.fixture
def conditions() -> Conditions:
    return Conditions("log", "registered")


@pytest.fixture
async def port(conditions: Conditions) -> AsyncIterator[int]:
    pages = {
        "/healthz": lambda: Page(HTTPStatus.OK, "alive\n"),
        "/readyz": lambda: looking.readiness(conditions.unmet),
    }
    server = LookingServer(pages)
    yield await server.listen(Address("127.0.0.1", 0))
    await server.close()


async def ask(port: int, request: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    return int(head.split(" ")[1]), body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_a_living_bookie_says_so(port: int) -> None:
    assert await ask(port, get("/healthz")) == (200, "alive\n")
    assert await ask(port, get("/healthz?verbose")) == (200, "alive\n")


async def test_a_bookie_that_is_not_ready_says_what_is_missing(
    port: int, conditions: Conditions
) -> None:
    assert await ask(port, get("/readyz")) == (503, "log: not yet\nregistered: not yet\n")

    conditions.met("log")
    conditions.met("registered")
    assert await ask(port, get("/readyz")) == (200, "ready\n")

    conditions.missing("registered", "the store is out of reach")
    assert await ask(port, get("/readyz")) == (503, "registered: the store is out of reach\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 404),
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"DELETE /healthz HTTP/1.1\r\n\r\n", 405),
        (b"GET /healthz HTTP/2.0\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET  /healthz HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost:", 400),
        (b"", 400),
        (b"GET /healthz HTTP/1.1\r\n" + b"x" * looking.REQUEST_BYTES_MAX + b"\r\n\r\n", 431),
    ],
)
async def test_whatever_else_is_asked_is_refused(
    port: int, request_bytes: bytes, status: int
) -> None:
    assert (await ask(port, request_bytes))[0] == status


async def test_a_refused_method_is_told_what_is_allowed(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PUT / HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert b"\r\nAllow: GET\r\n" in answer
