"""Owners of ledgers with identities of their own: tried in any store that has ACLs."""

import dataclasses
from collections.abc import Mapping
from typing import Final

import pytest

from tests.support import roles
from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.guarded import GuardedStore
from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import OWNER_KEY, Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store import errors
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

INGEST, BILLING = "client/ingest", "client/billing"
#: What an ``auth-file`` of each owner holds.
SECRETS: Final = {INGEST: "ingest:a password", BILLING: "billing:another one"}
_OWN: Final = {owner: (identities.of_secret(secret.encode()),) for owner, secret in SECRETS.items()}
_CLIENTS: Final = (roles.of(StoreRole.CLIENT), *_OWN[INGEST], *_OWN[BILLING])
IDENTITIES: Final = Identities(
    roles={**roles.IDENTITIES.roles, StoreRole.CLIENT: _CLIENTS}, owners=_OWN
)


def metadata(owner: str | None, token: int = 7) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        fragments=(Fragment(EntryId(0), (BookieId("a-0"),)),),
        digest=Digest.HMAC,
        password=b"secret",
        create_token=token,
        custom=() if owner is None else ((OWNER_KEY, owner.encode()),),
    )


async def is_read_by(store: GuardedStore, path: str) -> bool:
    """Does the store let this process read a node, and write it?"""
    try:
        found = await store.get(path, sync=True)
    except errors.UnauthorizedError:
        await _is_told(store, path)
        return False
    assert found is not None
    await store.put(path, found.value, version=found.version)
    return True


async def _is_told(store: GuardedStore, path: str) -> None:
    with pytest.raises(errors.UnauthorizedError, match="is that owner's alone") as refused:
        await store.put(path, b"taken", version=0)
    assert not refused.value.retryable
    assert not refused.value.maybe_applied


async def try_all(
    ingest: Cluster, billing: Cluster, client: Cluster, system: Mapping[StoreRole, GuardedStore]
) -> None:
    """An owner's ledger is its own; nobody's is every client's; nobody makes one for another."""
    stores = [one.store for one in (ingest, billing, client)]
    assert all(isinstance(one, GuardedStore) for one in stores)
    named = {None: client, INGEST: ingest, BILLING: billing, "client/nameless": client}
    paths = {}
    for number, (owner, by) in enumerate(named.items()):
        made = await ledgers.create(by, metadata(owner), ledger_id=LedgerId(1000 + number))
        paths[owner] = ledgers.path(by, made.id)
    for owner, path in paths.items():
        for store, who in zip(stores, (INGEST, BILLING, None), strict=True):
            assert isinstance(store, GuardedStore)
            own = owner not in SECRETS or owner == who
            assert await is_read_by(store, path) is own, (owner, who)
        for role in (StoreRole.BOOKIE, StoreRole.AUTORECOVERY, StoreRole.OPERATOR):
            assert await system[role].get(path, sync=True) is not None
        with pytest.raises(errors.UnauthorizedError):
            await system[StoreRole.MONITOR].get(path, sync=True)
    for by in (billing, client):
        with pytest.raises(errors.UnauthorizedError, match="it could not close the ledger") as no:
            await ledgers.create(by, metadata(INGEST), ledger_id=LedgerId(2000))
        assert not no.value.retryable
        assert not no.value.maybe_applied
    assert not await client.store.exists(ledgers.path(client, LedgerId(2000)), sync=True)


def renamed(found: Identities, **owners: str) -> Identities:
    """Give the same identities with other passwords of owners, beside the old ones."""
    added = {
        f"client/{name}": identities.of_secret(secret.encode()) for name, secret in owners.items()
    }
    every = {owner: (*found.owners[owner], one) for owner, one in added.items()}
    clients = (*found.roles[StoreRole.CLIENT], *added.values())
    known = {**found.roles, StoreRole.CLIENT: clients}
    return dataclasses.replace(found, roles=known, owners={**found.owners, **every})
