"""The ACLs of a tree in memory, held as ZooKeeper holds them.

A node without an entry is open to the world, so a tree that never had identities costs nothing. A
node is made and deleted by right of the node above it; it is read and written by its own. Ephemeral
nodes that go with their session ask nobody. The creator of a node gives it its ACL, and the entry
``auth`` stands for each identity that the creator has proven.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.access.guard import OPEN_ACL, Acl, AclEntry
from zonekeeper.metadata.access.guarded import NodeAcl
from zonekeeper.metadata.access.identities import WORLD, StoreIdentity
from zonekeeper.metadata.access.node_rights import NodePermission, NodeUse
from zonekeeper.metadata.store.store import Check, Create, Delete, Put, Write, Written, parent_of

_OPEN: Final = NodeAcl(entries=OPEN_ACL, version=0)
_AUTH: Final = "auth"

#: The write that each use is, and the permission that it asks for; of the node above if it is true.
_ASKED: Final[Mapping[type[Write], tuple[NodeUse, NodePermission, bool]]] = {
    Create: (NodeUse.MAKE, NodePermission.CREATE, True),
    Put: (NodeUse.WRITE, NodePermission.WRITE, False),
    Delete: (NodeUse.DELETE, NodePermission.DELETE, True),
    Check: (NodeUse.READ, NodePermission.READ, False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCaller:
    """A caller: the identities that it has proven, and the ACL of each node that it makes."""

    mine: tuple[StoreIdentity, ...]
    acl: Callable[[str, bytes], Acl]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRefusal:
    """The first write of a transaction that an ACL forbids."""

    path: str
    use: NodeUse


@dataclass(slots=True)
class AclBook:
    """The ACLs of all nodes that are not open."""

    _entries: dict[str, NodeAcl] = field(default_factory=dict)

    def of(self, path: str) -> NodeAcl:
        """Give the ACL of a node that is there."""
        return self._entries.get(path, _OPEN)

    def replace(self, path: str, acl: Acl) -> None:
        """Set the ACL of a node that is there; its version counts on."""
        self._entries[path] = NodeAcl(entries=acl, version=self.of(path).version + 1)

    def allows(self, path: str, permission: NodePermission, mine: Iterable[StoreIdentity]) -> bool:
        """May one of these identities do this to a node?"""
        return _allows(self.of(path).entries, permission, mine)

    def refused(self, writes: Sequence[Write], caller: NodeCaller) -> AclRefusal | None:
        """Find the first write that is forbidden; a node may stand on one of the same writes."""
        if not self._entries:
            return None
        made: dict[str, Acl] = {}
        for write in writes:
            use, permission, is_above = _ASKED[type(write)]
            place = parent_of(write.path) if is_above else write.path
            acl = made.get(place, self.of(place).entries)
            if not _allows(acl, permission, caller.mine):
                return AclRefusal(path=write.path, use=use)
            if isinstance(write, Create):
                made[write.path] = caller.acl(write.path, write.value)
        return None

    def note(self, writes: Sequence[Write], written: Sequence[Written], caller: NodeCaller) -> None:
        """Take over a transaction that was applied."""
        for write, done in zip(writes, written, strict=True):
            if isinstance(write, Delete):
                self._entries.pop(write.path, None)
            elif isinstance(write, Create):
                acl = _proven(caller.acl(write.path, write.value), caller.mine)
                if acl != OPEN_ACL:
                    self._entries[done.path] = NodeAcl(entries=acl, version=0)


def _proven(acl: Acl, mine: Sequence[StoreIdentity]) -> Acl:
    """Put the creator's identities in place of ``auth``."""
    found = [
        AclEntry(one, entry.permissions)
        for entry in acl
        for one in (mine if entry.identity.scheme == _AUTH else (entry.identity,))
    ]
    return tuple(sorted(found))


def _allows(acl: Acl, permission: NodePermission, mine: Iterable[StoreIdentity]) -> bool:
    held = {WORLD, *mine}
    return any(permission in entry.permissions for entry in acl if entry.identity in held)
