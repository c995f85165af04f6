"""Roles and ACLs on a real ZooKeeper: what is granted, what is refused, and what is said."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.metadata.access import owning, trying
from tests.support import roles, zookeeper
from tests.support.certificates import Authority, KeyPair, Terms
from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.guarded import GuardedStore
from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.saving import securing
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts

pytestmark = pytest.mark.contracts

_LASTING = Timeouts(session_ms=30_000, request_ms=30_000)


@pytest.fixture(scope="module")
def server() -> Iterator[zookeeper.Ensemble]:
    with zookeeper.single() as ensemble:
        yield ensemble


class Stores:
    """Stores of roles at one root; all of them are closed at the end."""

    def __init__(self, servers: str, folder: Path, root: str) -> None:
        self.address = f"zk://{servers}{root}"
        self.root = root
        self._folder = folder
        self._opened: list[GuardedStore] = []

    def file(self, *held: StoreRole) -> Path:
        """Write the ``auth-file`` of a process that has these roles' passwords."""
        return self._written("-".join(held), *map(roles.secret, held))

    async def open(self, *held: StoreRole, options: str = "") -> GuardedStore:
        return await self._open(f"?auth-file={self.file(*held)}{options}" if held else "")

    async def open_owner(self, owner: str) -> GuardedStore:
        """Open a store with the identity of an owner of ledgers."""
        file = self._written(owner.replace("/", "-"), owning.SECRETS[owner])
        return await self._open(f"?auth-file={file}")

    def _written(self, name: str, *secrets: str) -> Path:
        path = self._folder / name
        path.write_text("".join(f"{secret}\n" for secret in secrets))
        return path

    async def _open(self, query: str) -> GuardedStore:
        store = await open_store(f"{self.address}{query}", _LASTING)
        assert isinstance(store, GuardedStore)
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@pytest.fixture
async def stores(server: zookeeper.Ensemble, tmp_path: Path) -> AsyncIterator[Stores]:
    opened = Stores(server.addresses, tmp_path, f"/{uuid.uuid4().hex}")
    yield opened
    await opened.close()


async def worlds(server: zookeeper.Ensemble, root: str) -> list[str]:
    """Walk a root as its admin, with ZooKeeper's own client; give what is open to the world."""
    reader = KazooClient(
        server.addresses, auth_data=[("digest", roles.secret(StoreRole.ADMIN))], timeout=30
    )
    await asyncio.to_thread(reader.start)
    found, todo = [], [root, f"{root}.zonekeeper"]
    while todo:
        path = todo.pop()
        acls, _ = await asyncio.to_thread(reader.get_acls, path)
        if any(acl.id.scheme == "world" for acl in acls):
            found.append(path)
        todo += [f"{path}/{name}" for name in await asyncio.to_thread(reader.get_children, path)]
    await asyncio.to_thread(reader.stop)
    await asyncio.to_thread(reader.close)
    return found


async def test_each_role_may_do_what_the_table_says(
    server: zookeeper.Ensemble, stores: Stores
) -> None:
    await trying.build(await stores.open(StoreRole.ADMIN))
    for role in StoreRole:
        assert await trying.wrong(await stores.open(role), role) == []
    assert await worlds(server, stores.root) == []


async def test_a_ledger_is_read_by_its_owner_and_the_roles_of_the_system(
    server: zookeeper.Ensemble, stores: Stores
) -> None:
    admin = await stores.open(StoreRole.ADMIN)
    also = await securing.beginning(admin, Root(admin.root), owning.IDENTITIES, trying.INSTANCE)
    cluster = await clusters.initialise(admin, trying.INSTANCE, also=also)
    ingest, billing, client = [
        await clusters.open_cluster(store)
        for store in (
            await stores.open_owner(owning.INGEST),
            await stores.open_owner(owning.BILLING),
            await stores.open(StoreRole.CLIENT),
        )
    ]
    system = {role: await stores.open(role) for role in StoreRole}
    await owning.try_all(ingest, billing, client, system)
    assert await worlds(server, stores.root) == []
    report = await securing.secure(cluster, None, dry_run=False)
    assert (report.changed, report.is_settled) == (0, True)


