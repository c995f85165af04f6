"""The metadata store: a small tree of versioned nodes, as every part of the system sees it.

The model is ZooKeeper's, because Apache BookKeeper's nodes must be real nodes there: an absolute
path, a value, a version that counts its writes, children; ephemeral nodes that live as long as the
session that made them; sequential nodes whose names the store numbers. Paths are absolute in the
whole store. The root of a cluster (``root``) is a name taken from the store's address, and not a
prefix put before paths: what is only ours stands beside the root, not in it.

What holds in every store (one contract suite shows it):

- A write is atomic, and linearizable with all other writes. It either names the version that it
  replaces or creates the node, so no update is ever lost. An answer is yes, no (an error without
  ``maybe_applied``), or unknown (an error with it).
- A read shows a state that really was. It may be behind other sessions' writes, but never behind
  this session's own writes, nor behind what this store object has shown before. ``sync=True`` asks
  for a state no older than the call. In ZooKeeper that is as good as ``sync`` is: a leader that was
  deposed and does not know it yet can still answer. What must not be wrong is decided by a write.
- A read that got no answer is repeated by the store until its time is up; a write never is, and its
  caller gets "unknown" (``update`` resolves it). Nothing hangs: each call has a time limit.
- A watch gives the present state and then newer ones. It may skip states in between, it never goes
  back, and it never misses the last one. While the store is out of reach it is silent: the last
  state given is then of unknown age, and ``session`` says so.
- The store opens a new session by itself when one is lost. A write with ``session=`` is refused
  with ``SessionLostError``, and not applied, unless that very session still lives: so what is held
  by an ephemeral node is written about only while it is held.

What does not hold: a version says nothing across a deletion. A node that is deleted and created
again starts at version 0; ``created_id`` tells the two apart.
"""

import abc
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
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

#: ZooKeeper takes packets of up to 1 MiB (``jute.maxbuffer``), with paths and framing in them, and
#: cuts the connection of whoever sends a larger one. A node's value stays well under that,
VALUE_SIZE_BYTES_MAX: Final = 1_000_000

#: and a transaction as a whole: values, paths, and so much for each write's framing and ACL.
COMMIT_SIZE_BYTES_MAX: Final = 1_040_000
_WRITE_FRAMING_BYTES: Final = 128

#: A transaction of more writes than this is a mistake: it blocks everybody else's.
COMMIT_WRITES_MAX: Final = 1_000

PATH_LENGTH_MAX: Final = 1_024

#: Others prune empty parents while we create under them; this often is not a coincidence.
_PARENT_ATTEMPTS_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """A node as it was read."""

    value: bytes
    #: 0 when created, one more with each write: what ``put`` and ``delete`` compare with.
    version: int
    #: Grows over all changes of a store: which creation and which write of the node this is.
    created_id: int
    modified_id: int
    #: The session that an ephemeral node lives with; None: it stays.
    owner: SessionId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What is known now of the store's session."""

    #: None: the last one is lost, and there is no new one yet.
    id: SessionId | None
    #: False: out of reach. Whether the session, and all that it holds, still lives is unknown.
    connected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create a node; its parent must be there. ``sequential``: the store appends ten digits."""

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
    """Delete a node without children, at ``version``; None: at whatever version it is."""

    path: str
    version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Let the transaction pass only if the node is there, and at ``version`` (None: at any)."""

    path: str
    version: int | None


