"""Pages by certificate, with real sockets and certificates: who sees what, and what ends where."""

import asyncio
import contextlib
import datetime
import json
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support.certificates import (
    NOT_BEFORE,
    Authorities,
    Authority,
    Terms,
    certified,
    of_role,
    place,
)
from tests.support.http_port import ask, get
from tests.support.secured_pages import asked, page_files, showing
from tests.wire.link.worlds import BOOKIE
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.name_map_file import NameMapFile
from zonekeeper.wire.identity import rights
from zonekeeper.wire.identity.principals import Role, uri_of
from zonekeeper.wire.identity.rights import Grant, Operation
from zonekeeper.wire.running import audit_log, looking
from zonekeeper.wire.running.audit_log import AuditLog
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.running.page_asking import PageAsking
from zonekeeper.wire.running.page_identity import ProcessKind
from zonekeeper.wire.socket import page_turns
from zonekeeper.wire.socket.handshakes import HandshakeLimits
from zonekeeper.wire.socket.page_rights import PageRights
from zonekeeper.wire.socket.page_turns import PageTurns

INSTANCE = "here"
ALIVE, READY, METRICS, STATE = "/healthz", "/readyz", "/metrics", "/state"
SECRETS = ("a 1", "zone a", "kind")


@dataclass
class PagePort:
    """A port with pages by certificate, and what may change about it."""

    port: int
    rights: PageRights
    missing: dict[str, str]
    authority: Path

    async def ask(
        self, path: str, files: TlsFiles | None = None, *, request: bytes = b""
    ) -> tuple[int, str]:
        """Ask for a page, with the certificate of these files or without one."""
        return await asked(self.port, request or get(path), showing(files, self.authority))


@contextlib.asynccontextmanager
async def opened(files: TlsFiles, *, instance: str | None = INSTANCE) -> AsyncIterator[PagePort]:
    audit, missing = AuditLog(lambda: 0.0), dict[str, str]()
    held = PageRights(files, audit)
    if instance is not None:
        held.joined(instance)
    pages = {
        ALIVE: lambda: Page("alive\n"),
        READY: lambda: looking.readiness(missing, {"zone": "the policy does not name zone a"}),
        METRICS: lambda: Page("a 1\n"),
        STATE: lambda: looking.as_json({"kind": "bookie"}),
    }
    there = Address("127.0.0.1", 0)
    async with looking.served(pages, there, held.by_certificate()) as port:
        yield PagePort(port, held, missing, files.authority)
    audit.close()


@pytest.fixture
async def port(bookie_files: TlsFiles) -> AsyncIterator[PagePort]:
    async with opened(bookie_files) as found:
        yield found


async def is_ended(asking: PagePort, files: TlsFiles | None) -> bool:
    """Is the connection of this caller ended, before it is told anything?"""
    try:
        await asking.ask(ALIVE, files)
    except OSError:
        return True
    return False


async def test_a_probe_without_a_certificate_is_told_one_word(port: PagePort) -> None:
    assert await port.ask(ALIVE) == (200, "alive\n")
    assert await port.ask(READY) == (200, "ready\n"), "and not the remark"
    port.missing["disk"] = "the device of /a/b is full"
    assert await port.ask(READY) == (503, "not ready\n"), "and not the reason"
    assert await port.ask(READY + "?verbose=1") == (503, "not ready\n")


@pytest.mark.parametrize("path", [METRICS, STATE, "/", "/nothing", "/healthz/", "//healthz"])
async def test_all_else_is_refused_without_a_certificate(path: str, port: PagePort) -> None:
    status, text = await port.ask(path)
    assert status == HTTPStatus.FORBIDDEN
    assert "it showed no certificate" in text
    assert "needs the role admin or monitor" in text
    assert not any(secret in text for secret in SECRETS)


async def test_another_method_is_refused_like_a_page(port: PagePort) -> None:
    request = b"POST /healthz HTTP/1.1\r\n\r\n"
    assert (await port.ask(ALIVE, request=request))[0] == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("role", Role)