async def test_without_an_identity_a_process_is_told_so_at_once(stores: Stores) -> None:
    await trying.build(await stores.open(StoreRole.ADMIN))
    stranger = await stores.open()
    with pytest.raises(errors.UnauthorizedError, match="it shows no identity") as refused:
        await clusters.open_cluster(stranger)
    assert not refused.value.retryable
    with pytest.raises(errors.UnauthorizedError):
        await stranger.create(f"{stores.root}/cookies/mine")


async def test_a_wrong_password_is_nobody(stores: Stores, tmp_path: Path) -> None:
    await trying.build(await stores.open(StoreRole.ADMIN))
    wrong = tmp_path / "wrong"
    wrong.write_text("bookie:guessed")
    store = await open_store(f"{stores.address}?auth-file={wrong}", _LASTING)
    with pytest.raises(errors.UnauthorizedError, match="This process is digest:bookie") as refused:
        await clusters.open_cluster(store)
    assert "guessed" not in str(refused.value)
    await store.close()


async def test_a_root_that_stands_is_secured_and_opened_again(
    server: zookeeper.Ensemble, stores: Stores
) -> None:
    plain = await stores.open()
    cluster = await clusters.initialise(plain, trying.INSTANCE)
    await plain.create(f"{stores.root}/00/0000/L0001", make_parents=True)
    await plain.create(f"{stores.root}/foreign")
    running = await stores.open(StoreRole.CLIENT, options="&acl=open")
    await running.create(f"{stores.root}/00/0000/L0002")
    admin = await stores.open(StoreRole.ADMIN, options="&acl=open")
    cluster = await clusters.open_cluster(admin)

    dry = await securing.secure(cluster, roles.IDENTITIES, dry_run=True)
    assert not dry.is_settled
    assert len(await worlds(server, stores.root)) == dry.nodes

    done = await securing.secure(cluster, roles.IDENTITIES, dry_run=False)
    assert done.is_settled
    assert done.made == dry.made
    # A dry run counts neither the directories that are missing nor the node of identities.
    assert done.changed == dry.changed
    assert done.strange_paths == [(f"{stores.root}/foreign", True)]
    assert await worlds(server, stores.root) == [f"{stores.root}/foreign"]
    again = await securing.secure(cluster, None, dry_run=False)
    assert (again.changed, again.walks) == (0, 1)

    # A process that was there before gives its nodes their ACLs from then on.
    await running.create(f"{stores.root}/00/0000/L0003")
    assert await worlds(server, stores.root) == [f"{stores.root}/foreign"]
    with pytest.raises(errors.UnauthorizedError):
        await plain.get(f"{stores.root}/00/0000/L0003")

    opened = await securing.open_again(cluster, dry_run=False)
    assert opened.is_settled
    assert len(await worlds(server, stores.root)) == opened.nodes
    assert await plain.get(f"{stores.root}/00/0000/L0003") is not None
    await running.create(f"{stores.root}/00/0000/L0004")
    assert f"{stores.root}/00/0000/L0004" in await worlds(server, stores.root)


async def test_one_who_is_no_admin_of_a_node_is_told_whose_it_is(stores: Stores) -> None:
    creator = await stores.open(StoreRole.BOOKIE)
    await clusters.initialise(creator, trying.INSTANCE)
    both = await stores.open(StoreRole.ADMIN, StoreRole.BOOKIE)
    admin = await stores.open(StoreRole.ADMIN)
    with pytest.raises(errors.UnauthorizedError):
        await clusters.open_cluster(admin)
    cluster = await clusters.open_cluster(both)
    report = await securing.secure(cluster, roles.IDENTITIES, dry_run=False)
    assert report.is_settled
    assert (await clusters.open_cluster(admin)).instance == trying.INSTANCE


