"""The metadata store: the interface that each backend implements, a small tree of versioned nodes.

The model is ZooKeeper's, because Apache BookKeeper's nodes must be real nodes there. A node has an
absolute path, a value, a version that counts its writes, and children. Ephemeral nodes live as long
as the session that made them. The store numbers the names of sequential nodes. Paths are absolute
in the whole store. The root of a cluster (``root``) is a name taken from the store's address, and
not a prefix of paths: our own nodes are beside the root, not in it.

These rules hold in every store (one contract suite shows it):

- A write is atomic, and linearizable with all other writes. It either names the version that it
  replaces or creates the node, so no update is ever lost. An answer is yes, no (an error without
  ``maybe_applied``), or unknown (an error with it).
- A read shows a state that really existed. It may be behind the writes of other sessions. It is
  never behind the writes of its own session, nor behind a state that this store object has shown.
  ``sync=True`` asks for a state no older than the call. In ZooKeeper that is only as good as its
  ``sync``: a deposed leader that does not know it yet can still answer. A decision that must not be
  wrong is made by a write.
- The store repeats a read without an answer until its time is up. It never repeats a write; the
  caller gets "unknown" (``update`` resolves it). Each call has a time limit.
- A watch gives the present state and then newer ones. It may skip states in between. It never goes
  back, and never misses the last state. While the store is out of reach a watch is silent: the age
  of the last state is then unknown, and ``session`` says so.
- When a session is lost the store opens a new one by itself. A write with ``session=`` is refused
  with ``SessionLostError``, and not applied, unless that very session still lives. So a holder of
  an ephemeral node can make its writes depend on holding it.

This does not hold: a version says nothing across a deletion. A node that is deleted and created
again starts at version 0; its ``created_id`` is another one.
"""

import abc
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, NewType, TypeAlias

from zonekeeper.metadata.store.errors import (
    BadPathError,
    NodeExistsError,
    NoNodeError,
    StoreError,
    TooLargeError,
)

#: A session's number, unique in its store for ever.
SessionId = NewType("SessionId", int)

#: ZooKeeper takes packets of up to 1 MiB (``jute.maxbuffer``), including paths and framing. It cuts
#: the connection of a client that sends a larger packet. So a node's value stays well under that,
VALUE_SIZE_BYTES_MAX: Final = 1_000_000

#: and so does a whole transaction: values, paths, and the framing and ACL of each write.
COMMIT_SIZE_BYTES_MAX: Final = 1_040_000
_WRITE_FRAMING_BYTES: Final = 128

#: A transaction of more writes than this is a mistake: it delays all other clients.
COMMIT_WRITES_MAX: Final = 1_000

PATH_LENGTH_MAX: Final = 1_024

#: Other clients may prune empty parents while we create a node; this often is no coincidence.
_PARENT_ATTEMPTS_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """A node as it was read."""

    value: bytes
    #: 0 when created, and one more with each write; ``put`` and ``delete`` compare with it.
    version: int
    #: Numbers that grow over all changes of a store: of the node's creation, and of its last write.
    created_id: int
    modified_id: int
    #: The session of an ephemeral node; None for a node that stays.
    owner: SessionId | None = None
    #: How many children were ever created: the number of the next sequential one. A watch does not
    #: hear of it, and two states that differ in it alone are equal.
    children_made: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The present knowledge of the store's session."""

    #: None if the last session is lost and there is no new one yet.
    id: SessionId | None
    #: False if the store is out of reach. Then it is unknown whether the session still lives.
    connected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create a node; its parent must exist. ``sequential``: the store appends ten digits."""

    path: str
    value: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Replace the value of a node that is at ``version``."""

    path: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a node without children, at ``version``; None for any version."""

    path: str
    version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Let the transaction pass only if the node exists, and is at ``version`` (None: any)."""

    path: str
    version: int | None


