"""The store in memory: a model of the real stores, with faults on demand.

``MemoryStore`` is one client of a ``MemoryServer``, over a connection of its own. Everything runs
in the loop's time, and this module draws nothing by chance. So a run under a simulated loop is the
same every time. A test or a simulator can do these things to a client:

- ``weather`` decides for each request how long it travels, and whether it or its answer is lost. A
  loss breaks the connection, so nothing lost arrives later. The requests of one client arrive in
  order, and so do the answers, as on a real connection.
- ``read_lag_ms`` gives the client a follower that is behind: reads and watches show the past, but
  never a state older than one that this client has written or seen. ``sync`` catches up.
- A client may have identities (``mine``), and is held to the ACLs of nodes as a real one is.
- ``cut`` and ``mend`` take the network away and give it back. A session that is not mended within
  its timeout ends on the server, with its ephemeral nodes. ``MemoryServer.expire`` ends one now.
"""

import asyncio
import enum
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.acl_book import NodeCaller
from zonekeeper.metadata.access.guard import CREATOR_ACL, OPEN_ACL, Acl, NodeGuard
from zonekeeper.metadata.access.guarded import GuardedStore, NodeAcl
from zonekeeper.metadata.access.identities import Identities, StoreIdentity
from zonekeeper.metadata.access.node_rights import NodePermission, NodeUse
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.layout import OWN_SUFFIX
from zonekeeper.metadata.store.store import (
    Session,
    SessionId,
    Versioned,
    Write,
    Written,
)
from zonekeeper.metadata.store.watching import (
    Key,
    Notice,
    Notices,
    SessionFeed,
    Watched,
    follow,
)
from zonekeeper.metadata.stores.memory_server import Change, MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.uri import DEFAULT_ROOT

Answer = TypeVar("Answer")


class RequestKind(enum.Enum):
    """The kind of a request, which is all that weather knows of it."""

    READ = "read"
    WRITE = "write"


class ExchangeLoss(enum.Enum):
    """The part of an exchange that is lost, together with the connection."""

    NOTHING = "nothing"
    #: The request is not applied.
    REQUEST = "request"
    #: The request is applied, and the client does not know it.
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The times of one request's travel, and its loss."""

    there_ms: int = 0
    back_ms: int = 0
    loss: ExchangeLoss = ExchangeLoss.NOTHING


#: Called once for each request, in the order of sending.
Weather: TypeAlias = Callable[[RequestKind], Passage]

_READ_RETRY_MS: Final = 10

_DIRECT: Final = Passage()

_DEFAULT_TIMEOUTS: Final = Timeouts()


def calm(_: RequestKind) -> Passage:
    """Weather that loses and delays nothing."""
    return _DIRECT


