"""Commands that ask for pages by certificate: they show that of their options or variables."""

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner, Result

from tests.shell.live_world import LiveWorld
from tests.shell.reaching.test_last_seen import bookie, sight
from tests.shell.reaching.test_over_http import state
from tests.support.certificates import Authority, certified, of_role
from zonekeeper.client.api import client as clients
from zonekeeper.metadata.bookies import registration
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import exits, opening
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.store import reachable
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.endpoints import endpoints
from zonekeeper.shell.commands.top import top
from zonekeeper.shell.commands.zones import zones
from zonekeeper.shell.console.sampling import Sampler
from zonekeeper.shell.reaching import connecting, last_seen
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.running import looking
from zonekeeper.wire.running.audit_log import AuditLog
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.socket.page_rights import PageRights

BK: Final = BookieId("bk-a-0")
STORE: Final = "zk://away:2181/ledgers"
NAMES: Final = ("ZONEKEEPER_TLS_AUTHORITY", "ZONEKEEPER_TLS_CERTIFICATE", "ZONEKEEPER_TLS_KEY")
METRICS: Final = (
    "zonekeeper_bookie_boot_epoch 1\nzonekeeper_bookie_waiting_bytes 0\n"
    'zonekeeper_bookie_operation_seconds_bucket{operation="append",le="+Inf"} 1\n'
)
NO_FILES: Final = "its pages are by certificate: name the files"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def monitor(authority: Authority) -> TlsFiles:
    return of_role(authority, Role.MONITOR)


@pytest.fixture(scope="module")
def port(authority: Authority) -> Iterator[int]:
    """Serve a bookie's pages by certificate, from a thread: a command has the loop of its own."""
    ready, over = threading.Event(), threading.Event()
    found: list[int] = []
    rights = PageRights(certified(authority, BK, "bookie"), AuditLog(lambda: 0.0))
    rights.joined("one")
    shown = looking.as_json({**state(), "name": BK, "state": "writable"})
    table = {
        "/state": lambda: shown,
        "/readyz": lambda: looking.readiness({}),
        "/metrics": lambda: Page(METRICS),
    }

    async def serve() -> None:
        where = Address("127.0.0.1", 0)
        async with looking.served(table, where, rights.by_certificate()) as served:
            found.append(served)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    yield found[0]
    over.set()
    thread.join()


def options(files: TlsFiles) -> list[str]:
    return [
        f"--tls-authority={files.authority}",
        f"--tls-certificate={files.certificate}",
        f"--tls-key={files.key}",
    ]


def variables(files: TlsFiles) -> dict[str, str | None]:
    paths = (files.authority, files.certificate, files.key)
    return dict(zip(NAMES, map(str, paths), strict=True))


# ── the store is there ──


@pytest.fixture
def world(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> LiveWorld:
    """A cluster whose bookie is registered with pages by certificate."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = LiveWorld(tmp_path)
    found.build(watched=False)
    where = Location(ZoneName("a"), UpgradeDomain("ud-0"))
    info = service_info.of_bookie("127.0.0.1", 1, where, tls=True, http_port=port)

    async def register(cluster: Cluster) -> None:
        raw = service_info.render(info.with_pages_by_certificate())
        await cluster.store.put(cluster.root.writable(BK), raw, version=0)
        assert await registration.read_service_info(cluster, BK) is not None

    found.on(register)
    return found


def remark(world: LiveWorld, *words: str) -> tuple[bool, str]:
    said = world.call(top, "--once", "--every", "0.1", "--zone", "a", "-o", "json", *words)
    assert said.exit_code == 0, said.output
    (row,) = (one for one in json.loads(said.stdout)["bookies"] if one["bookie"] == BK)
    return row["seen"], " ".join(row["remarks"])


def test_top_shows_its_certificate_and_says_what_is_missing(
    world: LiveWorld, monitor: TlsFiles, authority: Authority
) -> None:
    assert remark(world, *options(monitor))[0]
    seen, why = remark(world)
    assert not seen
    assert NO_FILES in why
    seen, why = remark(world, *options(of_role(authority, Role.CLIENT)))
    assert not seen
    assert "client/client-1 asks for look, which needs the role admin or monitor" in why


def test_endpoints_say_which_pages_are_by_certificate(world: LiveWorld) -> None:
    assert "(by certificate)" in world.call(endpoints).stdout
    listed = world.data(endpoints)["endpoints"]
    assert isinstance(listed, list)
    assert [one.get("httpTls") for one in listed if one["name"] == BK] == [True]


# ── the store is away ──


async def out_of_reach(
    address: str, timeouts: object = None, *, must_exist: bool = False
) -> MetadataStore:
    raise StoreUnavailableError("no server answers", store=address)


async def nowhere(_servers: tuple[str, ...], _within_ms: int) -> str:
    return "away"


@pytest.fixture
def known(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> KnownProcess:
    """A store that is away; one bookie of its cluster is remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(reachable, "each_server", nowhere)
    for module in (opening, clients):
        monkeypatch.setattr(module, "open_store", out_of_reach)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    one = replace(bookie(BK), http=Address("127.0.0.1", port), http_tls=True)
    folder = last_seen.cache_folder(os.environ)
    assert last_seen.remember(folder, replace(sight(one), store=STORE)) is None
    return one


def call(command: click.Command, *words: str, env: dict[str, str | None] | None = None) -> Result:
    found = CliRunner(env={"COLUMNS": None, **(env or {})}).invoke(
        command, [*words, "--metadata", STORE, "-o", "json"], catch_exceptions=False
    )
    assert found.exit_code == exits.SECOND_HAND, found.output
    return found


@pytest.mark.usefixtures("known")
def test_with_the_store_away_a_command_shows_the_certificate_of_the_variables(
    monitor: TlsFiles,
) -> None:
    for command, *words in ((bookies, "list"), (endpoints,), (zones, "status")):
        assert isinstance(command, click.Command)
        text = [str(word) for word in words]
        without = call(command, *text).stdout
        shown = call(command, *text, env=variables(monitor)).stdout
        assert without != shown
        assert (NO_FILES in without) or command is zones
        assert NO_FILES not in shown


@pytest.mark.usefixtures("known")
def test_with_the_store_away_a_command_shows_the_certificate_of_its_options(
    monitor: TlsFiles,
) -> None:
    for command, *words in ((bookies, "show", BK), (top, "--once", "--every", "0.1")):
        assert isinstance(command, click.Command)
        text = [str(word) for word in words]
        assert NO_FILES in call(command, *text).stdout
        assert NO_FILES not in call(command, *text, *options(monitor)).stdout


async def test_the_console_shows_the_certificate_of_its_options(
    known: KnownProcess, monitor: TlsFiles
) -> None:
    for files, is_seen in ((None, False), (monitor, True)):
        sampler = Sampler(connecting.page_files(files))
        found = await sampler.sample([known], "one")
        assert (found.states[BK] is not None) is is_seen
    with contextlib.suppress(KeyError):
        assert os.environ[NAMES[0]] == "", "no variable stood in"