async def test_a_role_sees_the_pages_if_the_table_grants_it_and_else_hears_what_it_lacks(
    role: Role, port: PagePort, authorities: Authorities
) -> None:
    files = of_role(authorities.ours, role)
    port.missing["disk"] = "full"
    may = rights.grant(role, Operation.LOOK) is Grant.YES
    assert may is (role in (Role.ADMIN, Role.MONITOR))
    for path, shown in ((METRICS, "a 1\n"), (STATE, '{\n  "kind": "bookie"\n}\n')):
        status, text = await port.ask(path, files)
        assert (status == HTTPStatus.OK) is may
        assert text == shown if may else f"{role.value}/{role.value}-1 asks for look" in text
        assert may or (status == HTTPStatus.FORBIDDEN and "the role admin or monitor" in text)
    assert (await port.ask("/nothing", files))[0] == (404 if may else 403)
    post = b"POST /state HTTP/1.1\r\n\r\n"
    assert (await port.ask(STATE, files, request=post))[0] == (405 if may else 403)
    said = "disk: full\nzone: the policy does not name zone a\n" if may else "not ready\n"
    assert await port.ask(READY, files) == (503, said)


async def test_a_certificate_without_a_role_is_refused(
    port: PagePort, client_files: TlsFiles
) -> None:
    status, text = await port.ask(METRICS, client_files)
    assert status == HTTPStatus.FORBIDDEN
    assert "names no role" in text
    assert (await port.ask(ALIVE, client_files))[0] == HTTPStatus.OK


async def test_refusals_are_counted_and_told_to_the_audit_and_words_are_not(
    port: PagePort, authorities: Authorities, caplog: pytest.LogCaptureFixture
) -> None:
    client = of_role(authorities.ours, Role.CLIENT)
    with caplog.at_level(logging.INFO, logger=audit_log.NAME):
        for path in (ALIVE, READY, METRICS, STATE):
            await port.ask(path, client)
            await port.ask(path)
        await port.ask(METRICS, of_role(authorities.ours, Role.MONITOR))
    lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == audit_log.NAME]
    assert [(one["operation"], one["outcome"]) for one in lines] == [("look", "refused")] * 4
    assert [one["principal"] for one in lines] == ["client/client-1", "nobody"] * 2
    assert all(one["peer"].startswith("127.0.0.1:") for one in lines)
    shown = exposition.render(port.rights.families())
    assert 'zonekeeper_pages_refusals_total{role="client"} 2' in shown
    assert 'zonekeeper_pages_refusals_total{role="none"} 2' in shown
    assert "zonekeeper_pages_handshakes_failed_total 0" in shown


async def test_a_certificate_of_another_authority_ends_the_handshake(
    port: PagePort, authorities: Authorities
) -> None:
    assert await is_ended(port, of_role(authorities.theirs, Role.ADMIN))
    shown = exposition.render(port.rights.families())
    assert "zonekeeper_pages_handshakes_failed_total 1" in shown
    assert not await is_ended(port, of_role(authorities.ours, Role.ADMIN))


async def test_the_peer_is_told_why_a_handshake_ends(
    port: PagePort, authorities: Authorities
) -> None:
    context = showing(of_role(authorities.theirs, Role.ADMIN), port.authority)

    def shaken() -> None:
        with (
            socket.create_connection(("127.0.0.1", port.port), timeout=60) as plain,
            context.wrap_socket(plain) as peer,
        ):
            peer.recv(1)

    with pytest.raises(ssl.SSLError, match="ALERT"):
        await asyncio.to_thread(shaken)


