"""The operator's process from its start to its end, with kopf, on an API server that has nothing.

kopf speaks to a server of HTTP that knows the kinds and holds no object; everything else of the
process speaks to the twin.
"""

import asyncio
import json
import shutil
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import aiohttp
import kubernetes
import pytest
from aiohttp import web

from tests.operator.admission import questions
from tests.operator.resources import resource
from tests.support import held_ports
from tests.support.certificates import Authority
from zonekeeper.operator.admission import serving
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    EVENTS,
    LEASES,
    OWNED,
    Json,
    KubernetesError,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.run import running, settings
from zonekeeper.operator.run.settings import OperatorSettings
from zonekeeper.wire.running.running import StoppedError

pytestmark = pytest.mark.processes

LIMIT_S = 120
PORT_FREE = "127.0.0.1:0"
KINDS = (BOOKIE_CLUSTERS, *OWNED)


def discovery(group: str, version: str) -> Json:
    """List the kinds of a group as the API server does."""
    verbs = ["get", "list", "watch", "patch"]
    named = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    return {
        "kind": "APIResourceList",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [
            {
                "name": one.plural,
                "singularName": one.name.lower(),
                "kind": one.name,
                "namespaced": True,
                "verbs": verbs,
            }
            for one in named
        ],
    }


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer a request of kopf's: kinds, empty lists, and watches that stay silent."""
    path = request.path.strip("/").split("/")
    groups = sorted({(kind.group, kind.version) for kind in KINDS if kind.group})
    if request.path == "/api":
        return web.json_response({"versions": ["v1"]})
    if request.path == "/apis":
        said = [
            {
                "name": group,
                "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version},
            }
            for group, version in groups
        ]
        return web.json_response({"groups": said})
    if path == ["api", "v1"] or (path[0] == "apis" and len(path) == 3):
        return web.json_response(discovery(*(("", "v1") if path[0] == "api" else path[1:])))
    if "watch" in request.query:
        stream = web.StreamResponse()
        await stream.prepare(request)
        await asyncio.Event().wait()
    return web.json_response({"items": [], "metadata": {"resourceVersion": "1"}})


