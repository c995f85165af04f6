"""A guard: the ACL that a process gives each node, and what it says of a refusal. Pure.

With identities the ACL follows from the node's kind alone (``node_rights``), so two processes give
a node the same ACL, and a node that has another one is told from its path. Without them every node
gets the ACL that the store's address asks for: for its creator, or for the world.

A ledger whose owner has identities of its own is that owner's: no other client may even read its
node. That follows from what the node says, which never changes its owner.

One thing is not the same for all: a bookie with an identity of its own gives a node that is its own
(its cookie, its registration) to that identity, in place of all bookies. ``fits`` knows that form.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from zonekeeper.metadata.access import node_rights
from zonekeeper.metadata.access.identities import WORLD, Identities, StoreIdentity
from zonekeeper.metadata.access.node_rights import (
    EVERYTHING,
    OWN_TREE,
    NodeKind,
    NodePermission,
    NodeUse,
    StoreRole,
)
from zonekeeper.metadata.formats import ledger_format
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.store import Create, Write


@dataclass(frozen=True, slots=True, order=True)
class AclEntry:
    """What one identity may do with a node."""

    identity: StoreIdentity
    permissions: NodePermission

    def __str__(self) -> str:
        return f"{self.identity.shown}:{letters(self.permissions)}"


Acl: TypeAlias = tuple[AclEntry, ...]

#: Each identity that the creator of the node has proven.
CREATOR_ACL: Final[Acl] = (AclEntry(StoreIdentity("auth", ""), EVERYTHING),)
OPEN_ACL: Final[Acl] = (AclEntry(WORLD, EVERYTHING),)

#: What its own identity may do with a bookie's node.
_OWN_PERMISSIONS: Final = NodePermission.READ | NodePermission.WRITE


def letters(permissions: NodePermission) -> str:
    """Write permissions as ZooKeeper's shell does."""
    return "".join(letter for letter, bit in zip("rwcda", NodePermission, strict=False)
                   if bit in permissions)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGuard:
    """What a process knows of identities, at one moment."""

    #: The cluster's root in the store.
    root: str
    #: The identities that this process proves to the store.
    mine: tuple[StoreIdentity, ...] = ()
    #: None: the root has none, or this process may not read them.
    identities: Identities | None = None
    #: The ACL of a node while there are no identities, and of one outside of the cluster.
    otherwise: Acl = OPEN_ACL

    def knowing(self, identities: Identities | None) -> "NodeGuard":
        """Give the same guard with other identities."""
        return replace(self, identities=identities)

    def kind_of(self, path: str) -> NodeKind | None:
        """Give the kind of a node; None: it is no node of this cluster that has one."""
        suffix = path.removeprefix(self.root)
        return None if suffix == path else node_rights.kind_of(suffix)

    def acl(self, path: str, value: bytes) -> Acl:
        """Give the ACL of a node that this process makes with a value."""
        if self.identities is None or not _is_below(path, self.root):
            return self.otherwise
        own = tuple(one for one in self.mine if one.is_own)
        return self._acl(path, own, self._owner(value) if self.has_owner(path) else None)

    def has_owner(self, path: str) -> bool:
        """Does the ACL of a node follow from what it says, too?"""
        return self.identities is not None and self._may_be_another_owners(self.kind_of(path))

    def _may_be_another_owners(self, kind: NodeKind | None) -> bool:
        """Is it a ledger, and do owners have identities, or is that not known?"""
        has_owners = self.identities is None or bool(self.identities.owners)
        return has_owners and kind is not None and kind.name == node_rights.LEDGER

    def shut_out(self, writes: Iterable[Write]) -> tuple[str, str] | None:
        """Find a ledger that this process is about to make and could not write, and say why.

        A writer that cannot close its ledger must not begin.
        """
        made = (write for write in writes if isinstance(write, Create))
        found = ((write.path, self._shuts_out(write.path, write.value)) for write in made)
        return next(((path, why) for path, why in found if why is not None), None)

    def _shuts_out(self, path: str, value: bytes) -> str | None:
        if not self.has_owner(path) or self.identities is None:
            return None
        may = (one for one in self.acl(path, value) if NodePermission.WRITE in one.permissions)
        if not {one.identity for one in may}.isdisjoint(self.mine):
            return None
        who = ", ".join(one.shown for one in self.mine) or "it shows no identity"
        return (
            f"the owner {self._owner(value)} has identities of its own in the store, and this "
            f"process shows none of them ({who}): it could not close the ledger"
        )

    def fits(self, path: str, acl: Iterable[AclEntry], value: bytes = b"") -> bool:
        """Has a node the ACL that it should have? One of a bookie's own may name that bookie."""
        acl = frozenset(acl)
        return acl == frozenset(self.wanted(path, acl, value))

    def wanted(self, path: str, acl: Iterable[AclEntry], value: bytes = b"") -> Acl:
        """Give the ACL that a node should have which has ``acl`` now; ``value``: what it says.

        A ledger that cannot be read stays with the owner that its ACL names.
        """
        if self.identities is None:
            return self.otherwise
        acl = frozenset(acl)
        own = tuple(
            sorted(one.identity for one in acl if one.identity.is_own
                   and one.permissions == _OWN_PERMISSIONS)
        )  # fmt: skip
        if not self.has_owner(path):
            return self._acl(path, own, None)
        try:
            return self._acl(path, own, _owner_of(value))
        except UnreadableError:
            owned = (self._acl(path, own, owner) for owner in self.identities.owners)
            return next((one for one in owned if frozenset(one) == acl), self._acl(path, own, None))

    def _owner(self, value: bytes) -> str | None:
        try:
            return _owner_of(value)
        except UnreadableError:
            return None

    def _acl(self, path: str, own: tuple[StoreIdentity, ...], owner: str | None) -> Acl:
        assert self.identities is not None, "an ACL follows from identities"
        kind = self.kind_of(path)
        owners = self.identities.owners.get(owner, ()) if owner is not None else ()
        belongs = kind is not None and kind.is_own and bool(own)
        granted: dict[StoreIdentity, NodePermission] = {}
        for role in StoreRole:
            bits = node_rights.permissions(kind, role)
            if belongs and role is StoreRole.BOOKIE:
                bits &= ~NodePermission.WRITE
            is_owners = bool(owners) and role is StoreRole.CLIENT
            for one in owners if is_owners else self.identities.roles.get(role, ()):
                granted[one] = granted.get(one, NodePermission.NONE) | bits
        if belongs:
            granted |= dict.fromkeys(own, _OWN_PERMISSIONS)
        return tuple(AclEntry(one, bits) for one, bits in sorted(granted.items()) if bits)

    def explain(self, path: str, use: NodeUse) -> str:
        """Say why the store refused this: the node's kind, the roles that may, and ours."""
        kind = self.kind_of(path)
        may = (StoreRole.ADMIN,) if kind is None else kind.roles_for(use)
        what = "a node" if kind is None else f"a node of the kind {kind.name!r}"
        who = ", ".join(one.shown for one in self.mine) or "nobody: it shows no identity"
        held = () if self.identities is None else self.identities.roles_of(self.mine)
        if held:
            who += f", with the role {' and '.join(held)}"
        elif self.identities is not None:
            who += ", without a role"
        needs = f"to {use} {what} needs the role {' or '.join(may)}"
        if self._may_be_another_owners(kind) and (set(held) & set(may) or not held):
            needs += ", and a ledger whose owner has identities of its own is that owner's alone"
        elif set(held) & set(may):
            needs += ", which it has: the ACL of the node or of the one above is another one, and "
            needs += "`zonekeeper metadata secure` sets it right"
        return f"the store does not allow it: {needs}. This process is {who}"


def _owner_of(value: bytes) -> str | None:
    """Give the owner that a ledger's metadata names; raises ``UnreadableError``."""
    return ledger_format.parse(value).owner or None


def _is_below(path: str, root: str) -> bool:
    """Is it a node of this cluster: the root, our own tree, or below one of them?"""
    own = f"{root}{OWN_TREE}"
    return any(path == top or path.startswith(f"{top}/") for top in (root, own))