async def test_a_certificate_outside_of_its_time_or_for_servers_alone_ends_the_handshake(
    port: PagePort, authorities: Authorities
) -> None:
    now = datetime.datetime.fromtimestamp(time.time_ns() / 1e9, datetime.UTC)
    day = datetime.timedelta(days=1)
    wrong = {
        "ended": Terms(valid=(NOT_BEFORE, now - day)),
        "not-yet": Terms(valid=(now + day, now + 2 * day)),
        "servers": Terms(usage=(ExtendedKeyUsageOID.SERVER_AUTH,)),
    }
    for file, terms in wrong.items():
        uris = (uri_of("any", Role.MONITOR, "m"),)
        pair = authorities.ours.sign(file, name="m", uris=uris, terms=terms)
        files = TlsFiles(authority=port.authority, certificate=pair.certificate, key=pair.key)
        assert await is_ended(port, files), file


async def test_tls_1_1_is_not_spoken(port: PagePort) -> None:
    old = ssl.create_default_context(cafile=str(port.authority))
    old.check_hostname = False
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        old.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match=r"TLSv1_1 is deprecated"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError, match=r"TLS|SSL|protocol|alert"):
        await asked(port.port, get(ALIVE), old)


async def test_tls_1_2_is_spoken(port: PagePort, authorities: Authorities) -> None:
    files = of_role(authorities.ours, Role.MONITOR)
    context = ssl.create_default_context(cafile=str(port.authority))
    context.check_hostname = False
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    assert await asked(port.port, get(METRICS), context) == (200, "a 1\n")


async def test_plain_http_is_told_that_the_port_speaks_tls_and_nothing_else(port: PagePort) -> None:
    for request in (get(ALIVE), get(METRICS), b"nonsense\r\n\r\n", b"half"):
        assert await ask(port.port, request) == (400, "this port speaks TLS: ask with https\n")
    assert (await port.ask(ALIVE))[0] == HTTPStatus.OK