async def test_a_bookie_with_an_identity_of_its_own_owns_its_nodes(
    stores: Stores, tmp_path: Path
) -> None:
    admin = await stores.open(StoreRole.ADMIN)
    await trying.build(admin)
    mine = f"&own-file={tmp_path}/own"
    one = await stores.open(StoreRole.BOOKIE, options=mine)
    other = await stores.open(StoreRole.BOOKIE, options=f"{mine}-other")
    assert (tmp_path / "own").stat().st_mode & 0o077 == 0
    cookie = f"{stores.root}/cookies/b-0"
    await one.create(cookie, b"one")
    for stranger in (other, await stores.open(StoreRole.BOOKIE)):
        assert await stranger.get(cookie) is not None
        with pytest.raises(errors.UnauthorizedError):
            await stranger.put(cookie, b"two", version=0)
        with pytest.raises(errors.UnauthorizedError):
            await stranger.delete(cookie, version=0)
    # The same process after a start has the same identity.
    later = await stores.open(StoreRole.BOOKIE, options=mine)
    assert await later.put(cookie, b"three", version=0) == 1
    report = await securing.secure(await clusters.open_cluster(admin), None, dry_run=False)
    assert report.changed == 0, "such an ACL is one that a cookie may have"


# ── certificates ──


async def test_a_certificate_is_an_identity(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ours")
    with zookeeper.single(_server_tls(authority, tmp_path)) as ensemble:
        address = f"zk://localhost:{ensemble.servers[0].secure_port}/x"
        admin, client = (
            _options(authority, authority.sign(name, name=name, organisation="Example, Inc."))
            for name in ("admin", "client")
        )
        known = Identities(
            roles={
                StoreRole.ADMIN: (identities.parse_identity("x509:CN=admin,O=Example\\, Inc."),),
                StoreRole.CLIENT: (identities.parse_identity("x509:CN=client,O=Example\\, Inc."),),
            }
        )
        store = await open_store(f"{address}?{admin}", _LASTING)
        assert isinstance(store, GuardedStore)
        assert store.guard.mine == known.roles[StoreRole.ADMIN]
        cluster = await clusters.initialise(store, trying.INSTANCE)
        report = await securing.secure(cluster, known, dry_run=False)
        assert report.is_settled
        other = await open_store(f"{address}?{client}", _LASTING)
        await other.create("/x/00/0000/L0001", make_parents=True)
        with pytest.raises(errors.UnauthorizedError, match="with the role client"):
            await other.create("/x/cookies/a-0")
        await other.close()
        await store.close()


async def test_a_bad_certificate_is_said_and_not_tried_for_ever(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    fine = ours.sign("client", name="bookie")
    past = Terms(valid=(Terms().valid[0], Terms().valid[0].replace(year=2021)))
    expired = ours.sign("expired", name="bookie", terms=past)
    with zookeeper.single(_server_tls(ours, tmp_path)) as ensemble:
        port = ensemble.servers[0].secure_port
        for host, trusted, shown, why in (
            ("localhost", theirs, fine, "server's certificate is not believed: certificate"),
            ("127.0.0.1", ours, fine, "IP address mismatch"),
            ("localhost", ours, expired, "refuses our certificate"),
            ("localhost", ours, theirs.sign("stranger", name="bookie"), "refuses our certificate"),
            ("localhost", ours, None, "refuses our certificate, or wants one"),
        ):
            address = f"zk://{host}:{port}/x?{_options(trusted, shown)}"
            with pytest.raises(errors.UnauthorizedError, match=why) as refused:
                await open_store(address, _LASTING)
            assert not refused.value.retryable


def _server_tls(authority: Authority, folder: Path) -> zookeeper.ServerTls:
    shown = authority.sign("server", name="zookeeper", hosts=("localhost",))
    both = folder / "server.pem"
    both.write_bytes(shown.key.read_bytes() + shown.certificate.read_bytes())
    believed = folder / "authority.pem"  # ZooKeeper knows the form of a file by its name
    believed.write_bytes(authority.pair.certificate.read_bytes())
    return zookeeper.ServerTls(both, believed)


def _options(authority: Authority, client: KeyPair | None) -> str:
    own = f"&tls-cert={client.certificate}&tls-key={client.key}" if client else ""
    return f"tls-ca={authority.pair.certificate}{own}"
