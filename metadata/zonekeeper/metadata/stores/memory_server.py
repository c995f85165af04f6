"""The service behind the store in memory: one tree, its recent past, and the sessions.

The server applies transactions one after the other, and tells its clients what each one changed. It
can also be read as it was some time ago; a follower that is behind shows that. All times are the
loop's. A client is a ``memory.MemoryStore``; this module knows only its ``ServedClient`` part.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from zonekeeper.metadata.access.acl_book import AclBook, NodeCaller
from zonekeeper.metadata.access.guard import OPEN_ACL
from zonekeeper.metadata.store.store import Delete, SessionId, Write, Written, name_of, parent_of
from zonekeeper.metadata.store.watching import Key, Watched
from zonekeeper.metadata.stores import tree

#: The end of a session, which asks nobody.
ITSELF: Final = NodeCaller(mine=(), acl=lambda _path, _value: OPEN_ACL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One applied transaction, with the nodes that it replaced, so that the past can be read."""

    id: int
    at: float
    before: Mapping[str, tree.Node | None]
    keys: tuple[Key, ...]


class ServedClient(Protocol):
    """The part of a client that the server knows."""

    read_lag_ms: int

    def changed(self, change: Change) -> None:
        """Take note of a change; called for every change when it is made."""
        ...

    def session_ended(self) -> None:
        """Take note that the client's session has ended, if the client can be reached."""
        ...


@dataclass(slots=True, kw_only=True)
class _Session:
    timeout_ms: int
    client: ServedClient
    expiry: asyncio.TimerHandle | None = None
    owned: set[str] = field(default_factory=set)


class MemoryServer:
    """The service; it belongs to one loop."""

    def __init__(self) -> None:
        self.name: Final = "memory"
        self.last_change_id = 0
        #: Who may use which node; nobody is asked while all nodes are open.
        self.acls: Final = AclBook()
        self._nodes: dict[str, tree.Node] = {"/": tree.TOP}
        self._children: dict[str, set[str]] = {"/": set()}
        self._history: deque[Change] = deque()
        self._sessions: dict[SessionId, _Session] = {}
        self._session_ids = itertools.count(1)
        self._clients: list[ServedClient] = []

    # ── clients and sessions ──

    def join(self, client: ServedClient) -> None:
        """Tell a client of changes from now on."""
        self._clients.append(client)

    def leave(self, client: ServedClient) -> None:
        """Tell a client of no more changes."""
        self._clients.remove(client)

    def begin_session(self, client: ServedClient, timeout_ms: int) -> SessionId:
        """Open a session for a client."""
        session = SessionId(next(self._session_ids))
        self._sessions[session] = _Session(timeout_ms=timeout_ms, client=client)
        return session

    def lives(self, session: SessionId | None) -> bool:
        """Is this session open?"""
        return session in self._sessions

    def unheard(self, session: SessionId) -> None:
        """Start the time to a session's end, unless it is running."""
        known = self._sessions.get(session)
        if known is not None and known.expiry is None:
            loop = asyncio.get_running_loop()
            known.expiry = loop.call_later(known.timeout_ms / 1000, self.expire, session)

    def heard(self, session: SessionId) -> bool:
        """Stop the time to a session's end; False if the session has ended."""
        known = self._sessions.get(session)
        if known is not None and known.expiry is not None:
            known.expiry.cancel()
            known.expiry = None
        return known is not None

    def expire(self, session: SessionId) -> None:
        """End a session as its timeout would; a client in reach is told at once."""
        known = self._sessions.get(session)
        if known is not None:
            self.end_session(session)
            known.client.session_ended()

    def end_session(self, session: SessionId) -> None:
        """End a session because its client asks for it; an unknown one has ended already."""
        ended = self._sessions.get(session)
        if ended is None:
            return
        if ended.expiry is not None:
            ended.expiry.cancel()
        if ended.owned:
            self.apply([Delete(path=p, version=None) for p in sorted(ended.owned)], session)
        del self._sessions[session]

    # ── the tree ──

    def apply(
        self, writes: Sequence[Write], session: SessionId, caller: NodeCaller = ITSELF
    ) -> tuple[Written, ...]:
        """Apply a transaction, or raise its error; the caller was let in by the ACLs."""
        request = tree.TransactionRequest(
            change_id=self.last_change_id + 1, session=session, store=self.name
        )
        plan = tree.plan(writes, self._nodes.get, request)
        self.acls.note(writes, plan.written, caller)
        self.last_change_id = request.change_id
        before = {path: self._nodes.get(path) for path in plan.changes}
        change = Change(
            id=request.change_id,
            at=asyncio.get_running_loop().time(),
            before=before,
            keys=tuple(_changed_keys(before, plan.changes)),
        )
        for path, node in plan.changes.items():
            self._replace(path, before[path], node)
        self._remember(change)
        for client in tuple(self._clients):
            client.changed(change)
        return plan.written

    def seen_at(self, time: float) -> int:
        """Give the id of the last change that a follower knew at this time."""
        for change in reversed(self._history):
            if change.at <= time:
                return change.id
        return self._history[0].id - 1 if self._history else self.last_change_id

    def node(self, path: str, view: int) -> tree.Node | None:
        """Give a node as it was right after the change ``view``."""
        node = self._nodes.get(path)
        for change in self._since(view):
            if path in change.before:
                node = change.before[path]
        return node

    def names(self, path: str, view: int) -> tuple[str, ...] | None:
        """Give the names of a node's children as they were right after the change ``view``."""
        if self.node(path, view) is None:
            return None
        names = set(self._children.get(path, ()))
        for change in self._since(view):
            for changed, before in change.before.items():
                if changed != "/" and parent_of(changed) == path:
                    (names.discard if before is None else names.add)(name_of(changed))
        return tuple(sorted(names))

    def _since(self, view: int) -> Iterator[Change]:
        """Give the changes after ``view``, the newest first."""
        return itertools.takewhile(lambda change: change.id > view, reversed(self._history))

    def _remember(self, change: Change) -> None:
        """Keep a change, and as much of the past as the slowest follower shows."""
        self._history.append(change)
        lag_ms = max((client.read_lag_ms for client in self._clients), default=0)
        while self._history and self._history[0].at < change.at - lag_ms / 1000:
            self._history.popleft()

    def _replace(self, path: str, before: tree.Node | None, after: tree.Node | None) -> None:
        if before is not None and before.owner is not None:
            self._sessions[before.owner].owned.discard(path)
        if after is not None and after.owner is not None:
            self._sessions[after.owner].owned.add(path)
        if after is not None:
            self._nodes[path] = after
            if before is None:
                self._children[path] = set()
                self._children[parent_of(path)].add(name_of(path))
        elif before is not None:
            del self._nodes[path]
            del self._children[path]
            self._children.get(parent_of(path), set()).discard(name_of(path))


def _changed_keys(
    before: Mapping[str, tree.Node | None], after: Mapping[str, tree.Node | None]
) -> Iterator[Key]:
    for path, old in before.items():
        new = after[path]
        if (old and old.seen()) != (new and new.seen()):
            yield Watched.NODE, path
        if (old and old.children_id) != (new and new.children_id):
            yield Watched.CHILDREN, path
