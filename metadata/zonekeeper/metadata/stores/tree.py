"""The rules of the tree: which writes are allowed, and what they change.

This module is pure. The stores that keep the tree themselves (memory and SQLite) share it, so that
both obey the same rules: those of ZooKeeper. ``plan`` reads nodes through a function, and gives the
nodes as they will be. It changes nothing itself, and a refused transaction changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import (
    Check,
    Create,
    Delete,
    Put,
    SessionId,
    Versioned,
    Write,
    Written,
    parent_of,
)

_SEQUENCE_DIGITS: Final = 10
_SEQUENCE_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the store keeps it."""

    value: bytes = b""
    version: int = 0
    created_id: int = 0
    modified_id: int = 0
    owner: SessionId | None = None
    child_count: int = 0
    #: The number of children that were ever created: the number of the next sequential child.
    children_made: int = 0
    #: The id of the change that last added or removed a child.
    children_id: int = 0

    def seen(self) -> Versioned:
        """Give the node as a reader gets it."""
        return Versioned(
            value=self.value,
            version=self.version,
            created_id=self.created_id,
            modified_id=self.modified_id,
            owner=self.owner,
            children_made=self.children_made,
        )


#: The top of every tree, which always exists.
TOP: Final = Node()

ReadNode: TypeAlias = Callable[[str], Node | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan:
    """The effect of a transaction."""

    #: Each node that the transaction changes, as it will be; None if deleted.
    changes: Mapping[str, Node | None]
    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRequest:
    """The caller of a transaction, and the id that its change will have."""

    change_id: int
    session: SessionId
    #: For the messages of errors.
    store: str


def plan(writes: Sequence[Write], read: ReadNode, request: TransactionRequest) -> TransactionPlan:
    """Plan a transaction; raises the error of the first write that is not allowed."""
    draft = _Draft(read, request)
    written = tuple(draft.apply(write) for write in writes)
    return TransactionPlan(changes=draft.changes, written=written)


def sequential_path(prefix: str, number: int) -> str:
    """Append a child's number as ZooKeeper does: ten digits, wrapping around to negative ones."""
    wrapped = (number + _SEQUENCE_MAX + 1) % (2 * (_SEQUENCE_MAX + 1)) - (_SEQUENCE_MAX + 1)
    return f"{prefix}{wrapped:0{_SEQUENCE_DIGITS}d}"


class _Draft:
    """A transaction being planned: the nodes as the writes so far would leave them."""

    def __init__(self, read: ReadNode, request: TransactionRequest) -> None:
        self.changes: dict[str, Node | None] = {}
        self._read = read
        self._request = request

    def apply(self, write: Write) -> Written:
        match write:
            case Create():
                return self._create(write)
            case Put():
                node = self._at_version(write.path, write.version)
                version = node.version + 1
                self.changes[write.path] = replace(
                    node,
                    value=write.value,
                    version=version,
                    modified_id=self._request.change_id,
                )
                return Written(path=write.path, version=version)
            case Delete():
                self._delete(write)
                return Written(path=write.path, version=None)
            case Check():
                self._at_version(write.path, write.version)
                return Written(path=write.path, version=write.version)
            case _:
                assert_never(write)

    def _create(self, write: Create) -> Written:
        request = self._request
        above = parent_of(write.path)
        parent = self._node(above)
        if parent is None:
            raise errors.NoNodeError("its parent is absent", store=request.store, path=write.path)
        if parent.owner is not None:
            raise errors.BadPathError(
                "its parent is ephemeral", store=request.store, path=write.path
            )
        path = write.path
        if write.sequential:
            path = sequential_path(path, parent.children_made)
        if self._node(path) is not None:
            raise errors.NodeExistsError("is there already", store=request.store, path=path)
        self.changes[path] = Node(
            value=write.value,
            created_id=request.change_id,
            modified_id=request.change_id,
            owner=request.session if write.ephemeral else None,
        )
        self.changes[above] = replace(
            parent,
            child_count=parent.child_count + 1,
            children_made=parent.children_made + 1,
            children_id=request.change_id,
        )
        return Written(path=path, version=0)

    def _delete(self, write: Delete) -> None:
        request = self._request
        if write.path == "/":
            raise errors.BadPathError("the top stays", store=request.store, path=write.path)
        node = self._at_version(write.path, write.version)
        if node.child_count:
            raise errors.NotEmptyError(
                f"it has {node.child_count} children", store=request.store, path=write.path
            )
        above = parent_of(write.path)
        parent = self._node(above)
        assert parent is not None, f"{write.path} stands on nothing"
        self.changes[write.path] = None
        self.changes[above] = replace(
            parent, child_count=parent.child_count - 1, children_id=request.change_id
        )

    def _at_version(self, path: str, version: int | None) -> Node:
        node = self._node(path)
        if node is None:
            raise errors.NoNodeError("is absent", store=self._request.store, path=path)
        if version is not None and version != node.version:
            raise errors.VersionConflictError(
                f"is at version {node.version}, not {version}",
                store=self._request.store,
                path=path,
            )
        return node

    def _node(self, path: str) -> Node | None:
        if path in self.changes:
            return self.changes[path]
        return self._read(path)