Write: TypeAlias = Create | Put | Delete | Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write of a transaction left behind."""

    #: Where: for a sequential node, with the number that it got.
    path: str
    #: The node's version now; None: it is deleted, or was checked at any version.
    version: int | None


class MetadataStore(abc.ABC):
    """A tree of versioned nodes. Usable from the event loop that opened it, by any of its tasks."""

    #: For people: which store this is. Without credentials.
    name: str
    #: The cluster's root in this store, such as ``/ledgers``. It need not exist.
    root: str
    #: How long a session lasts without a word, as the store granted it; what was asked for may be
    #: less. Another server of the store may grant something else to the next one.
    session_timeout_ms: int

    @property
    @abc.abstractmethod
    def session(self) -> Session:
        """The session as it is known now, without asking anybody."""

    @abc.abstractmethod
    def watch_session(self) -> AbstractAsyncContextManager[AsyncIterator[Session]]:
        """Follow the session. An id that is not the last one: everything of the last one is gone.

        Its end may show late (who is cut off cannot be told), never too early.
        """

    @abc.abstractmethod
    async def close(self) -> None:
        """End the session at once, and its ephemeral nodes with it. Closing twice is harmless."""

    async def get(self, path: str, *, sync: bool = False) -> Versioned | None:
        """Read a node; None: there is none."""
        check_path(path, store=self.name)
        return await self._get(path, sync=sync)

    async def children(self, path: str, *, sync: bool = False) -> tuple[str, ...] | None:
        """Give the sorted names of a node's children; None: there is no such node."""
        check_path(path, store=self.name)
        return await self._children(path, sync=sync)

    async def commit(
        self, writes: Sequence[Write], *, session: SessionId | None = None
    ) -> tuple[Written, ...]:
        """Apply all writes in order, or none: the error is that of the first that is refused."""
        check_writes(writes, store=self.name)
        return await self._commit(writes, session=session) if writes else ()

    def watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[Versioned | None]]:
        """Follow a node: its state now, then each newer one (None: absent)."""
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
        """Create a node and give its path (a sequential one's with its number).

        ``make_parents`` creates what is missing above it, empty and lasting, before it: parents
        may be left behind when the node itself is then refused.
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
        """Replace a value at ``version``; give the new version."""
        await self.commit([Put(path=path, value=value, version=version)], session=session)
        return version + 1

    async def delete(
        self, path: str, *, version: int | None, session: SessionId | None = None
    ) -> None:
        """Delete a node without children, at ``version`` (None: at any)."""
        await self.commit([Delete(path=path, version=version)], session=session)

    # What a store implements; paths and sizes are checked by then.

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
                continue  # made, or pruned, by somebody else meanwhile: the caller tries again
            except StoreError as error:
                if not error.maybe_applied:
                    raise
                # Unknown whether this parent was made, but the node itself was not: the next
                # round looks again.


def parent_of(path: str) -> str:
    """Give the path of the node above; the root's is the root."""
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """Give the last part of a path."""
    return path.rpartition("/")[2]


def check_path(path: str, *, store: str) -> None:
    """Refuse what is not ``/`` or a chain of plain names: one spelling a node, in every store."""
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


def check_writes(writes: Sequence[Write], *, store: str) -> None:
    """Refuse, before anything is sent, what no store takes."""
    if len(writes) > COMMIT_WRITES_MAX:
        raise TooLargeError(f"{len(writes)} writes; at most {COMMIT_WRITES_MAX}", store=store)
    size_bytes = 0
    for write in writes:
        check_path(write.path, store=store)
        size_bytes += len(write.path.encode()) + _WRITE_FRAMING_BYTES
        if isinstance(write, Create | Put):
            _check_size(len(write.value), VALUE_SIZE_BYTES_MAX, "a value", store, write.path)
            size_bytes += len(write.value)
        if not isinstance(write, Create):
            # A negative one would mean "whatever the version" to ZooKeeper.
            assert write.version is None or write.version >= 0, f"{write} was never read"
        _check_size(size_bytes, COMMIT_SIZE_BYTES_MAX, "a transaction", store, write.path)


def _check_size(size_bytes: int, max_bytes: int, what: str, store: str, path: str) -> None:
    if size_bytes > max_bytes:
        raise TooLargeError(
            f"{what} of {size_bytes} bytes or more; at most {max_bytes}", store=store, path=path
        )