class MemoryStore(GuardedStore):
    """One client of a ``MemoryServer``; open it on the loop that will use it."""

    def __init__(
        self,
        server: MemoryServer,
        *,
        root: str = DEFAULT_ROOT,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
        mine: tuple[StoreIdentity, ...] = (),
    ) -> None:
        self.name = server.name
        self.root = root
        self.session_timeout_ms = timeouts.session_ms
        self._guard = NodeGuard(root=root, mine=mine, otherwise=CREATOR_ACL if mine else OPEN_ACL)
        #: The value that the guard's identities were read from; None: they were assumed.
        self._identities: bytes | None = None
        #: Decides what the network does to each request; may be replaced at any time.
        self.weather: Weather = calm
        #: How far the follower from which this client reads is behind.
        self.read_lag_ms = 0
        self._server = server
        self._timeouts = timeouts
        #: The newest change that this client has seen or made. Its reads never show an older state.
        self._view = server.last_change_id
        self._closed = False
        self._reached = asyncio.Event()
        self._reached.set()
        self._notices = Notices()
        self._connection = _Connection(self._break)
        self._session_id = server.begin_session(self, timeouts.session_ms)
        self._feed = SessionFeed(self.name, Session(id=self._session_id, connected=True))
        server.join(self)

    # ── what a test may do to the client ──

    def cut(self) -> None:
        """Take the network away."""
        self._reached.clear()
        self._server.unheard(self._session_id)
        self._feed.publish(Session(id=self._session_id, connected=False))
        self._break()

    def mend(self) -> None:
        """Give the network back; if the session ended meanwhile, a new one begins."""
        self._reached.set()
        if self._server.heard(self._session_id):
            self._feed.publish(Session(id=self._session_id, connected=True))
            self._notices.tell_all()
        else:
            self.session_ended()

    def session_ended(self) -> None:
        """Replace a session that the server ended by a new one."""
        if self._closed or not self._reached.is_set():
            return
        self._replace_connection(
            lambda exchange: errors.SessionLostError(
                f"session {exchange.session} ended",
                store=self.name,
                path=exchange.path,
                maybe_applied=exchange.kind is RequestKind.WRITE,
            )
        )
        self._session_id = self._server.begin_session(self, self._timeouts.session_ms)
        self._feed.publish(Session(id=self._session_id, connected=True))

    def changed(self, change: Change) -> None:
        """Notify watches of a change, as late as this client's follower is behind."""
        loop = asyncio.get_running_loop()
        if self.read_lag_ms:
            loop.call_later(self.read_lag_ms / 1000, self._deliver, change)
        elif any(key in self._notices for key in change.keys):
            # A notice that is armed from now on is armed by a read that sees this change.
            loop.call_soon(self._deliver, change)

    def _deliver(self, change: Change) -> None:
        if self._reached.is_set():
            self._view = max(self._view, change.id)
            for key in change.keys:
                self._notices.tell(key)

    @property
    def session(self) -> Session:
        """The session; it is lost only when the server says so."""
        return self._feed.current

    def watch_session(self) -> AbstractAsyncContextManager[AsyncIterator[Session]]:
        """Follow the session."""
        return self._feed.watch()

    async def close(self) -> None:
        """End the session; if the client is cut off, the server ends it at its timeout."""
        if self._closed:
            return
        self._closed = True
        self._server.leave(self)
        if self._reached.is_set():
            self._server.end_session(self._session_id)
        self._reached.set()
        self._replace_connection(
            lambda exchange: self._closed_error(maybe_applied=exchange.kind is RequestKind.WRITE)
        )
        self._feed.close()

    async def _get(self, path: str, *, sync: bool) -> Versioned | None:
        return await self._ask(RequestKind.READ, path, lambda: self._node(path, sync=sync))

    async def _children(self, path: str, *, sync: bool) -> tuple[str, ...] | None:
        return await self._ask(RequestKind.READ, path, lambda: self._names(path, sync=sync))

    async def _commit(
        self, writes: Sequence[Write], *, session: SessionId | None
    ) -> tuple[Written, ...]:
        return await self._ask(
            RequestKind.WRITE, writes[0].path, lambda: self._apply(writes), session
        )

    # ── ACLs ──

    @property
    def guard(self) -> NodeGuard:
        """The guard; this client knows at once what the node of identities says."""
        path = f"{self.root}{OWN_SUFFIX}/{identities.NAME}"
        node = self._server.node(path, self._server.last_change_id)
        value = None if node is None else node.value
        if value is not None and value != self._identities:
            self._guard = self._guard.knowing(identities.parse(value))
            self._identities = value
        elif value is None and self._identities is not None:
            self.assume(None)
        return self._guard

    def assume(self, identities: Identities | None) -> None:
        """Give new nodes the ACLs of these identities, until the root says others."""
        self._guard = self._guard.knowing(identities)
        self._identities = None

    async def acl(self, path: str) -> NodeAcl | None:
        """Read a node's ACL."""

        def look() -> NodeAcl | None:
            if self._node(path, sync=True) is None:
                return None
            self._allow(path, NodeUse.READ, NodePermission.READ)
            return self._server.acls.of(path)

        return await self._ask(RequestKind.READ, path, look)

    async def set_acl(self, path: str, entries: Acl, *, version: int) -> None:
        """Replace the ACL that is at ``version``."""

        def replace() -> None:
            if self._node(path, sync=True) is None:
                raise errors.NoNodeError("is absent", store=self.name, path=path)
            self._allow(path, NodeUse.WRITE, NodePermission.ADMIN)
            if self._server.acls.of(path).version != version:
                raise errors.VersionConflictError("has another version", store=self.name, path=path)
            self._server.acls.replace(path, entries)

        await self._ask(RequestKind.WRITE, path, replace)

    def _allow(self, path: str, use: NodeUse, permission: NodePermission) -> None:
        if not self._server.acls.allows(path, permission, self._guard.mine):
            raise self._forbidden(path, use)

    def _forbidden(self, path: str, use: NodeUse) -> errors.UnauthorizedError:
        return errors.UnauthorizedError(self.guard.explain(path, use), store=self.name, path=path)

    def _watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[Versioned | None]]:
        return self._follow((Watched.NODE, path), lambda: self._node(path))

    def _watch_children(
        self, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, ...] | None]]:
        return self._follow((Watched.CHILDREN, path), lambda: self._names(path))

    # ── how it is done ──

    def _node(self, path: str, *, sync: bool = False) -> Versioned | None:
        node = self._server.node(path, self._look(sync=sync))
        if node is None:
            return None
        self._allow(path, NodeUse.READ, NodePermission.READ)
        return node.seen()

    def _names(self, path: str, *, sync: bool = False) -> tuple[str, ...] | None:
        names = self._server.names(path, self._look(sync=sync))
        if names is not None:
            self._allow(path, NodeUse.READ, NodePermission.READ)
        return names

    def _look(self, *, sync: bool) -> int:
        """Give the id of the last change that this client sees now."""
        seen = self._server.last_change_id
        if self.read_lag_ms and not sync:
            now = asyncio.get_running_loop().time()
            seen = self._server.seen_at(now - self.read_lag_ms / 1000)
        self._view = max(self._view, seen)
        return self._view

    def _apply(self, writes: Sequence[Write]) -> tuple[Written, ...]:
        guard = self.guard
        if (shut_out := guard.shut_out(writes)) is not None:
            path, why = shut_out
            raise errors.UnauthorizedError(why, store=self.name, path=path)
        caller = NodeCaller(mine=guard.mine, acl=guard.acl)
        refused = self._server.acls.refused(writes, caller)
        if refused is not None:
            raise self._forbidden(refused.path, refused.use)
        written = self._server.apply(writes, self._session_id, caller)
        self._view = self._server.last_change_id
        return written

    def _follow(
        self, key: Key, look: Callable[[], Answer]
    ) -> AbstractAsyncContextManager[AsyncIterator[Answer]]:
        async def read(notice: Notice) -> Answer:
            def arm_and_look() -> Answer:
                self._notices.arm(key, notice)
                return look()

            return await self._ask(RequestKind.READ, key[1], arm_and_look)

        return follow(read, lambda notice: self._notices.disarm(key, notice))

    async def _ask(
        self,
        kind: RequestKind,
        path: str,
        perform: Callable[[], Answer],
        session: SessionId | None = None,
    ) -> Answer:
        """Send a request when the server can be reached, and wait for its answer.

        A read without an answer is sent again until its time is up; a write never is.
        """
        answers: list[Answer] = []
        sent = False
        due_s = asyncio.get_running_loop().time() + self._timeouts.request_ms / 1000
        try:
            while True:
                await self._reach(due_s)
                exchange = self._send(kind, path, lambda: answers.append(perform()), session)
                sent = True
                try:
                    await exchange.answer(due_s)
                except (errors.StoreUnavailableError, errors.SessionLostError):
                    if kind is RequestKind.WRITE:
                        raise
                    await asyncio.sleep(_READ_RETRY_MS / 1000)
                else:
                    return answers[-1]
        except TimeoutError as late:
            raise errors.StoreUnavailableError(
                f"no answer within {self._timeouts.request_ms} ms",
                store=self.name,
                path=path,
                maybe_applied=sent and kind is RequestKind.WRITE,
            ) from late

    async def _reach(self, due_s: float) -> None:
        """Wait until the server can be reached."""
        if not self._closed and not self._reached.is_set():
            async with asyncio.timeout_at(due_s):
                await self._reached.wait()

    def _send(
        self, kind: RequestKind, path: str, perform: Callable[[], None], session: SessionId | None
    ) -> "_Exchange":
        if self._closed:
            raise self._closed_error()
        if session not in (None, self._session_id):
            raise errors.SessionLostError(f"session {session} ended", store=self.name, path=path)
        exchange = _Exchange(kind=kind, path=path, session=self._session_id, perform=perform)
        self._connection.send(exchange, self.weather(kind))
        return exchange

    def _break(self) -> None:
        """Break the connection, with everything under way on it, and make a new one."""
        self._replace_connection(
            lambda exchange: errors.StoreUnavailableError(
                "the connection broke",
                store=self.name,
                path=exchange.path,
                maybe_applied=exchange.kind is RequestKind.WRITE,
            )
        )

    def _replace_connection(self, why: "Callable[[_Exchange], errors.StoreError]") -> None:
        broken = self._connection
        self._connection = _Connection(self._break)
        broken.fail(why)
        self._notices.tell_all()

    def _closed_error(self, *, maybe_applied: bool = False) -> errors.StoreClosedError:
        return errors.StoreClosedError("is closed", store=self.name, maybe_applied=maybe_applied)


