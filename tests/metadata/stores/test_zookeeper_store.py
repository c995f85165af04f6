"""What only the ZooKeeper store has: servers that go and come, identities, certificates."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.security import OPEN_ACL_UNSAFE

from tests.support import zookeeper
from tests.support.certificates import Authority, KeyPair
from tests.support.fronts import Front
from tests.support.stores import ZooKeeperPlace
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import MetadataStore, Session
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.zookeeper import ZooKeeperStore

pytestmark = pytest.mark.contracts

#: Sessions outlive what is done to servers here, and a server's first handshake takes its time.
_LASTING = Timeouts(session_ms=30_000, request_ms=30_000)
#: For calls that are not to be answered; what is, may take longer on a busy machine.
_HASTY = Timeouts(session_ms=30_000, request_ms=1_000)


@pytest.fixture(scope="module")
def server() -> Iterator[zookeeper.Ensemble]:
    with zookeeper.single() as ensemble:
        yield ensemble


@pytest.fixture
async def place(server: zookeeper.Ensemble) -> AsyncIterator[ZooKeeperPlace]:
    opened = ZooKeeperPlace(server.addresses)
    yield opened
    await opened.close()


async def _hasty(place: ZooKeeperPlace) -> MetadataStore:
    """Open a store that soon gives up a call; opening it may take longer than that."""
    while True:
        with contextlib.suppress(errors.StoreUnavailableError):
            return await place.open(_HASTY)


async def _until(sessions: AsyncIterator[Session], *, connected: bool) -> Session:
    async for session in sessions:
        if session.connected is connected:
            return session
    raise AssertionError("a watch of sessions ends only with its store")


async def test_a_lost_connection_is_unknown_and_not_the_end(
    place: ZooKeeperPlace, server: zookeeper.Ensemble
) -> None:
    store, hasty = await place.open(_LASTING), await _hasty(place)
    first = store.session
    await store.create(f"{place.root}/mine", ephemeral=True)
    async with store.watch(f"{place.root}/a") as states, store.watch_session() as sessions:
        assert await anext(states) is None
        (only,) = server.servers
        await asyncio.to_thread(only.kill)
        suspended = await _until(sessions, connected=False)
        assert suspended == Session(id=first.id, connected=False)

        async with hasty.watch_session() as others:
            await _until(others, connected=False)
        with pytest.raises(errors.StoreUnavailableError) as unsent:
            await hasty.create(f"{place.root}/b")
        assert not unsent.value.maybe_applied, "nothing is sent while nobody is reached"
        with pytest.raises(errors.StoreUnavailableError):
            await hasty.get(place.root)

        only.start()
        assert await _until(sessions, connected=True) == first
        await store.create(f"{place.root}/a", b"one")
        state = await anext(states)
        assert state is not None
        assert state.value == b"one"
        assert await store.exists(f"{place.root}/mine")


async def test_a_write_that_a_frozen_server_does_not_answer_is_unknown(
    place: ZooKeeperPlace, server: zookeeper.Ensemble
) -> None:
    store, hasty = await place.open(_LASTING), await _hasty(place)
    # Before the first node that a store makes, it reads which identity has which role.
    await hasty.create(f"{place.root}/before")
    (only,) = server.servers
    async with store.watch(f"{place.root}/a") as states:
        assert await anext(states) is None
        only.stop()
        try:
            with pytest.raises(errors.StoreUnavailableError) as late:
                await hasty.create(f"{place.root}/a")
            assert late.value.maybe_applied
            with pytest.raises(errors.StoreUnavailableError):
                await hasty.get(f"{place.root}/a")
        finally:
            only.go_on()
        assert await anext(states) is not None, "it was applied after all"


class _MuteFront(Front):
    """Stands before a server; the connections that are to be mute get no answer."""

    def __init__(self, leads_to: int) -> None:
        super().__init__(leads_to)
        self.mute = 0
        self.muted = 0

    async def lead_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.muted < self.mute:
            self.muted += 1
            await reader.read()
        else:
            await super().lead_on(reader, writer)


async def test_a_single_server_that_leaves_a_greeting_unanswered_does_not_cost_the_session(
    place: ZooKeeperPlace, server: zookeeper.Ensemble
) -> None:
    (only,) = server.servers
    front = _MuteFront(only.port)
    await front.open()
    try:
        store = await open_store(
            f"zk://127.0.0.1:{front.port}{place.root}",
            Timeouts(session_ms=12_000, request_ms=30_000),
        )
        first = store.session
        async with store.watch_session() as sessions:
            front.mute = 2
            front.cut()
            await _until(sessions, connected=False)
            assert await _until(sessions, connected=True) == first
        assert front.muted == 2
        await store.close()
    finally:
        await front.close()


async def test_nobody_there_is_said_within_the_time_limit() -> None:
    with pytest.raises(errors.StoreUnavailableError, match="is there a quorum"):
        await open_store("zk://127.0.0.1:1/ledgers", Timeouts(request_ms=300))


async def test_a_call_under_way_ends_when_the_store_is_closed(
    place: ZooKeeperPlace, server: zookeeper.Ensemble
) -> None:
    store = await place.open(Timeouts(session_ms=4_000, request_ms=60_000))
    (only,) = server.servers
    only.stop()
    try:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(_error_of_create(store, f"{place.root}/a"))
            await asyncio.sleep(0)
            closing = group.create_task(store.close())
            error = await call
            only.go_on()
            await closing
    finally:
        only.go_on()
    assert isinstance(error, errors.StoreClosedError)


async def _error_of_create(store: MetadataStore, path: str) -> errors.StoreError:
    with pytest.raises(errors.StoreError) as ended:
        await store.create(path)
    return ended.value


# ── identities ──


def _secret(folder: Path, text: str) -> Path:
    path = folder / f"auth-{abs(len(text))}-{text.count(':')}"
    path.write_text(text)
    return path


async def test_what_one_identity_made_no_other_touches(
    place: ZooKeeperPlace, server: zookeeper.Ensemble, tmp_path: Path
) -> None:
    owner, stranger = [
        await open_store(f"{place.uri}?auth-file={_secret(tmp_path, who)}", _LASTING)
        for who in ("bookie:hunter2", "mallory:guess")
    ]
    nobody = await place.open()
    await owner.create(f"{place.root}/a", b"one")
    await owner.put(f"{place.root}/a", b"two", version=0)
    for other in (stranger, nobody):
        with pytest.raises(errors.UnauthorizedError) as refused:
            await other.get(f"{place.root}/a")
        assert not refused.value.retryable
        with pytest.raises(errors.UnauthorizedError):
            await other.put(f"{place.root}/a", b"three", version=1)
        with pytest.raises(errors.UnauthorizedError):
            await other.create(f"{place.root}/a/child")
        async with other.watch(f"{place.root}/a") as states:
            with pytest.raises(errors.UnauthorizedError):
                await anext(states)
    node = await owner.get(f"{place.root}/a")
    assert node is not None
    assert node.value == b"two"
    for store in (owner, stranger):
        await store.close()


async def test_no_node_of_an_identity_is_open_to_the_world(
    place: ZooKeeperPlace, server: zookeeper.Ensemble, tmp_path: Path
) -> None:
    await place.open()
    secret = _secret(tmp_path, "bookie:hunter2")
    owner = await open_store(f"{place.uri}?auth-file={secret}", _LASTING)
    await owner.create(f"{place.root}/a/b", make_parents=True)
    await owner.create(f"{place.root}/e-", ephemeral=True, sequential=True)
    reader = KazooClient(server.addresses, auth_data=[("digest", "bookie:hunter2")])
    await asyncio.to_thread(reader.start)
    for name in await owner.children(place.root) or ():
        acls, _ = await asyncio.to_thread(reader.get_acls, f"{place.root}/{name}")
        assert [(acl.id.scheme, acl.id.id.split(":")[0]) for acl in acls] == [("digest", "bookie")]
    await asyncio.to_thread(reader.stop)
    await asyncio.to_thread(reader.close)
    await owner.close()


async def test_the_password_is_in_no_message_and_no_log(
    place: ZooKeeperPlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = _secret(tmp_path, "bookie:hunter2")
    store = await open_store(f"{place.uri}?auth-file={secret}", _LASTING)
    await store.get("/")
    assert "hunter2" not in store.name
    await store.close()
    assert "hunter2" not in caplog.text
    assert caplog.text, "the log says what kazoo does"


@pytest.mark.parametrize(
    "text", ["", "bookie", "bookie:", ":pw", "a:b\nc", "a:b\nc:d\n" * 3, "a:" + "b" * 2_000]
)
async def test_a_useless_auth_file_is_refused_without_its_content(
    place: ZooKeeperPlace, tmp_path: Path, text: str
) -> None:
    with pytest.raises(errors.UnauthorizedError, match="one line 'user:password'") as refused:
        await open_store(f"{place.uri}?auth-file={_secret(tmp_path, text)}")
    assert "a:b" not in str(refused.value)


async def test_a_missing_auth_file_is_named(place: ZooKeeperPlace, tmp_path: Path) -> None:
    with pytest.raises(errors.UnauthorizedError, match="absent"):
        await open_store(f"{place.uri}?auth-file={tmp_path}/absent")


# ── certificates ──


@dataclass(frozen=True)
class Certificates:
    """A server that wants certificates, and two authorities, of which it believes the first."""

    port: int
    ours: Authority
    theirs: Authority

    def options(self, authority: Authority, client: KeyPair | None) -> str:
        own = f"&tls-cert={client.certificate}&tls-key={client.key}" if client else ""
        return f"tls-ca={authority.pair.certificate}{own}"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certificates]:
    folder = tmp_path_factory.mktemp("certificates")
    ours, theirs = Authority(folder / "ours"), Authority(folder / "theirs")
    shown = ours.sign("server", name="zookeeper", hosts=("localhost",))
    both = folder / "server.pem"
    both.write_bytes(shown.key.read_bytes() + shown.certificate.read_bytes())
    believed = folder / "authority.pem"
    believed.write_bytes(ours.pair.certificate.read_bytes())
    with zookeeper.single(zookeeper.ServerTls(both, believed)) as ensemble:
        yield Certificates(ensemble.servers[0].secure_port, ours, theirs)


async def test_a_server_and_a_client_that_show_their_certificates_talk(
    secure: Certificates,
) -> None:
    client = secure.ours.sign("client", name="bookie")
    address = f"zk://localhost:{secure.port}/x?{secure.options(secure.ours, client)}"
    store = await open_store(address, _LASTING)
    await store.create("/x", b"one")
    assert await store.exists("/x")
    assert "tls" not in store.name
    await store.close()


async def test_whoever_cannot_be_verified_is_not_talked_to(secure: Certificates) -> None:
    client = secure.ours.sign("client", name="bookie")
    stranger = secure.theirs.sign("stranger", name="bookie")
    for host, believed, shown in (
        ("localhost", secure.theirs, client),  # the server's authority is not ours
        ("127.0.0.1", secure.ours, client),  # the certificate is for another name
        ("localhost", secure.ours, stranger),  # the server does not know our authority
        ("localhost", secure.ours, None),
    ):
        address = f"zk://{host}:{secure.port}/x?{secure.options(believed, shown)}"
        with pytest.raises(errors.UnauthorizedError) as refused:
            await open_store(address, _LASTING)
        assert "certificate" in str(refused.value)


async def test_certificates_that_cannot_be_used_are_named_at_once(
    secure: Certificates, tmp_path: Path
) -> None:
    for files in (f"tls-ca={tmp_path}/absent", f"tls-cert={__file__}&tls-key={__file__}"):
        with pytest.raises(errors.UnauthorizedError, match="tls-cert"):
            await open_store(f"zk://localhost:{secure.port}/x?{files}")


# ── what else is ZooKeeper's ──


async def test_a_node_without_a_value_reads_as_empty(
    place: ZooKeeperPlace, server: zookeeper.Ensemble
) -> None:
    """Clients in other languages can create such nodes; kazoo's own interface cannot."""
    store = await place.open()
    other = KazooClient(server.addresses)
    await asyncio.to_thread(other.start)
    done = other.handler.async_result()
    other._call(CreateRequest(f"{place.root}/a", None, OPEN_ACL_UNSAFE, 0), done)
    await asyncio.to_thread(done.get)
    await asyncio.to_thread(other.stop)
    await asyncio.to_thread(other.close)
    node = await store.get(f"{place.root}/a", sync=True)
    assert node is not None
    assert node.value == b""


async def test_reads_of_a_new_session_sync_until_one_did(place: ZooKeeperPlace) -> None:
    store = await place.open()
    assert isinstance(store, ZooKeeperStore)
    old = store.session.id
    async with store.watch_session() as sessions:
        await place.expire(store)
        async for session in sessions:
            if session.connected and session.id != old:
                break
    assert store._behind, "the next server may know less than the last one"
    await store.get(place.root)
    assert not store._behind