@asynccontextmanager
async def api_server() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Let kopf find that server as people's tools do."""
    async with api_server() as url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "x", "cluster": {"server": url}}],
            "users": [{"name": "x", "user": {"token": "x"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(
            kubernetes.config.kube_config,
            "KUBE_CONFIG_DEFAULT_LOCATION",
            str(tmp_path / "kubeconfig"),
        )
        yield


def given(**flags: str) -> OperatorSettings:
    return settings.parse({"http": PORT_FREE, "name": "pod-1", **flags}, {})


def holder(api: MemoryKubernetes) -> str:
    found = api.peek(LEASES, "default", "zonekeeper-operator")
    return "" if found is None else str(found["spec"]["holderIdentity"])


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 other code makes it true
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("known")
async def test_a_process_that_loses_the_right_ends_and_names_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jump = 0
    elapsed_ms = running._elapsed_ms
    monkeypatch.setattr(running, "_elapsed_ms", lambda: elapsed_ms() + jump)
    api = MemoryKubernetes()
    async with asyncio.timeout(LIMIT_S):
        living = asyncio.ensure_future(running.run(api, given()))
        await until(lambda: holder(api))
        assert holder(api).startswith("zonekeeper-operator_pod-1_")
        jump = 60_000
        with pytest.raises(StoppedError, match="the Lease default/zonekeeper-operator is lost"):
            await living


@pytest.mark.usefixtures("known")
async def test_no_name_is_looked_up_while_the_lease_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look-up stands still for 10 s where no DNS answers, and the Lease is lost meanwhile."""
    asked: list[str] = []

    def ask(name: str) -> tuple[str, list[str], list[str]]:
        asked.append(name)
        return name, [], []

    for each in ("gethostbyaddr", "getfqdn", "gethostbyname"):
        monkeypatch.setattr(socket, each, ask)
    api = MemoryKubernetes()
    async with asyncio.timeout(LIMIT_S):
        living = asyncio.ensure_future(running.run(api, given()))
        await until(lambda: holder(api))
        await until(lambda: signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, None))
        signal.raise_signal(signal.SIGTERM)
        await living
    assert asked == []


@pytest.mark.usefixtures("known")
async def test_sigterm_gives_the_lease_up() -> None:
    api = MemoryKubernetes()
    async with asyncio.timeout(LIMIT_S):
        living = asyncio.ensure_future(running.run(api, given()))
        await until(lambda: holder(api))
        await until(lambda: signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, None))
        signal.raise_signal(signal.SIGTERM)
        await living
    assert holder(api) == ""


async def test_a_process_that_stands_by_ends_at_once_when_it_is_told_to() -> None:
    api = MemoryKubernetes()
    spec = {"holderIdentity": "theirs_pod-2_1", "leaseTransitions": 0}
    meta = {"name": "zonekeeper-operator", "namespace": "default"}
    api.put(LEASES, {"metadata": meta, "spec": spec})
    async with asyncio.timeout(LIMIT_S):
        living = asyncio.ensure_future(running.run(api, given()))
        async with asyncio.timeout(LIMIT_S):
            while not await api.list(EVENTS, "default"):  # noqa: ASYNC110 the process makes it
                await asyncio.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)
        await living
    assert holder(api) == "theirs_pod-2_1"


@pytest.mark.parametrize(
    ("status", "ends"), [(403, True), (404, True), (0, False), (429, False), (503, False)]
)
async def test_without_rights_it_ends_and_without_an_answer_it_asks_again(
    monkeypatch: pytest.MonkeyPatch, status: int, ends: bool
) -> None:
    monkeypatch.setattr(running, "AGAIN_S", 0.01)
    api, asked = MemoryKubernetes(), 0

    def refuse(verb: str, kind: ObjectKind) -> None:
        nonlocal asked
        asked += 1
        if asked < 5 or ends:
            kind_of = NotPermittedError if status == HTTPStatus.FORBIDDEN else KubernetesError
            raise kind_of(status, "no")

    api.disturb = refuse
    living = asyncio.ensure_future(running._permitted(api, ()))
    async with asyncio.timeout(LIMIT_S):
        with suppress(KubernetesError):
            await living
    assert asked == (1 if ends else 5)


@pytest.mark.usefixtures("known")
async def test_its_pages_are_served_from_the_start() -> None:
    with ExitStack() as held:
        (port,) = held_ports.choose(1, "127.0.0.1", held)
        await see_pages(port)


async def see_pages(port: int) -> None:
    api = MemoryKubernetes()
    living = asyncio.ensure_future(running.run(api, given(http=f"127.0.0.1:{port}")))
    async with asyncio.timeout(LIMIT_S), aiohttp.ClientSession() as session:
        await until(lambda: holder(api))
        await asyncio.sleep(0)
        for path, words in (
            ("/healthz", "alive"),
            ("/readyz", "this process holds the Lease"),
            ("/metrics", "zonekeeper_operator_acts 1"),
        ):
            async with session.get(f"http://127.0.0.1:{port}{path}") as found:
                assert found.status == HTTPStatus.OK
                assert words in await found.text()
        signal.raise_signal(signal.SIGTERM)
        await living


async def test_a_process_that_stands_by_answers_admission_reviews(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    with ExitStack() as held:
        (port,) = held_ports.choose(1, "127.0.0.1", held)
        await ask_standing_by(authority, tmp_path / "secret", port)


async def ask_standing_by(authority: Authority, folder: Path, port: int) -> None:
    """Ask a process whose certificate comes only after its start."""
    api = MemoryKubernetes()
    spec = {"holderIdentity": "theirs_pod-2_1", "leaseTransitions": 0}
    meta = {"name": "zonekeeper-operator", "namespace": "default"}
    api.put(LEASES, {"metadata": meta, "spec": spec})
    flags = {"webhook": f"127.0.0.1:{port}", "webhook-certificate": str(folder)}
    living = asyncio.ensure_future(running.run(api, given(**flags)))
    async with asyncio.timeout(LIMIT_S), aiohttp.ClientSession() as session:
        while not await api.list(EVENTS, "default"):  # noqa: ASYNC110 the process makes it
            await asyncio.sleep(0.05)
        put_certificate(authority, folder)
        trust = ssl.create_default_context(cafile=authority.pair.certificate)
        body = questions.body(resource(policy={"quorums": {"ack": 9}}))
        url = f"https://127.0.0.1:{port}{serving.PATH}"
        while True:
            try:
                async with session.post(url, data=body, ssl=trust) as found:
                    assert questions.response(await found.read())["allowed"] is False
                    break
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)
        await living
    assert holder(api) == "theirs_pod-2_1"


def put_certificate(authority: Authority, folder: Path) -> None:
    """Put a certificate into a folder, as a Secret is mounted."""
    folder.mkdir()
    pair = authority.sign("webhook", name="webhook", hosts=("127.0.0.1",))
    shutil.copy(pair.certificate, folder / "tls.crt")
    shutil.copy(pair.key, folder / "tls.key")


def test_by_default_there_is_no_webhook() -> None:
    assert given().webhook is None
