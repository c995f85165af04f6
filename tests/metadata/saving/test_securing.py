"""Giving the nodes of a root their ACLs: reports, interruptions, strangers, and the way back."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import roles
from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.guard import OPEN_ACL, Acl, AclEntry
from zonekeeper.metadata.access.guarded import NodeAcl
from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.access.node_rights import (
    DIRECTORIES,
    EVERYTHING,
    NodePermission,
    StoreRole,
)
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnsupportedError
from zonekeeper.metadata.saving import exporting, securing
from zonekeeper.metadata.saving.securing import WALKS_MAX, NotSecurableError
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.sqlite import open_sqlite
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId

INSTANCE = "4f1c9c1e-3f0a-4be1-9d0c-5f6d2b6f7a10"
NODE = "/ledgers.zonekeeper/identities"


class AdminStore(MemoryStore):
    """A store that does something before each ACL is set."""

    def __init__(self, server: MemoryServer, *mine: StoreRole) -> None:
        held = tuple(map(roles.of, mine or (StoreRole.ADMIN,)))
        super().__init__(server, mine=held)
        self.before: Callable[[str], object] = lambda _: None
        self.set = 0

    async def set_acl(self, path: str, entries: Acl, *, version: int) -> None:
        self.before(path)
        await super().set_acl(path, entries, version=version)
        self.set += 1


async def _open_root(server: MemoryServer) -> MemoryStore:
    plain = MemoryStore(server)
    await clusters.initialise(plain, INSTANCE)
    await plain.create("/ledgers/00/0000/L0001", make_parents=True)
    return plain


async def _cluster(store: MemoryStore) -> Cluster:
    return await clusters.open_cluster(store)


async def _acl(store: MemoryStore, path: str) -> Acl:
    found = await store.acl(path)
    assert isinstance(found, NodeAcl)
    return found.entries


async def test_a_dry_run_changes_nothing_and_counts_what_a_run_changes() -> None:
    server = MemoryServer()
    plain, admin = await _open_root(server), AdminStore(server)
    before = server.last_change_id
    dry = await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=True)
    assert (server.last_change_id, admin.set) == (before, 0)
    assert await plain.get(NODE) is None
    done = await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=False)
    assert (done.changed, done.made) == (dry.changed, dry.made)
    assert done.made > 0
    assert admin.set == done.changed
    assert done.is_settled
    for name in DIRECTORIES:
        assert await admin.exists(f"/ledgers.zonekeeper/{name}")


async def test_a_second_run_finds_nothing_to_do() -> None:
    server = MemoryServer()
    await _open_root(server)
    admin = AdminStore(server)
    await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=False)
    before = server.last_change_id
    again = await securing.secure(await _cluster(admin), None, dry_run=False)
    assert (again.changed, again.made, again.walks, again.is_settled) == (0, 0, 1, True)
    assert server.last_change_id == before


@pytest.mark.parametrize("after", range(0, 24, 3))
async def test_an_interrupted_run_is_begun_again(after: int) -> None:
    server = MemoryServer()
    await _open_root(server)
    admin = AdminStore(server)

    asked: list[str] = []

    def interrupt(path: str) -> None:
        asked.append(path)
        if len(asked) > after:
            raise errors.StoreUnavailableError("is away", store="memory", path=path)

    admin.before = interrupt
    with pytest.raises(errors.StoreUnavailableError):
        await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=False)
    admin.before = lambda _: None
    report = await securing.secure(await _cluster(admin), None, dry_run=False)
    assert report.is_settled
    for path in ("/ledgers", "/ledgers.zonekeeper", "/ledgers/00/0000/L0001", NODE):
        assert admin.guard.fits(path, await _acl(admin, path))


async def test_a_node_that_is_opened_behind_the_walk_is_found_by_the_next() -> None:
    server = MemoryServer()
    await _open_root(server)
    admin = AdminStore(server)
    opened: list[str] = []

    def before(path: str) -> None:
        if path == "/ledgers/00/0000/L0001" and not opened:
            # As a process that has not heard of the identities would make a node.
            opened.append("/ledgers/00/0000")
            server.acls.replace("/ledgers/00/0000", OPEN_ACL)

    admin.before = before
    report = await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=False)
    assert report.is_settled
    assert report.walks == 3, "the second walk changes a node, and the third finds nothing"
    assert admin.guard.fits("/ledgers/00/0000", await _acl(admin, "/ledgers/00/0000"))


async def test_a_root_that_never_settles_is_said_to() -> None:
    server = MemoryServer()
    await _open_root(server)
    report = await securing.secure(
        await _cluster(AdminStore(server)),
        roles.IDENTITIES,
        dry_run=False,
        progress=lambda _: server.acls.replace("/ledgers/00", OPEN_ACL),
    )
    assert not report.is_settled
    assert report.walks == WALKS_MAX


async def test_a_node_of_no_kind_stays_as_it_is_and_is_named() -> None:
    server = MemoryServer()
    plain = await _open_root(server)
    await plain.create("/ledgers.zonekeeper/newer/one", make_parents=True)
    admin = AdminStore(server)
    report = await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=False)
    assert report.strange == 2
    assert report.strange_paths == [
        ("/ledgers.zonekeeper/newer", True),
        ("/ledgers.zonekeeper/newer/one", True),
    ]
    assert await _acl(admin, "/ledgers.zonekeeper/newer/one") == OPEN_ACL


async def test_nobody_locks_themselves_out() -> None:
    server = MemoryServer()
    await _open_root(server)
    client = AdminStore(server, StoreRole.CLIENT)
    before = server.last_change_id
    with pytest.raises(NotSecurableError, match=r"role admin.*ours: digest:client"):
        await securing.secure(await _cluster(client), roles.IDENTITIES, dry_run=False)
    with pytest.raises(NotSecurableError, match="has no identities yet"):
        await securing.secure(await _cluster(client), None, dry_run=False)
    assert server.last_change_id == before


async def test_a_node_of_another_creator_says_who_may_change_it() -> None:
    server = MemoryServer()
    plain = await _open_root(server)
    bookie = AclEntry(roles.of(StoreRole.BOOKIE), EVERYTHING)
    readable = AclEntry(roles.of(StoreRole.ADMIN), NodePermission.READ)
    server.acls.replace("/ledgers/cookies", (readable, bookie))
    cluster = Cluster(AdminStore(server), (await _cluster(plain)).root, INSTANCE)
    with pytest.raises(NotSecurableError) as refused:
        await securing.secure(cluster, roles.IDENTITIES, dry_run=False)
    told = str(refused.value)
    assert "/ledgers/cookies" in told
    assert "digest:bookie:rwcda" in told
    assert "'auth-file'" in told
    assert bookie.identity.name not in told, "no hash is shown"
    both = AdminStore(server, StoreRole.ADMIN, StoreRole.BOOKIE)
    assert (await securing.secure(await _cluster(both), None, dry_run=False)).is_settled


async def test_the_way_back_opens_every_node() -> None:
    server = MemoryServer()
    plain, admin = await _open_root(server), AdminStore(server)
    await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=False)
    with pytest.raises(errors.UnauthorizedError):
        await _cluster(plain)
    dry = await securing.open_again(await _cluster(admin), dry_run=True)
    assert await admin.get(NODE) is not None
    report = await securing.open_again(await _cluster(admin), dry_run=False)
    assert report.is_settled
    assert report.changed == dry.changed - 1, "the identities are gone"
    assert await plain.get("/ledgers/00/0000/L0001") is not None
    assert await plain.get(NODE) is None


async def test_what_a_newer_program_wrote_beside_the_roles_stays() -> None:
    server = MemoryServer()
    await _open_root(server)
    admin = AdminStore(server)
    await securing.secure(await _cluster(admin), roles.IDENTITIES, dry_run=False)
    node = await admin.get(NODE)
    assert node is not None
    raw = json.dumps(json.loads(node.value) | {"since": 7}).encode()
    await admin.put(NODE, raw, version=node.version)
    fewer = Identities(roles={StoreRole.ADMIN: roles.IDENTITIES.roles[StoreRole.ADMIN]})
    await securing.secure(await _cluster(admin), fewer, dry_run=False)
    node = await admin.get(NODE)
    assert node is not None
    assert json.loads(node.value)["since"] == 7
    assert identities.parse(node.value).roles == fewer.roles


async def test_newer_identities_are_not_overwritten() -> None:
    server = MemoryServer()
    plain = await _open_root(server)
    await plain.create(NODE, b'{"format":2,"instance":"x","roles":{}}')
    admin = AdminStore(server)
    cluster = Cluster(admin, (await _cluster(plain)).root, INSTANCE)
    with pytest.raises(UnsupportedError, match="format 2"):
        await securing.secure(cluster, roles.IDENTITIES, dry_run=False)


async def test_a_new_root_with_identities_is_never_open() -> None:
    server = MemoryServer()
    operator = roles.opened(server, StoreRole.OPERATOR)
    cluster = await roles.guarded_root(operator, INSTANCE)
    admin = AdminStore(server)
    report = await securing.secure(await _cluster(admin), None, dry_run=False)
    assert (report.changed, report.made, report.strange) == (0, 0, 0)
    assert cluster.instance == INSTANCE


@pytest.mark.parametrize(
    "votes",
    [elections.auditor_votes, elections.zone_watch_votes, elections.log_keeper_votes],
    ids=lambda votes: votes.__name__,
)
async def test_autorecovery_may_stand_for_each_election_of_a_guarded_root(
    votes: Callable[[Cluster], str],
) -> None:
    server = MemoryServer()
    await roles.guarded_root(roles.opened(server, StoreRole.OPERATOR), INSTANCE)
    store = roles.opened(server, StoreRole.AUTORECOVERY)
    cluster = await clusters.open_cluster(store)

    async with (
        asyncio.timeout(60),
        elections.stand(store, votes(cluster), BookieId("log-a-autorecovery-0")) as states,
    ):
        async for leads in states:
            if leads is not None:
                return
    raise AssertionError("it never leads")


async def test_an_export_leaves_the_identities_out() -> None:
    server = MemoryServer()
    await roles.guarded_root(roles.opened(server, StoreRole.OPERATOR), INSTANCE)
    found = [node.suffix async for node in exporting.nodes(await _cluster(AdminStore(server)))]
    assert ".zonekeeper/policy" not in found
    assert ".zonekeeper/logs" in found
    assert ".zonekeeper/identities" not in found


async def test_a_store_without_acls_says_so(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    store = await open_sqlite(path, root="/ledgers", timeouts=Timeouts())
    cluster = await clusters.initialise(store, INSTANCE)
    with pytest.raises(NotSecurableError, match="has no ACLs"):
        await securing.secure(cluster, roles.IDENTITIES, dry_run=False)
    await store.close()
