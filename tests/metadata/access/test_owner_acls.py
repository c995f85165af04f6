"""A ledger whose owner has an identity of its own is read by it and the system's roles alone."""

import json

import pytest

from tests.metadata.access import owning
from tests.metadata.access.owning import BILLING, IDENTITIES, INGEST, SECRETS
from tests.metadata.access.trying import INSTANCE
from tests.support import roles
from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.guard import OPEN_ACL, NodeGuard
from zonekeeper.metadata.access.identities import BadIdentityError, Identities
from zonekeeper.metadata.access.node_rights import NodeUse, StoreRole
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import ledger_format
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.saving import securing
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import Create, Delete
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import LedgerId

PATH = "/ledgers/00/0000/L0001"


def opened(server: MemoryServer, secret: str) -> MemoryStore:
    return MemoryStore(server, mine=(identities.of_secret(secret.encode()),))


async def root(server: MemoryServer) -> Cluster:
    """Make a root in which two owners have identities."""
    admin = roles.opened(server, StoreRole.ADMIN)
    also = await securing.beginning(admin, Root(admin.root), IDENTITIES, INSTANCE)
    return await clusters.initialise(admin, INSTANCE, also=also)


async def owner_of(server: MemoryServer, owner: str) -> Cluster:
    return await clusters.open_cluster(opened(server, SECRETS[owner]))


async def secured(cluster: Cluster, wanted: Identities | None) -> int:
    report = await securing.secure(cluster, wanted, dry_run=False)
    assert report.is_settled
    return report.changed


async def test_each_ledger_is_its_owners() -> None:
    server = MemoryServer()
    await root(server)
    client = await clusters.open_cluster(roles.opened(server, StoreRole.CLIENT))
    system = {role: roles.opened(server, role) for role in StoreRole}
    await owning.try_all(
        await owner_of(server, INGEST), await owner_of(server, BILLING), client, system
    )


async def test_an_admin_and_a_repair_make_ledgers_for_every_owner() -> None:
    server = MemoryServer()
    admin = await root(server)
    await ledgers.create(admin, owning.metadata(INGEST), ledger_id=LedgerId(1))
    path = ledgers.path(admin, ledger_id=LedgerId(1))
    assert await owning.is_read_by(opened(server, SECRETS[INGEST]), path)
    assert not await owning.is_read_by(opened(server, SECRETS[BILLING]), path)


async def test_a_root_that_stands_is_secured_by_what_its_ledgers_say() -> None:
    server = MemoryServer()
    plain = MemoryStore(server)
    cluster = await clusters.initialise(plain, INSTANCE)
    for number, owner in enumerate((None, INGEST, BILLING, "client/nameless")):
        await ledgers.create(cluster, owning.metadata(owner), ledger_id=LedgerId(number))
    garbage = ledgers.path(cluster, ledger_id=LedgerId(77))
    await plain.create(garbage, b"not read", make_parents=True)
    admin = await clusters.open_cluster(roles.opened(server, StoreRole.ADMIN))
    dry = await securing.secure(admin, IDENTITIES, dry_run=True)
    assert await secured(admin, IDENTITIES) == dry.changed
    assert await secured(admin, None) == 0

    ingest, client = opened(server, SECRETS[INGEST]), roles.opened(server, StoreRole.CLIENT)
    paths = [ledgers.path(cluster, LedgerId(number)) for number in range(4)]
    assert [await owning.is_read_by(ingest, path) for path in paths] == [True, True, False, True]
    assert [await owning.is_read_by(client, path) for path in paths] == [True, False, False, True]
    assert await client.get(garbage) is not None, "nobody says whose it is"


async def test_a_ledger_that_cannot_be_read_stays_with_its_owner() -> None:
    server = MemoryServer()
    admin = await root(server)
    ingest = await owner_of(server, INGEST)
    made = await ledgers.create(ingest, owning.metadata(INGEST), ledger_id=LedgerId(1))
    path = ledgers.path(admin, ledger_id=LedgerId(1))
    await admin.store.put(path, b"of a newer release", version=made.version)
    assert await secured(admin, None) == 0
    server.acls.replace(path, OPEN_ACL)
    assert await secured(admin, None) == 1


async def test_another_password_of_an_owner_is_added_and_the_old_one_taken_away() -> None:
    server = MemoryServer()
    admin = await root(server)
    await ledgers.create(
        await owner_of(server, INGEST), owning.metadata(INGEST), ledger_id=LedgerId(1)
    )
    path, fresh = ledgers.path(admin, LedgerId(1)), opened(server, "ingest:a newer one")
    assert await secured(admin, owning.renamed(IDENTITIES, ingest="ingest:a newer one")) > 0
    assert await owning.is_read_by(fresh, path)
    assert await owning.is_read_by(opened(server, SECRETS[INGEST]), path)
    lines = "\n".join(
        f"{role} {one}" for role, several in roles.IDENTITIES.roles.items() for one in several
    )
    newer = identities.of_secret(b"ingest:a newer one")
    assert await secured(admin, identities.parse_lines(f"{lines}\n{INGEST} {newer}")) > 0
    assert await owning.is_read_by(fresh, path)
    with pytest.raises(errors.UnauthorizedError, match="without a role"):
        await opened(server, SECRETS[INGEST]).get(path)