async def test_plain_http_is_answered_only_once_its_request_is_there(port: PagePort) -> None:
    """A connection that is closed before may take the answer with it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.write(get(METRICS)[:9])
    async with asyncio.TaskGroup() as tasks:
        answer = tasks.create_task(reader.read())
        assert (await port.ask(ALIVE))[0] == HTTPStatus.OK, "the first bytes have come by now"
        assert not answer.done()
        writer.write(get(METRICS)[9:])
    assert b"this port speaks TLS" in answer.result()
    writer.close()
    await writer.wait_closed()


async def test_the_end_of_a_page_is_told_within_tls(port: PagePort) -> None:
    """A page that somebody cuts off on its way is not taken for a whole one."""

    def page() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", port.port), timeout=60) as plain,
            showing(None, port.authority).wrap_socket(plain, suppress_ragged_eofs=False) as peer,
        ):
            peer.sendall(get(ALIVE))
            found = b""
            while part := peer.recv(1 << 10):
                found += part
            return found

    assert (await asyncio.to_thread(page)).endswith(b"\r\n\r\nalive\n")


async def test_a_peer_that_says_more_than_a_request_has_its_answer(port: PagePort) -> None:
    context = showing(None, port.authority)
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=context)
    for _ in range(3):
        writer.write(get(ALIVE))  # a record of its own
    assert (await reader.read()).endswith(b"\r\n\r\nalive\n")
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_a_connection_that_says_nothing_is_closed(port: PagePort) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_only_peers_without_a_certificate_use_the_turns_up_and_each_host_has_its_own(
    bookie_files: TlsFiles, authorities: Authorities, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = HandshakeLimits(failed_per_s=0.001, turns_max=1)
    monkeypatch.setattr(page_turns, "LIMITS", few)
    monitor = of_role(authorities.ours, Role.MONITOR)
    hosts: list[str] = []
    async with opened(bookie_files) as port:
        for _ in range(5):
            assert (await port.ask(METRICS, monitor))[0] == HTTPStatus.OK
        assert (await port.ask(ALIVE))[0] == HTTPStatus.OK
        monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 100)
        assert await is_ended(port, None), "no turn is left"

    by_certificate = PageRights(bookie_files, AuditLog(lambda: 0.0)).by_certificate()

    def noted(host: str) -> contextlib.AbstractAsyncContextManager[Callable[[], None]]:
        hosts.append(host)
        return PageTurns(HandshakeLimits()).turn(host)

    monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 60_000)
    pages, there = {ALIVE: lambda: Page("alive\n")}, Address("127.0.0.1", 0)
    async with looking.served(pages, there, replace(by_certificate, turn=noted)) as number:
        await asked(number, get(ALIVE), showing(None, bookie_files.authority))
    assert hosts == ["127.0.0.1"]


async def test_half_handshakes_count_as_connections_and_keep_no_probe_out(
    port: PagePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 60_000)  # no connection is closed for that
    held = []
    for _ in range(looking.CONNECTIONS_MAX):
        held.append(await asyncio.open_connection("127.0.0.1", port.port))
        held[-1][1].write(b"\x16\x03\x01\x02\x00\x01")
    assert await port.ask(ALIVE) == (200, "alive\n")
    with contextlib.suppress(ConnectionError):
        assert await held[0][0].read() == b"", "the oldest made room"
    for _, writer in held:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("first", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
async def test_half_a_handshake_is_ended_at_the_limit_of_its_time(
    first: bytes, port: PagePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 100)
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.write(first)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_handshake_without_a_request_is_ended_at_the_limit_of_its_time(
    port: PagePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(cafile=str(port.authority))
    context.check_hostname = False
    monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 500)
    with contextlib.suppress(OSError):  # on a busy machine the handshake may take so long
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=context)
        try:
            assert await reader.read() == b""
        finally:
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n" + b"x" * looking.REQUEST_BYTES_MAX + b"\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\n" + b"x" * looking.REQUEST_BYTES_MAX, 431),
        (b"GET /healthz HTTP/2.0\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
    ],
)
async def test_what_is_no_request_gets_the_same_answer_as_in_plain(
    request_bytes: bytes, status: int, port: PagePort
) -> None:
    assert (await port.ask(ALIVE, request=request_bytes))[0] == status


async def test_a_long_page_and_a_request_in_pieces_come_whole(bookie_files: TlsFiles) -> None:
    long = "x" * (1 << 20)
    held = PageRights(bookie_files, AuditLog(lambda: 0.0))
    there = Address("127.0.0.1", 0)
    async with looking.served({ALIVE: lambda: Page(long)}, there, held.by_certificate()) as port:
        context = ssl.create_default_context(cafile=str(bookie_files.authority))
        context.check_hostname = False
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        for piece in (b"GET /hea", b"lthz HTTP/1.1\r\n\r", b"\n"):
            writer.write(piece)
            await writer.drain()
        answer = await reader.read()
        assert answer.endswith(b"\r\n\r\nalive\n"), "it may not look, so it hears the word"
        writer.close()
        await writer.wait_closed()
        held.joined(INSTANCE)
    assert held.families()


async def test_each_connection_uses_the_files_as_they_are_then(
    authorities: Authorities, tmp_path: Path
) -> None:
    folder = tmp_path / "tls"
    files = place(folder, authorities.ours, BOOKIE)
    ours = of_role(authorities.ours, Role.MONITOR)
    theirs = of_role(authorities.theirs, Role.MONITOR)
    async with opened(files) as port:
        assert (await port.ask(STATE, ours))[0] == HTTPStatus.OK
        assert await is_ended(port, theirs)
        place(folder, authorities.theirs, BOOKIE)
        assert (await port.ask(STATE, theirs))[0] == HTTPStatus.OK
        assert await is_ended(port, ours)
        files.key.write_text("no key")
        assert (await port.ask(STATE, theirs))[0] == HTTPStatus.OK, "the old ones stay in use"


async def test_before_its_cluster_is_known_a_process_shows_pages_to_principals_of_any(
    bookie_files: TlsFiles, authorities: Authorities
) -> None:
    of_any = of_role(authorities.ours, Role.MONITOR)
    of_one = of_role(authorities.ours, Role.MONITOR, instance=INSTANCE)
    of_another = of_role(authorities.ours, Role.MONITOR, instance="another")
    async with opened(bookie_files, instance=None) as port:
        assert (await port.ask(METRICS, of_any))[0] == HTTPStatus.OK
        for files in (of_one, of_another):
            status, text = await port.ask(METRICS, files)
            assert status == HTTPStatus.SERVICE_UNAVAILABLE
            assert "try again" in text
        assert (await port.ask(METRICS))[0] == HTTPStatus.FORBIDDEN
        assert (await port.ask(ALIVE, of_one))[0] == HTTPStatus.OK
        port.rights.joined(INSTANCE)
        assert (await port.ask(METRICS, of_one))[0] == HTTPStatus.OK
        status, text = await port.ask(METRICS, of_another)
        assert status == HTTPStatus.FORBIDDEN
        assert "is of another cluster" in text
        shown = exposition.render(port.rights.families())
    assert 'zonekeeper_pages_refusals_total{role="none"} 2' in shown, "that of before counts on"


async def test_the_map_of_names_gives_a_foreign_certificate_its_role_and_is_read_again(
    bookie_files: TlsFiles, authorities: Authorities, tmp_path: Path
) -> None:
    foreign = certified(authorities.ours, "watch.example", "foreign-looker")
    names = tmp_path / "names"
    names.write_text("dns watch.example client w\n")
    async with opened(bookie_files, instance=None) as port:
        port.rights.joined(INSTANCE, NameMapFile(names))
        assert (await port.ask(METRICS, foreign))[0] == HTTPStatus.FORBIDDEN
        names.write_text("dns watch.example monitor watch\n")
        assert (await port.ask(METRICS, foreign))[0] == HTTPStatus.OK


def test_files_that_cannot_be_used_are_refused_at_the_start(bookie_files: TlsFiles) -> None:
    with pytest.raises(FileNotFoundError):
        PageRights(replace(bookie_files, key=Path("/nowhere/tls.key")), AuditLog(lambda: 0.0))
    with pytest.raises(ValueError, match="no PEM block of the kind PRIVATE KEY"):
        PageRights(replace(bookie_files, key=bookie_files.certificate), AuditLog(lambda: 0.0))


async def test_an_asker_compares_the_name_of_a_bookie_and_not_of_autorecovery(
    port: PagePort, authorities: Authorities
) -> None:
    asking = PageAsking(page_files(of_role(authorities.ours, Role.MONITOR)))

    async def reached(context: ssl.SSLContext, name: str) -> None:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port.port, ssl=context, server_hostname=name
        )
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    await reached(*asking.of(ProcessKind.BOOKIE, BookieId(BOOKIE)))
    await reached(*asking.of(ProcessKind.AUTORECOVERY, BookieId("auto-7")))
    with pytest.raises(ssl.SSLCertVerificationError, match="bk-another"):
        await reached(*asking.of(ProcessKind.BOOKIE, BookieId("bk-another")))


async def test_an_asker_believes_no_other_authority_and_no_certificate_for_clients_alone(
    authorities: Authorities, tmp_path: Path
) -> None:
    asking = PageAsking(page_files(of_role(authorities.ours, Role.MONITOR)))
    only = Terms(usage=(ExtendedKeyUsageOID.CLIENT_AUTH,))
    pair = authorities.ours.sign("clients", name=BOOKIE, hosts=(BOOKIE,), terms=only)
    of_clients = TlsFiles(
        authority=authorities.ours.pair.certificate, certificate=pair.certificate, key=pair.key
    )
    theirs = certified(Authority(tmp_path / "theirs"), BOOKIE, "their-bookie")
    for files in (of_clients, theirs):
        async with opened(files) as port:
            for kind in ProcessKind:
                context, name = asking.of(kind, BookieId(BOOKIE))
                with pytest.raises(ssl.SSLError):
                    await asyncio.open_connection(
                        "127.0.0.1", port.port, ssl=context, server_hostname=name
                    )
