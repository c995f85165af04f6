"""The twin with ACLs: each role tried against each kind of node, in memory."""

import asyncio
from functools import partial

import pytest

from tests.metadata.access import trying
from tests.support import roles
from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.identities import OWN_PREFIX
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer


@pytest.mark.parametrize("role", StoreRole)
async def test_a_role_may_do_what_the_table_says(role: StoreRole) -> None:
    server = MemoryServer()
    await trying.build(roles.opened(server, StoreRole.ADMIN))
    assert await trying.wrong(roles.opened(server, role), role) == []


async def test_without_an_identity_nothing_is_let_in() -> None:
    server = MemoryServer()
    await trying.build(roles.opened(server, StoreRole.ADMIN))
    stranger = MemoryStore(server)
    for name, suffix in trying.SAMPLES.items():
        with pytest.raises(errors.UnauthorizedError, match="it shows no identity"):
            await stranger.get(stranger.root + suffix)
        assert name


async def test_a_refusal_names_the_node_the_roles_and_ours() -> None:
    server = MemoryServer()
    await trying.build(roles.opened(server, StoreRole.ADMIN))
    client = roles.opened(server, StoreRole.CLIENT)
    with pytest.raises(errors.UnauthorizedError) as refused:
        await client.put("/ledgers.zonekeeper/policy", b"", version=0)
    told = str(refused.value)
    assert "/ledgers.zonekeeper/policy" in told
    assert "to write a node of the kind 'policy' needs the role operator or admin" in told
    assert "This process is digest:client, with the role client" in told
    assert roles.of(StoreRole.CLIENT).name not in told, "no hash is shown"
    assert not refused.value.retryable
    assert not refused.value.maybe_applied


async def test_the_nodes_of_a_session_go_with_it_whatever_its_role_may() -> None:
    server = MemoryServer()
    await trying.build(roles.opened(server, StoreRole.ADMIN))
    bookie = roles.opened(server, StoreRole.BOOKIE)
    await bookie.create("/ledgers/available/b-0", ephemeral=True)
    await bookie.close()
    assert not await roles.opened(server, StoreRole.ADMIN).exists("/ledgers/available/b-0")


async def test_a_watch_of_a_forbidden_node_ends_with_the_refusal() -> None:
    server = MemoryServer()
    await trying.build(roles.opened(server, StoreRole.ADMIN))
    monitor = roles.opened(server, StoreRole.MONITOR)
    async with monitor.watch("/ledgers/00/0000/L0001") as states:
        with pytest.raises(errors.UnauthorizedError, match="kind 'ledger'"):
            await asyncio.wait_for(anext(states), 5)


async def test_a_node_made_with_its_parents_gets_the_acl_of_its_kind() -> None:
    server = MemoryServer()
    admin = roles.opened(server, StoreRole.ADMIN)
    await trying.build(admin)
    client = roles.opened(server, StoreRole.CLIENT)
    await client.create("/ledgers/07/1234/L0001", make_parents=True)
    for path in ("/ledgers/07", "/ledgers/07/1234", "/ledgers/07/1234/L0001"):
        found = await admin.acl(path)
        assert found is not None
        assert admin.guard.fits(path, found.entries)
    opened = partial(roles.opened, server)
    assert await opened(StoreRole.BOOKIE).get("/ledgers/07/1234/L0001") is not None


async def test_a_bookie_with_an_identity_of_its_own_owns_its_cookie() -> None:
    server = MemoryServer()
    await trying.build(roles.opened(server, StoreRole.ADMIN))
    role = roles.of(StoreRole.BOOKIE)
    own = [identities.of_secret(f"{OWN_PREFIX}{n}:password".encode()) for n in range(2)]
    one, other = (MemoryStore(server, mine=(role, each)) for each in own)
    await one.create("/ledgers/cookies/b-0", b"one")
    await one.create("/ledgers.zonekeeper/collecting/b-0")
    assert await one.put("/ledgers/cookies/b-0", b"two", version=0) == 1
    for stranger in (other, roles.opened(server, StoreRole.BOOKIE)):
        assert await stranger.get("/ledgers/cookies/b-0") is not None
        with pytest.raises(errors.UnauthorizedError, match="kind 'cookie'"):
            await stranger.put("/ledgers/cookies/b-0", b"three", version=1)
        # A node that is not a bookie's own is every bookie's.
        assert await stranger.get("/ledgers.zonekeeper/collecting/b-0") is not None
    await other.put("/ledgers.zonekeeper/collecting/b-0", b"", version=0)