async def test_a_process_that_hears_of_an_owner_only_now_makes_no_ledger_for_it() -> None:
    server = MemoryServer()
    admin = await roles.guarded_root(roles.opened(server, StoreRole.ADMIN), INSTANCE)
    client = await clusters.open_cluster(roles.opened(server, StoreRole.CLIENT))
    await ledgers.create(client, owning.metadata(INGEST), ledger_id=LedgerId(1))
    await secured(admin, IDENTITIES)
    with pytest.raises(errors.UnauthorizedError, match="it could not close the ledger"):
        await ledgers.create(client, owning.metadata(INGEST), ledger_id=LedgerId(2))
    await ledgers.create(client, owning.metadata(None), ledger_id=LedgerId(3))


@pytest.mark.parametrize(
    ("role", "is_refused"),
    [
        (StoreRole.ADMIN, False),
        (StoreRole.AUTORECOVERY, False),
        (StoreRole.OPERATOR, True),
        (StoreRole.CLIENT, True),
        (None, True),
    ],
)
def test_only_who_may_write_a_ledger_makes_it(role: StoreRole | None, is_refused: bool) -> None:
    mine = () if role is None else (roles.of(role),)
    guard = NodeGuard(root="/ledgers", mine=mine, identities=IDENTITIES)
    owned = Create(path=PATH, value=ledger_format.render(owning.metadata(INGEST)))
    elsewhere = Create(path="/ledgers.zonekeeper/writers/w", value=owned.value)
    assert guard.shut_out([elsewhere, Delete(path=PATH, version=0)]) is None
    found = guard.shut_out([elsewhere, owned])
    assert (found is not None) is is_refused
    assert found is None or (found[0] == PATH and INGEST in found[1])


def test_a_process_that_has_not_heard_of_identities_says_what_may_be() -> None:
    for guard in (
        NodeGuard(root="/ledgers", mine=(roles.of(StoreRole.CLIENT),)),
        NodeGuard(root="/ledgers", mine=(roles.of(StoreRole.CLIENT),), identities=IDENTITIES),
    ):
        assert "is that owner's alone" in guard.explain(PATH, NodeUse.READ)
        assert "owner's" not in guard.explain("/ledgers.zonekeeper/policy", NodeUse.WRITE)
    known = NodeGuard(root="/ledgers", mine=(), identities=roles.IDENTITIES)
    assert "owner's" not in known.explain(PATH, NodeUse.READ)
    monitor = NodeGuard(root="/ledgers", mine=(roles.of(StoreRole.MONITOR),), identities=IDENTITIES)
    assert "owner's" not in monitor.explain(PATH, NodeUse.READ), "its role is what it lacks"


# ── the node and the file ──


def test_a_line_of_an_owner_is_one_of_a_client_too() -> None:
    one, other = IDENTITIES.owners[INGEST][0], roles.of(StoreRole.CLIENT)
    admin = roles.of(StoreRole.ADMIN)
    found = identities.parse_lines(f"admin {admin}\nclient {other}\n{INGEST} {one}\n{INGEST} {one}")
    assert found.roles[StoreRole.CLIENT] == (other, one)
    assert found.owners == {INGEST: (one,)}
    assert identities.parse(identities.render(found, INSTANCE)) == found


@pytest.mark.parametrize(
    "word", ["client/", "admin/me", "client/a b", "/x", "client/é", "client//"]
)
def test_what_is_no_owner_is_refused_with_its_line(word: str) -> None:
    with pytest.raises(BadIdentityError, match=r"^line 1: "):
        identities.parse_lines(f"{word} x509:CN=a\nadmin x509:CN=b")


def test_a_node_without_owners_is_written_as_before() -> None:
    raw = json.loads(identities.render(roles.IDENTITIES, INSTANCE))
    assert "owners" not in raw


def test_an_owner_whom_an_older_release_left_out_of_the_clients_has_no_identity() -> None:
    raw = json.loads(identities.render(IDENTITIES, INSTANCE))
    raw["roles"]["client"] = [str(roles.of(StoreRole.CLIENT)), str(IDENTITIES.owners[BILLING][0])]
    found = identities.parse(json.dumps(raw).encode())
    assert found.owners == {BILLING: IDENTITIES.owners[BILLING]}


@pytest.mark.parametrize("owners", [[], {"client/a": "x509:CN=a"}, {"admin/a": ["x509:CN=a"]}, 1])
def test_owners_of_a_wrong_form_are_no_answer(owners: object) -> None:
    raw = json.loads(identities.render(IDENTITIES, INSTANCE)) | {"owners": owners}
    with pytest.raises(MalformedError):
        identities.parse(json.dumps(raw).encode())


def test_the_metadata_of_the_tests_names_its_owner() -> None:
    assert ledger_format.parse(ledger_format.render(owning.metadata(INGEST))).owner == INGEST
