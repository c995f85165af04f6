"""Each role with an identity of its own, for stores that are held to ACLs."""

from typing import Final

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.identities import Identities, StoreIdentity
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.saving import securing
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer


def secret(role: StoreRole) -> str:
    """Give what an ``auth-file`` of this role holds."""
    return f"{role}:the {role}'s password"


def of(role: StoreRole) -> StoreIdentity:
    return identities.of_secret(secret(role).encode())


IDENTITIES: Final = Identities(roles={role: (of(role),) for role in StoreRole})


async def guarded_root(store: MetadataStore, instance: str) -> Cluster:
    """Make a root with an identity for each role; the store is an admin's or the operator's."""
    also = await securing.beginning(store, Root(store.root), IDENTITIES, instance)
    return await clusters.initialise(store, instance, also=also)


def opened(server: MemoryServer, role: StoreRole, root: str = "/ledgers") -> MemoryStore:
    """Open a store in memory for a role."""
    return MemoryStore(server, root=root, mine=(of(role),))
