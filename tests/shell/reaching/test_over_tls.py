"""Pages by certificate, as commands ask for them: each is shown the caller's, and none in plain."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.shell.reaching.test_last_seen import AUTO, NOW, bookie, sight
from tests.shell.reaching.test_over_http import PATIENT, at, identity, pages, state
from tests.support.certificates import Authorities, Authority, certified, of_role
from tests.support.secured_pages import page_files
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import ServiceInfo
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.shell.reaching import endpoints, last_seen, over_http
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.shell.reaching.over_http import HttpLimits
from zonekeeper.shell.reaching.sights import Answering, HttpSight, Silent
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.running import looking, page_asking, seam
from zonekeeper.wire.running.audit_log import AuditLog
from zonekeeper.wire.running.page_asking import PageFiles
from zonekeeper.wire.running.page_identity import ProcessKind
from zonekeeper.wire.socket.page_rights import PageRights

BK: Final = replace(bookie("bk-0"), http_tls=True)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    folder = tmp_path_factory.mktemp("certificates")
    return Authorities(Authority(folder / "ours"), Authority(folder / "theirs"))


@contextlib.asynccontextmanager
async def secured(process: KnownProcess, files: TlsFiles) -> AsyncIterator[KnownProcess]:
    rights = PageRights(files, AuditLog(lambda: 0.0))
    rights.joined("one")
    shown: dict[str, Plain] = {"name": "auto-0", "records": {}}
    if process.kind is ProcessKind.BOOKIE:
        shown = state()
    there = Address("127.0.0.1", 0)
    async with looking.served(pages(shown), there, rights.by_certificate()) as port:
        yield replace(process, http=Address("127.0.0.1", port), http_tls=True)


async def seen(
    process: KnownProcess, files: PageFiles | None, limits: HttpLimits = PATIENT
) -> HttpSight:
    found = await over_http.ask([process], instance="one", metrics=True, limits=limits, files=files)
    (one,) = found.sights
    return one


async def why(process: KnownProcess, files: PageFiles | None) -> str:
    one = await seen(process, files)
    assert isinstance(one, Silent), one
    return one.why


async def test_a_monitor_sees_all_and_other_callers_hear_why_not(authorities: Authorities) -> None:
    monitor = page_files(of_role(authorities.ours, Role.MONITOR))
    client = page_files(of_role(authorities.ours, Role.CLIENT))
    stranger = replace(
        page_files(of_role(authorities.theirs, Role.MONITOR)), authority=monitor.authority
    )
    async with secured(BK, certified(authorities.ours, "bk-0", "bk-0")) as one:
        found = await seen(one, monitor)
        assert isinstance(found, Answering)
        assert (found.ready, found.metrics) == (True, "a 1\n")
        assert found.reasons == ("policy: names no zone a",)
        assert found.state == state()
        assert "client/client-1 asks for look, which needs the role admin or monitor" in await why(
            one, client
        )
        assert "its pages are by certificate: name the files" in await why(one, None)
        assert "127.0.0.1" in await why(one, stranger)
        wrong = replace(monitor, key=Path("/nowhere/tls.key"))
        assert "cannot be used" in await why(one, wrong)
        late = HttpLimits(page_ms=60_000, whole_ms=60_000, page_bytes=10)
        found = await seen(one, monitor, late)
        assert isinstance(found, Silent)
        assert "has more than 10 bytes" in found.why


async def test_a_process_whose_certificate_is_not_the_one_that_is_meant_is_not_believed(
    authorities: Authorities,
) -> None:
    monitor = page_files(of_role(authorities.ours, Role.MONITOR))
    async with secured(BK, certified(authorities.ours, "bk-1", "bk-1")) as another:
        assert "bk-0" in await why(another, monitor)
    async with secured(BK, certified(authorities.theirs, "bk-0", "their-bk-0")) as foreign:
        assert "certificate verify failed" in await why(foreign, monitor)
    # Autorecovery processes may share a certificate, so no name of it is compared.
    async with secured(AUTO, certified(authorities.ours, "repairs", "repairs")) as auto:
        assert isinstance(await seen(auto, monitor), Answering)


async def test_none_is_asked_in_plain_that_says_its_pages_are_by_certificate(
    authorities: Authorities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "REQUEST_TIMEOUT_MS", 1_000)
    monitor = page_files(of_role(authorities.ours, Role.MONITOR))
    async with at(BK, pages(state())) as plain:
        assert isinstance(await seen(plain, monitor), Silent)
        assert isinstance(await seen(plain, None), Silent)
        assert isinstance(await seen(replace(plain, http_tls=False), monitor), Answering)


async def test_a_process_that_speaks_no_more_after_the_connection_costs_its_own_time(
    authorities: Authorities,
) -> None:
    held = asyncio.Event()

    async def mute(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    dead = replace(BK, http=Address("127.0.0.1", server.sockets[0].getsockname()[1]))
    monitor = page_files(of_role(authorities.ours, Role.MONITOR))
    one = await seen(dead, monitor, HttpLimits(page_ms=200, whole_ms=60_000))
    held.set()
    server.close()
    assert isinstance(one, Silent)
    assert "no answer within 200 ms" in one.why


async def test_one_page_alone_can_be_asked_for(authorities: Authorities) -> None:
    monitor = page_files(of_role(authorities.ours, Role.MONITOR))
    async with secured(BK, certified(authorities.ours, "bk-0", "bk-0")) as one:
        found = await over_http.page(one, "/metrics", PATIENT, monitor)
        assert not isinstance(found, str)
        assert (found.status, found.text) == (200, "a 1\n")
        assert "by certificate" in str(await over_http.page(one, "/metrics", PATIENT, None))
    assert identity().name == "bk-0"


def test_the_variables_of_the_options_name_the_files_together_or_not_at_all() -> None:
    names = (seam.TLS_AUTHORITY, seam.TLS_CERTIFICATE, seam.TLS_KEY)
    given = dict(zip(names, ("/a", "/c", "/k"), strict=True))
    files = PageFiles(authority=Path("/a"), certificate=Path("/c"), key=Path("/k"))
    assert page_asking.of_environment(given) == files
    for name in names:
        assert page_asking.of_environment({**given, name: ""}) is None
        assert page_asking.of_environment({k: v for k, v in given.items() if k != name}) is None


def info(*, secured: bool) -> ServiceInfo:
    where = Location(ZoneName("a"), UpgradeDomain("ud-0"))
    made = service_info.of_bookie("h", 3181, where, tls=True, http_port=8080).with_socket(3182)
    made = made.with_pages_by_certificate() if secured else made
    return service_info.parse(service_info.render(made))


def test_a_registration_says_whether_the_pages_are_by_certificate() -> None:
    for secured_ in (False, True):
        told = info(secured=secured_)
        assert told.pages_by_certificate is secured_
        assert endpoints.of_bookie(BK.name, told, NOW).http_tls is secured_
        assert told.socket is not None
        assert told.http is not None
        assert (told.http.port, told.http.protocol) == (8080, "http"), "as older commands know it"


def test_what_is_remembered_says_it_too_and_a_file_of_before_says_no() -> None:
    seen_ = sight(replace(AUTO, http_tls=True), bookie("bk-0"))
    raw = last_seen.render(seen_)
    assert raw.count(b'"httpTls":true') == 1
    assert b'"httpTls":false' not in raw
    assert last_seen.parse(raw, seen_.store) == seen_
    before = last_seen.parse(raw.replace(b'"httpTls":true,', b""), seen_.store)
    assert not any(one.http_tls for one in before.processes)
