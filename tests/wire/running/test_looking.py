"""The HTTP port answers GET on what there is, and refuses the rest with the right status."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from tests.support.http_port import ask, get
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import looking
from zonekeeper.wire.running.looking import Page


@pytest.fixture
def missing() -> dict[str, str]:
    return {"log": "not yet", "registered": "not yet"}


@pytest.fixture
async def port(missing: dict[str, str]) -> AsyncIterator[int]:
    pages = {
        "/healthz": lambda: Page("alive\n"),
        "/readyz": lambda: looking.readiness(missing),
        "/state": lambda: looking.as_json({"b": 1, "a": ["x"]}),
    }
    async with looking.served(pages, Address("127.0.0.1", 0)) as found:
        yield found


async def test_what_is_alive_says_so(port: int) -> None:
    assert await ask(port, get("/healthz")) == (200, "alive\n")
    assert await ask(port, get("/healthz?verbose")) == (200, "alive\n")


async def test_what_is_not_ready_says_what_is_missing(port: int, missing: dict[str, str]) -> None:
    assert await ask(port, get("/readyz")) == (503, "log: not yet\nregistered: not yet\n")

    missing.clear()
    assert await ask(port, get("/readyz")) == (200, "ready\n")

    missing["registered"] = "the store is out of reach"
    assert await ask(port, get("/readyz")) == (503, "registered: the store is out of reach\n")


async def test_a_state_is_json_in_the_order_of_its_keys(port: int) -> None:
    status, text = await ask(port, get("/state"))
    assert (status, json.loads(text)) == (200, {"a": ["x"], "b": 1})
    assert text.index('"a"') < text.index('"b"')


async def test_who_holds_connections_open_without_a_word_keeps_no_probe_out(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 60_000)  # no connection is closed for that
    held = [
        await asyncio.open_connection("127.0.0.1", port) for _ in range(looking.CONNECTIONS_MAX)
    ]
    assert await ask(port, get("/healthz")) == (200, "alive\n")

    with contextlib.suppress(ConnectionError):
        assert await held[0][0].read() == b"", "the oldest made room"
    held[-1][1].write(get("/healthz"))
    assert (await held[-1][0].read()).startswith(b"HTTP/1.1 200 ")
    for _, writer in held:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_host_with_many_connections_makes_room_and_one_with_few_stays(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 60_000)  # no connection is closed for that
    probe = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
    assert await ask(port, get("/healthz")) == (200, "alive\n")
    held = [
        await asyncio.open_connection("127.0.0.1", port) for _ in range(looking.CONNECTIONS_MAX)
    ]
    assert await ask(port, get("/healthz")) == (200, "alive\n")
    with contextlib.suppress(ConnectionError):
        assert await held[0][0].read() == b"", "the oldest of its host made room"
    probe[1].write(get("/healthz"))
    assert (await probe[0].read()).startswith(b"HTTP/1.1 200 ")
    for _, writer in (probe, *held):
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


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
