"""Trying each role against each kind of node, in any store that has ACLs."""

from typing import Final

from tests.support import roles
from zonekeeper.metadata.access import node_rights
from zonekeeper.metadata.access.node_rights import NodeKind, NodePermission, NodeUse, StoreRole
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import Create, Delete, MetadataStore, Put, parent_of

INSTANCE: Final = "4f1c9c1e-3f0a-4be1-9d0c-5f6d2b6f7a10"

#: One node of each kind, by its path behind the root's.
SAMPLES: Final = {
    "root": "",
    "fact": "/LAYOUT",
    "cookies": "/cookies",
    "cookie": "/cookies/a-0",
    "registrations": "/available",
    "registration": "/available/a-0",
    "counters": "/idgen-long",
    "counter": "/idgen-long/HOB-0000000001",
    "id": "/idgen-long/HOB-0000000001/ID-0000000000",
    "ledger-area": "/00",
    "ledger-directory": "/00/0000",
    "ledger": "/00/0000/L0001",
    "repair": "/underreplication",
    "switch": "/underreplication/disable",
    "marks": "/underreplication/ledgers",
    "mark": "/underreplication/ledgers/0000",
    "locks": "/underreplication/locks",
    "lock": "/underreplication/locks/urL0000000001",
    "votes": "/underreplication/auditorelection",
    "vote": "/underreplication/auditorelection/V_0000000000",
    "repair-note": "/underreplication/lostBookieRecoveryDelay",
    "own-root": ".zonekeeper",
    "identities": ".zonekeeper/identities",
    "policy": ".zonekeeper/policy",
    "outage": ".zonekeeper/cluster",
    "set-back": ".zonekeeper/restored",
    "accepted": ".zonekeeper/accepted",
    **{
        f"{name}-directory": f".zonekeeper/{name}"
        for name in node_rights.DIRECTORIES
        if name != "log-keeper"  # of votes, as two others
    },
    "bookie-record": ".zonekeeper/bookies/a-0",
    "maintenance": ".zonekeeper/maintenance/a.0",
    "event": ".zonekeeper/timeline/e-0000000000",
    "gate": ".zonekeeper/zones/a",
    "order": ".zonekeeper/orders/a-0",
    "order-claim": ".zonekeeper/order-claims/a-0",
    "question": ".zonekeeper/collecting/a-0",
    "look": ".zonekeeper/looks/a-0",
    "presence": ".zonekeeper/writers/w",
    "deletion": ".zonekeeper/deletions/d-0000000000",
    "voucher": ".zonekeeper/vouchers/a-0.1",
    "process": ".zonekeeper/processes/1",
    "check": ".zonekeeper/checks/replicas",
    "deleted-log": ".zonekeeper/deleted-logs/aa",
    "log": ".zonekeeper/logs/orders",
    "candidate": ".zonekeeper/standby/orders",
}

#: What an ACL grants beside the rows, because ZooKeeper asks the node above: each is argued for in
#: docs/security.md.
NEIGHBOURS: Final = {
    # In the root, bookies and clients make directories.
    (StoreRole.BOOKIE, NodeUse.MAKE, "root"),
    (StoreRole.CLIENT, NodeUse.MAKE, "root"),
    # In our own tree, bookies make the mark of a restored root, autorecovery the outage's record.
    (StoreRole.BOOKIE, NodeUse.MAKE, "own-root"),
    (StoreRole.AUTORECOVERY, NodeUse.MAKE, "own-root"),
    # In the directory of repair, autorecovery makes the switch and its notes.
    (StoreRole.AUTORECOVERY, NodeUse.MAKE, "repair"),
    # The operator makes the directories of a root, and deletes everything.
    *(
        (StoreRole.OPERATOR, NodeUse.MAKE, where)
        for where in ("root", "repair", "registrations", "own-root")
    ),
    # Beside its registration a bookie can make and delete an empty directory.
    (StoreRole.BOOKIE, NodeUse.MAKE, "registrations"),
    (StoreRole.BOOKIE, NodeUse.DELETE, "registrations"),
}

#: A version that no node has: a write with it that is let in changes nothing.
_NO_VERSION: Final = 999


def kind(name: str) -> NodeKind:
    return next(each for each in node_rights.KINDS if each.name == name)


async def build(admin: MetadataStore) -> None:
    """Make a root, and in it a node of each kind that is not there yet."""
    await roles.guarded_root(admin, INSTANCE)
    for suffix in SAMPLES.values():
        if not await admin.exists(admin.root + suffix, sync=True):
            await admin.create(admin.root + suffix)


def expected(role: StoreRole, use: NodeUse, suffix: str) -> bool:
    """Does an ACL that follows from the table let this in?"""
    own = node_rights.permissions(node_rights.kind_of(suffix), role)
    if suffix in ("", ".zonekeeper"):  # the node above is not ours
        return use in (NodeUse.MAKE, NodeUse.DELETE) or _bit(use) in own
    if use in (NodeUse.MAKE, NodeUse.DELETE):
        above = suffix.rpartition("/")[0]
        return _bit(use) in node_rights.permissions(node_rights.kind_of(above), role)
    return _bit(use) in own


def _bit(use: NodeUse) -> NodePermission:
    return {
        NodeUse.READ: NodePermission.READ,
        NodeUse.WRITE: NodePermission.WRITE,
        NodeUse.MAKE: NodePermission.CREATE,
        NodeUse.DELETE: NodePermission.DELETE,
    }[use]


async def is_let_in(store: MetadataStore, use: NodeUse, suffix: str) -> bool:
    """Try one thing with a node, so that nothing changes even if it is let in."""
    path = store.root + suffix
    assert parent_of(path)
    try:
        match use:
            case NodeUse.READ:
                await store.get(path, sync=True)
            case NodeUse.WRITE:
                await store.commit([Put(path=path, value=b"", version=_NO_VERSION)])
            case NodeUse.MAKE:
                await store.commit([Create(path=path)])
            case NodeUse.DELETE:
                await store.commit([Delete(path=path, version=_NO_VERSION)])
    except errors.UnauthorizedError:
        return False
    except (errors.VersionConflictError, errors.NodeExistsError):
        return True
    return use is NodeUse.READ


async def wrong(store: MetadataStore, role: StoreRole) -> list[str]:
    """Try everything as a role; give what the store answers otherwise than the table."""
    return [
        f"{role} to {use} {name}: the table says {wanted}"
        for name, suffix in SAMPLES.items()
        for use in NodeUse
        if (await is_let_in(store, use, suffix)) is not (wanted := expected(role, use, suffix))
    ]
