"""A store with ACLs: what ``metadata secure`` needs of it, beside the tree."""

import abc
from dataclasses import dataclass

from zonekeeper.metadata.access.guard import Acl, NodeGuard
from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.store.store import MetadataStore


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAcl:
    """A node's ACL as it was read, and the version that counts its changes."""

    entries: Acl
    version: int


class GuardedStore(MetadataStore):
    """A store that gives each node an ACL."""

    @property
    @abc.abstractmethod
    def guard(self) -> NodeGuard:
        """The guard of this process, as it is now."""

    @abc.abstractmethod
    def assume(self, identities: Identities | None) -> None:
        """Give nodes the ACLs of these identities as long as the root says none."""

    @abc.abstractmethod
    async def acl(self, path: str) -> NodeAcl | None:
        """Read a node's ACL; None: there is no such node. Raises ``UnauthorizedError``."""

    @abc.abstractmethod
    async def set_acl(self, path: str, entries: Acl, *, version: int) -> None:
        """Replace the ACL that is at ``version``. Raises ``NoNodeError``, ``UnauthorizedError`` or
        ``VersionConflictError``.
        """
