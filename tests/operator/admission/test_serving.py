"""The webhook over a real TLS socket: who is answered, who is refused, and fresh certificates."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest

from tests.support.certificates import Authority
from zonekeeper.operator.admission import serving
from zonekeeper.operator.admission.certificates import ServingCertificate
from zonekeeper.operator.admission.reviews import BadReviewError
from zonekeeper.wire.formats import addresses

HERE = "127.0.0.1"
LIMIT_S = 60.0


class Webhook:
    """A webhook that gives back what it is sent, and what a client of it trusts."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "pki")
        self.folder = folder / "secret"
        self.folder.mkdir()
        self.certificate = ServingCertificate(self.folder)
        self.port = 0
        self.trust = ssl.create_default_context(cafile=self.authority.pair.certificate)

    def put(self, name: str = "webhook", *, authority: Authority | None = None) -> None:
        """Put a certificate into the folder, as a Secret is mounted."""
        pair = (authority or self.authority).sign(name, name=name, hosts=(HERE,))
        shutil.copy(pair.certificate, self.folder / "tls.crt")
        shutil.copy(pair.key, self.folder / "tls.key")

    async def post(self, body: bytes, path: str = serving.PATH) -> tuple[int, bytes]:
        """Send a body as the API server does."""
        url = f"https://{HERE}:{self.port}{path}"
        async with (
            asyncio.timeout(LIMIT_S),
            aiohttp.ClientSession() as session,
            session.post(url, data=body, ssl=self.trust) as found,
        ):
            return found.status, await found.read()

    async def raw(self, request: bytes) -> bytes:
        """Send bytes as they are, and read to the end."""
        async with asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection(HERE, self.port, ssl=self.trust)
            writer.write(request)
            found = await reader.read()
            writer.close()
            return found


async def echo(body: bytes) -> bytes:
    if body == b"bad":
        raise BadReviewError("request.uid: is required")
    if body == b"bug":
        raise KeyError("a bug")
    return body[::-1]


@asynccontextmanager
async def served(webhook: Webhook) -> AsyncIterator[Webhook]:
    address = addresses.parse(f"{HERE}:0")
    async with serving.served(echo, address, webhook.certificate.context) as port:
        webhook.port = port
        yield webhook


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    made = Webhook(tmp_path)
    made.put()
    assert made.certificate.refresh()
    async with served(made):
        yield made


async def test_a_question_over_tls_is_answered(webhook: Webhook) -> None:
    assert await webhook.post(b"abc") == (HTTPStatus.OK, b"cba")
    assert await webhook.post(b"abc", f"{serving.PATH}?timeout=10s") == (HTTPStatus.OK, b"cba")
    large = b"x" * (3 << 20)
    head = f"POST {serving.PATH} HTTP/1.1\r\nContent-Length: {len(large)}\r\n\r\n".encode()
    assert (await webhook.raw(head + large)).endswith(b"\r\n\r\n" + large)


async def test_without_tls_nothing_is_answered(webhook: Webhook) -> None:
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection(HERE, webhook.port)
        writer.write(b"POST /validate HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        with suppress(ConnectionError):
            assert b"HTTP" not in await reader.read()
        writer.close()


async def test_a_bad_question_and_a_bug_have_statuses_and_the_server_goes_on(
    webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    assert await webhook.post(b"bad") == (HTTPStatus.BAD_REQUEST, b"request.uid: is required\n")
    status, words = await webhook.post(b"bug")
    assert (status, b"see its log" in words) == (HTTPStatus.INTERNAL_SERVER_ERROR, True)
    assert "KeyError" in caplog.text
    assert await webhook.post(b"abc") == (HTTPStatus.OK, b"cba")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /validate HTTP/1.1\r\n\r\n", 405),
        (b"POST /other HTTP/1.1\r\n\r\n", 404),
        (b"POST /validate HTTP/1.1\r\n\r\n", 411),
        (b"POST /validate HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n", 411),
        (b"POST /validate HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /validate HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", 400),
        (b"POST /validate HTTP/1.1\r\nContent-Length: 4194305\r\n\r\n", 413),
        (b"hello\r\n\r\n", 400),
        (b"x" * (17 << 10), 431),
    ],
)
async def test_what_is_no_question_gets_the_matching_status(
    webhook: Webhook, request_: bytes, status: int
) -> None:
    found = await webhook.raw(request_)

    assert found.startswith(f"HTTP/1.1 {status} ".encode()), found[:100]
    assert b"Connection: close" in found


async def test_at_the_limit_the_oldest_connection_is_closed(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CONNECTIONS_MAX", 1)
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection(HERE, webhook.port, ssl=webhook.trust)
        writer.write(b"POST /validate HTTP/1.1\r\n")
        await writer.drain()
        status, _ = await webhook.post(b"abc")
        assert status == HTTPStatus.OK
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_a_request_that_does_not_come_to_its_end_is_given_up(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "REQUEST_TIMEOUT_MS", 50)
    with suppress(ConnectionError):
        head = b"POST /validate HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"
        assert await webhook.raw(head) == b""


async def test_a_client_of_another_authority_trusts_it_not(
    webhook: Webhook, tmp_path: Path
) -> None:
    webhook.trust = ssl.create_default_context(
        cafile=Authority(tmp_path / "other").pair.certificate
    )
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await webhook.post(b"abc")


async def test_before_there_is_a_certificate_no_handshake_succeeds_and_then_one_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Webhook(tmp_path)
    async with served(made):
        assert not made.certificate.refresh()
        assert not made.certificate.refresh()
        assert not made.certificate.is_there
        with pytest.raises(aiohttp.ClientConnectorError):
            await made.post(b"abc")
        made.put()
        assert made.certificate.refresh()
        assert made.certificate.is_there
        assert await made.post(b"abc") == (HTTPStatus.OK, b"cba")
    assert caplog.text.count("cannot be used") == 1, "it is told once"


async def test_a_certificate_that_changes_is_taken_up_by_new_connections(
    webhook: Webhook, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    webhook.put(authority=other)
    assert webhook.certificate.refresh()
    assert not webhook.certificate.refresh(), "nothing has changed since"

    webhook.trust = ssl.create_default_context(cafile=other.pair.certificate)
    assert await webhook.post(b"abc") == (HTTPStatus.OK, b"cba")


def half(webhook: Webhook) -> None:
    pair = webhook.authority.sign("half", name="half", hosts=(HERE,))
    shutil.copy(pair.certificate, webhook.folder / "tls.crt")


def nonsense(webhook: Webhook) -> None:
    (webhook.folder / "tls.key").write_text("nonsense")


def gone(webhook: Webhook) -> None:
    (webhook.folder / "tls.key").unlink()


@pytest.mark.parametrize("spoil", [half, nonsense, gone])
async def test_a_pair_that_cannot_be_used_leaves_the_one_before(
    webhook: Webhook, spoil: Callable[[Webhook], None], caplog: pytest.LogCaptureFixture
) -> None:
    spoil(webhook)

    assert not webhook.certificate.refresh()
    assert str(webhook.folder) in caplog.text
    assert await webhook.post(b"abc") == (HTTPStatus.OK, b"cba")