class _Exchange:
    """A request under way, and its answer once it has come."""

    def __init__(
        self, *, kind: RequestKind, path: str, session: SessionId, perform: Callable[[], None]
    ) -> None:
        self.kind = kind
        self.path = path
        self.session = session
        self.perform = perform
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def answer(self, due_s: float) -> None:
        """Wait for the answer; raises ``TimeoutError`` if it does not come in time."""
        timer = asyncio.get_running_loop().call_at(due_s, self.fail, TimeoutError())
        try:
            await self.answered
        finally:
            timer.cancel()

    def fail(self, error: errors.StoreError | TimeoutError) -> None:
        """Give an error as the answer; perhaps no caller waits any more."""
        if not self.answered.done():
            self.answered.set_exception(error)


class _Connection:
    """Carries requests to the server and answers back, each way in order, until a loss."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._open: dict[_Exchange, None] = {}
        self._there: deque[tuple[_Exchange, Passage]] = deque()
        self._back: deque[tuple[_Exchange, errors.StoreError | None]] = deque()
        self._arrives_at = 0.0
        self._returns_at = 0.0

    def send(self, exchange: _Exchange, passage: Passage) -> None:
        """Send a request to the server, perform it there, and send its answer back."""
        loop = asyncio.get_running_loop()
        self._open[exchange] = None
        self._there.append((exchange, passage))
        now_s = loop.time()
        self._arrives_at = max(self._arrives_at, now_s + passage.there_ms / 1000)
        # Timers of one moment fire in any order, so each takes the oldest request.
        _call_at(loop, now_s, self._arrives_at, self._arrive)

    def fail(self, why: Callable[[_Exchange], errors.StoreError]) -> None:
        """Fail everything under way; nothing of it arrives any more."""
        self._there.clear()
        self._back.clear()
        for exchange in self._open:
            exchange.fail(why(exchange))
        self._open.clear()

    def _arrive(self) -> None:
        if not self._there:
            return
        exchange, passage = self._there.popleft()
        if passage.loss is ExchangeLoss.REQUEST:
            self._lost()
            return
        refused: errors.StoreError | None = None
        try:
            exchange.perform()
        except errors.StoreError as error:
            refused = error
        if passage.loss is ExchangeLoss.ANSWER:
            self._lost()
            return
        loop = asyncio.get_running_loop()
        self._back.append((exchange, refused))
        now_s = loop.time()
        self._returns_at = max(self._returns_at, now_s + passage.back_ms / 1000)
        _call_at(loop, now_s, self._returns_at, self._return)

    def _return(self) -> None:
        if not self._back:
            return
        exchange, refused = self._back.popleft()
        self._open.pop(exchange, None)
        if refused is not None:
            exchange.fail(refused)
        elif not exchange.answered.done():
            exchange.answered.set_result(None)


def _call_at(
    loop: asyncio.AbstractEventLoop, now_s: float, when_s: float, call: Callable[[], None]
) -> None:
    """Call a function at a time; a time that has come needs no timer."""
    if when_s <= now_s:
        loop.call_soon(call)
    else:
        loop.call_at(when_s, call)