Write: TypeAlias = Create | Put | Delete | Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of one write of a transaction."""

    #: The path of the node; that of a sequential node has its number.
    path: str
    #: The node's version now; None if it was deleted, or was checked at any version.
    version: int | None


class MetadataStore(abc.ABC):
    """A tree of versioned nodes. For all tasks of the event loop that opened it."""

    #: For people: which store this is, without credentials.
    name: str
    #: The cluster's root in this store, such as ``/ledgers``. The node need not exist.
    root: str
    #: The time after which a silent session ends, as the store granted it; we may have asked for
    #: more. Another server of the store may grant the next session another time.
    session_timeout_ms: int

    @property
    @abc.abstractmethod
    def session(self) -> Session:
        """The session as it is known now; no server is asked."""

    @abc.abstractmethod
    def watch_session(self) -> AbstractAsyncContextManager[AsyncIterator[Session]]:
        """Follow the session. With a new id, everything that the last session held is gone.

        The end of a session may be seen late (a client that is cut off cannot know), never early.
        """

    @abc.abstractmethod
    async def close(self) -> None:
        """End the session and its ephemeral nodes at once. A second call does nothing."""

    async def get(self, path: str, *, sync: bool = False) -> Versioned | None:
        """Read a node; None if there is none."""
        check_path(path, store=self.name)
        return await self._get(path, sync=sync)

    async def children(self, path: str, *, sync: bool = False) -> tuple[str, ...] | None:
        """Give the sorted names of a node's children; None if there is no such node."""
        check_path(path, store=self.name)
        return await self._children(path, sync=sync)

    async def commit(
        self, writes: Sequence[Write], *, session: SessionId | None = None
    ) -> tuple[Written, ...]:
        """Apply all writes in order, or none; the error is that of the first refused write."""
        check_writes(writes, store=self.name)
        return await self._commit(writes, session=session) if writes else ()

    def watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[Versioned | None]]:
        """Follow a node: give its present state, then each newer one (None: absent)."""
        check_path(path, store=self.name)
        return self._watch(path)

    def watch_children(
        self, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, ...] | None]]:
        """Follow the names of a node's children (None: there is no such node)."""
        check_path(path, store=self.name)
        return self._watch_children(path)

    async def exists(self, path: str, *, sync: bool = False) -> bool:
        """Is there such a node?"""
        return await self.get(path, sync=sync) is not None

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
        session: SessionId | None = None,
    ) -> str:
        """Create a node and give its path (for a sequential node, with its number).

        ``make_parents`` first creates the missing nodes above it, empty and lasting. If the node
        itself is then refused, these parents may be left behind.
        """
        write = Create(path=path, value=value, ephemeral=ephemeral, sequential=sequential)
        for _ in range(_PARENT_ATTEMPTS_MAX):
            try:
                (written,) = await self.commit([write], session=session)
            except NoNodeError:
                if not make_parents:
                    raise
                await self._make_parents(path)
            else:
                return written.path
        raise NoNodeError(
            "its parents vanish as often as they are made", store=self.name, path=path
        )

    async def put(
        self, path: str, value: bytes, *, version: int, session: SessionId | None = None
    ) -> int:
        """Replace the value of a node at ``version``; give the new version."""
        await self.commit([Put(path=path, value=value, version=version)], session=session)
        return version + 1

    async def delete(
        self, path: str, *, version: int | None, session: SessionId | None = None
    ) -> None:
        """Delete a node without children, at ``version`` (None: any)."""
        await self.commit([Delete(path=path, version=version)], session=session)

    # A store implements these; paths and sizes were checked before.

    @abc.abstractmethod
    async def _get(self, path: str, *, sync: bool) -> Versioned | None: ...

    @abc.abstractmethod
    async def _children(self, path: str, *, sync: bool) -> tuple[str, ...] | None: ...

    @abc.abstractmethod
    async def _commit(
        self, writes: Sequence[Write], *, session: SessionId | None
    ) -> tuple[Written, ...]: ...

    @abc.abstractmethod
    def _watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[Versioned | None]]: ...

    @abc.abstractmethod
    def _watch_children(
        self, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, ...] | None]]: ...

    async def _make_parents(self, path: str) -> None:
        missing = []
        parent = parent_of(path)
        while parent != "/" and not await self.exists(parent, sync=True):
            missing.append(parent)
            parent = parent_of(parent)
        for parent in reversed(missing):
            try:
                await self.commit([Create(path=parent)])
            except (NodeExistsError, NoNodeError):
                continue  # made, or pruned, by another client meanwhile: the caller tries again
            except StoreError as error:
                if not error.maybe_applied:
                    raise
                # It is unknown whether this parent was made; but the node itself was not, and the
                # next round looks again.


def parent_of(path: str) -> str:
    """Give the path of the node above; for the root, the root itself."""
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """Give the last part of a path."""
    return path.rpartition("/")[2]


def check_path(path: str, *, store: str) -> None:
    """Refuse a path other than ``/`` or a chain of plain names: each node has one spelling."""
    if path == "/":
        return
    if not path.startswith("/"):
        raise BadPathError("a path starts with '/'", store=store, path=path)
    if len(path) > PATH_LENGTH_MAX:
        raise BadPathError(f"longer than {PATH_LENGTH_MAX} characters", store=store, path=path)
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            raise BadPathError("has an empty, '.' or '..' part", store=store, path=path)
        if not part.isprintable():
            raise BadPathError("has characters that cannot be printed", store=store, path=path)


def check_writes(writes: Sequence[Write], *, store: str, also_bytes: int = 0) -> None:
    """Refuse, before anything is sent, writes that no store accepts.

    ``also_bytes``: what a store sends with them, beside what every store sends.
    """
    if len(writes) > COMMIT_WRITES_MAX:
        raise TooLargeError(f"{len(writes)} writes; at most {COMMIT_WRITES_MAX}", store=store)
    size_bytes = also_bytes
    for write in writes:
        check_path(write.path, store=store)
        size_bytes += len(write.path.encode()) + _WRITE_FRAMING_BYTES
        if isinstance(write, Create | Put):
            _check_size(len(write.value), VALUE_SIZE_BYTES_MAX, "a value", store, write.path)
            size_bytes += len(write.value)
        if not isinstance(write, Create):
            # To ZooKeeper a negative version would mean "any version".
            assert write.version is None or write.version >= 0, f"{write} was never read"
        _check_size(size_bytes, COMMIT_SIZE_BYTES_MAX, "a transaction", store, write.path)


def _check_size(size_bytes: int, max_bytes: int, what: str, store: str, path: str) -> None:
    if size_bytes > max_bytes:
        raise TooLargeError(
            f"{what} of {size_bytes} bytes or more; at most {max_bytes}", store=store, path=path
        )
