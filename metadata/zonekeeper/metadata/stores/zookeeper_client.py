"""kazoo behind an interface for the event loop; beside ``zookeeper_answers`` no module uses kazoo.

kazoo runs threads of its own. Nothing here blocks the loop, and every report of those threads comes
to the loop by ``call_soon_threadsafe``. Some behaviour of kazoo must be known:

- kazoo opens a new session by itself after an expiry. A request that is bound to a session is given
  to kazoo under a lock, which the notice of a lost session takes too. When a session ends, kazoo
  fails the requests that it was given before. So they can never be sent under the next session.
- When the connection drops, kazoo forgets all watches and calls each with an event of type NONE. So
  every watch gives a notice at every break, and the follower reads again. kazoo cannot take a watch
  back. One watch stays, here and at the server, for each path that was followed and has not changed
  since, and not more than one (``_Alarm``).
- kazoo says "closed" and "connection lost" also of requests that may have been sent, or may still
  be sent. So a write with these errors is unknown.
- kazoo knows the codes of errors that ZooKeeper had at its time. At any other one, its connection
  thread would end for good. So ``zookeeper_answers`` gives it an error for these too.
- kazoo does not tell how long a session the server granted. So the server's answer is read on its
  way into kazoo.
- kazoo's logger prints credentials at DEBUG, so its level is kept above that.
- kazoo warns of each failed attempt to connect. These lines are lowered to INFO, and the client
  says in one line of its own that the connection is lost.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar, assert_never

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, TransactionRequest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry

from zonekeeper.metadata.access.guard import Acl, NodeGuard
from zonekeeper.metadata.access.guarded import NodeAcl
from zonekeeper.metadata.access.node_rights import NodeUse
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import (
    Check,
    Create,
    Delete,
    Put,
    Session,
    SessionId,
    Versioned,
    Write,
    Written,
)
from zonekeeper.metadata.store.watching import Key, Watched
from zonekeeper.metadata.stores import zookeeper_answers, zookeeper_patience, zookeeper_tls
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.uri import ZooKeeperAddress
from zonekeeper.placement.base.hidden import Secret

Answer = TypeVar("Answer")

#: The pause between attempts to reach a server; without these kazoo doubles it up to an hour.
_RECONNECT_DELAY_SECONDS: Final = 0.05
_RECONNECT_DELAY_SECONDS_MAX: Final = 1.0

#: In ZooKeeper this version means "any version".
_ANY_VERSION: Final = -1

_LOG: Final = logging.getLogger("zonekeeper.metadata.kazoo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The reports of the client to its store, on the loop."""

    session: Callable[[Session], None]
    #: The time that the server granted the session that begins, or goes on, next.
    granted: Callable[[int], None]
    #: The credentials were refused, and there will be no session.
    refused: Callable[[], None]
    changed: Callable[[Key], None]
    #: A server's certificate was refused, or ours by a server: the reason.
    distrusted: Callable[[str], None]


class ZooKeeperClient:
    """One connection to an ensemble of servers, with one session after the other."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        guard: NodeGuard,
        secrets: Sequence[Secret],
        timeouts: Timeouts,
        reports: Reports,
    ) -> None:
        self._name = str(address)
        self._reports = reports
        self._loop = asyncio.get_running_loop()
        #: Gives each new node its ACL; its store replaces it when the identities change.
        self.guard = guard
        #: Guards the session's id between kazoo's thread and the loop's.
        self._gate = threading.Lock()
        self._session: SessionId | None = None
        #: Functions that fail the requests under way: kazoo forgets these when it stops.
        self._open: set[Callable[[], None]] = set()
        patience_s = zookeeper_patience.patience_s(timeouts, len(address.servers))
        self._kazoo = _client(
            address, secrets, timeouts.session_ms, patience_s, distrusted=self._distrusted
        )
        self._kazoo.add_listener(self._listen)
        self._hear_greetings(patience_s)

    async def start(self) -> None:
        """Begin to connect; ``Reports.session`` is called when there is a session."""
        await asyncio.to_thread(self._kazoo.start_async)

    async def stop(self, within_ms: int) -> None:
        """End the session, if a server is reached, and the threads.

        After ``within_ms`` they are left to end by themselves: they are daemons, and a session that
        kazoo did not end runs out.
        """
        for give_up in tuple(self._open):
            give_up()
        over = asyncio.Event()
        # A thread of our own: the loop would wait for one of its own before it ends.
        with suppress(RuntimeError):  # the interpreter is ending, and starts no thread any more
            threading.Thread(target=self._end, args=(over,), daemon=True).start()
            with suppress(TimeoutError):
                async with asyncio.timeout(within_ms / 1000):
                    await over.wait()

    def _end(self, over: asyncio.Event) -> None:
        with suppress(kazoo_errors.KazooException, OSError):
            self._kazoo.stop()
            self._kazoo.close()
        self._post(over.set)

    # ── reading ──

    async def node(self, path: str, *, sync: bool, watch: bool) -> Versioned | None:
        """Read a node; with ``watch``, its next change is reported, or its creation."""
        alarm = _Alarm(self, (Watched.NODE, path)) if watch else None
        while True:
            try:
                return await self._read(
                    path, lambda: self._kazoo.get_async(path, watch=alarm), _versioned, sync=sync
                )
            except errors.NoNodeError:
                if not await self._created_since(path, alarm):
                    return None

    async def children(self, path: str, *, sync: bool, watch: bool) -> tuple[str, ...] | None:
        """Read the names of a node's children; ``watch`` as in ``node``."""
        alarm = _Alarm(self, (Watched.CHILDREN, path)) if watch else None
        while True:
            try:
                return await self._read(
                    path,
                    lambda: self._kazoo.get_children_async(path, watch=alarm),
                    _names,
                    sync=sync,
                )
            except errors.NoNodeError:
                if not await self._created_since(path, alarm):
                    return None

    async def _created_since(self, path: str, alarm: "_Alarm | None") -> bool:
        """Watch an absent node; True if the node exists after all."""
        if alarm is None:
            return False
        return await self._read(
            path, lambda: self._kazoo.exists_async(path, watch=alarm), _is_there, sync=False
        )

    async def _read(
        self,
        path: str,
        start: Callable[[], IAsyncResult],
        take: Callable[[IAsyncResult], Answer],
        *,
        sync: bool,
    ) -> Answer:
        if not sync:
            return await self._submit(path, start, take)
        # One connection keeps the order, so the read sees the state after the sync.
        caught_up = self._submit(path, lambda: self._kazoo.sync_async(path), _is_there)
        answer = self._submit(path, start, take)
        return (await asyncio.gather(caught_up, answer))[1]

    # ── writing ──

    async def commit(
        self, writes: Sequence[Write], session: SessionId | None
    ) -> tuple[Written, ...]:
        """Send a transaction, bound to a session if one is given."""
        path = writes[0].path
        with self._gate:
            if session not in (None, self._session):
                raise errors.SessionLostError(
                    f"session {session} is over", store=self._name, path=path
                )
            written = self._submit(
                path,
                lambda: self._transaction(writes).commit_async(),
                partial(self._written, writes),
                writes=True,
            )
        return await written

    def _transaction(self, writes: Sequence[Write]) -> TransactionRequest:
        transaction = self._kazoo.transaction()
        for write in writes:
            match write:
                case Create():
                    transaction.create(
                        write.path,
                        write.value,
                        acl=zookeeper_answers.to_kazoo(self.guard.acl(write.path, write.value)),
                        ephemeral=write.ephemeral,
                        sequence=write.sequential,
                    )
                case Put():
                    transaction.set_data(write.path, write.value, write.version)
                case Delete():
                    transaction.delete(write.path, _version(write.version))
                case Check():
                    transaction.check(write.path, _version(write.version))
                case _:
                    assert_never(write)
        return transaction

    def _written(self, writes: Sequence[Write], done: IAsyncResult) -> tuple[Written, ...]:
        results = done.get()
        for write, result in zip(writes, results, strict=True):
            # In a refused transaction the other results only say that they were not done either.
            if isinstance(result, Exception) and not isinstance(result, _BYSTANDERS):
                raise self._translate(
                    result, write.path, maybe_applied=False, use=_USES[type(write)]
                ) from result
        return tuple(map(_outcome, writes, results))

    # ── ACLs ──

    async def acl(self, path: str) -> NodeAcl | None:
        """Read a node's ACL, no older than the call; None: there is no such node."""
        try:
            return await self._read(
                path, lambda: self._kazoo.get_acls_async(path), _node_acl, sync=True
            )
        except errors.NoNodeError:
            return None

    async def set_acl(self, path: str, entries: Acl, version: int) -> None:
        """Replace a node's ACL that is at this version."""
        wanted = zookeeper_answers.to_kazoo(entries)
        await self._submit(
            path,
            lambda: self._kazoo.set_acls_async(path, wanted, version),
            _is_there,
            writes=True,
        )

    # ── between the threads ──

    def _submit(
        self,
        path: str,
        start: Callable[[], IAsyncResult],
        take: Callable[[IAsyncResult], Answer],
        *,
        writes: bool = False,
    ) -> "asyncio.Future[Answer]":
        future: asyncio.Future[Answer] = self._loop.create_future()
        closed = errors.StoreClosedError(
            "was closed meanwhile", store=self._name, path=path, maybe_applied=writes
        )
        give_up = partial(_fail, future, closed)
        self._open.add(give_up)
        future.add_done_callback(lambda _: self._open.discard(give_up))

        def finish(done: IAsyncResult) -> None:
            # This runs in a thread of kazoo's.
            try:
                answer = take(done)
            except errors.StoreError as error:
                self._post(partial(_fail, future, error))
            except kazoo_errors.KazooException as error:
                translated = self._translate(error, path, maybe_applied=writes)
                translated.__cause__ = error
                self._post(partial(_fail, future, translated))
            else:
                self._post(partial(_succeed, future, answer))

        start().rawlink(finish)
        return future

    def _post(self, what: Callable[[], None]) -> None:
        # If the store was never closed the loop may be gone; then nothing waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def alarm(self, key: Key) -> None:
        """Report a change; called in a thread of kazoo's."""
        self._post(partial(self._reports.changed, key))

    def _hear_greetings(self, patience_s: float) -> None:
        """Report how long a session the server granted, and limit the wait for each greeting.

        kazoo does not keep the server's answer to its wish. It waits for the answer for the
        session's time divided by the number of servers: with a single server until the session is
        over. But a server that is starting may take a greeting and never answer it.
        """
        connection = self._kazoo._connection  # noqa: SLF001 there is no public way to it
        invoke = connection._invoke  # noqa: SLF001 as above

        def heard(timeout: float, request: object, xid: int | None = None) -> object:
            greets = isinstance(request, Connect)
            try:
                answer = invoke(min(timeout, patience_s) if greets else timeout, request, xid)
            except kazoo_errors.ConnectionDropped as error:
                # With TLS 1.3 a server refuses our certificate when it answers for the first time.
                if greets and isinstance(error.__context__, OSError):
                    self._distrusted(error.__context__)
                raise
            if greets:
                # This runs in kazoo's connection thread, before kazoo says that it is connected.
                self._post(partial(self._reports.granted, answer[0].time_out))
            return answer

        connection._invoke = heard  # noqa: SLF001 as above

    def _distrusted(self, error: OSError) -> None:
        """Report a connection that one side refused by its certificates; in a thread of kazoo's."""
        if (why := zookeeper_tls.distrust(error)) is not None:
            self._post(partial(self._reports.distrusted, why))

    def _listen(self, state: KazooState) -> None:
        # This runs in kazoo's connection thread, and kazoo waits for it: see the first point above.
        with self._gate:
            if state == KazooState.CONNECTED:
                number, _ = self._kazoo.client_id
                self._session = SessionId(number)
            elif state == KazooState.LOST:
                self._session = None
            session = Session(id=self._session, connected=state == KazooState.CONNECTED)
        if self._kazoo.client_state == KeeperState.AUTH_FAILED:
            self._post(self._reports.refused)
        self._post(partial(self._reports.session, session))

    def _translate(
        self, error: Exception, path: str, *, maybe_applied: bool, use: NodeUse = NodeUse.READ
    ) -> errors.StoreError:
        """Give our error for kazoo's; ``maybe_applied`` is for errors that leave it unknown."""
        if zookeeper_answers.is_forbidden(error):
            problem = self.guard.explain(path, use)
            return errors.UnauthorizedError(problem, store=self._name, path=path)
        return zookeeper_answers.translate(
            error, path, store=self._name, maybe_applied=maybe_applied
        )


@dataclass(frozen=True, slots=True)
class _Alarm:
    """Called by kazoo at a change. Equal for equal keys, so that kazoo keeps only one."""

    client: ZooKeeperClient
    key: Key

    def __call__(self, _: WatchedEvent) -> None:
        self.client.alarm(self.key)


class _Quiet(logging.Filter):
    """Makes all that kazoo says DEBUG, and drops what the loggers above would not take.

    While a server is away kazoo tells each attempt, several times a second.

    kazoo's errors stay errors: a lost connection is none of them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.WARNING:
            record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
        return _LOG.parent is None or _LOG.parent.isEnabledFor(record.levelno)


_QUIET: Final = _Quiet()

_BYSTANDERS: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)

#: What each write does to its node, for the message of a refusal.
_USES: Final[Mapping[type[Write], NodeUse]] = {
    Create: NodeUse.MAKE,
    Put: NodeUse.WRITE,
    Delete: NodeUse.DELETE,
    Check: NodeUse.READ,
}


def _client(
    address: ZooKeeperAddress,
    secrets: Sequence[Secret],
    session_ms: int,
    patience_s: float,
    *,
    distrusted: Callable[[OSError], None],
) -> KazooClient:
    handler = SequentialThreadingHandler()
    if address.tls is not None:
        handler.create_connection = partial(zookeeper_tls.connect, address.tls, distrusted)
    handler.create_connection = zookeeper_patience.limited(handler.create_connection, patience_s)
    _LOG.setLevel(logging.INFO)
    _LOG.addFilter(_QUIET)  # once: a logger has no filter twice
    return KazooClient(
        hosts=",".join(address.servers),
        timeout=session_ms / 1000,
        handler=handler,
        auth_data=[("digest", secret.decode()) for secret in secrets],
        connection_retry=KazooRetry(
            max_tries=-1,
            delay=_RECONNECT_DELAY_SECONDS,
            max_delay=_RECONNECT_DELAY_SECONDS_MAX,
            sleep_func=handler.sleep_func,
        ),
        logger=_LOG,
    )


def _version(version: int | None) -> int:
    return _ANY_VERSION if version is None else version


def _versioned(done: IAsyncResult) -> Versioned:
    value, stat = done.get()
    return Versioned(
        value=value or b"",  # Apache's tools create nodes without a value
        version=stat.version,
        created_id=stat.czxid,
        modified_id=stat.mzxid,
        owner=SessionId(stat.ephemeralOwner) if stat.ephemeralOwner else None,
        # The server counts creations, and shows their number plus that of deletions, in 32 bits.
        children_made=((stat.cversion + stat.numChildren) & 0xFFFF_FFFF) // 2,
    )


def _node_acl(done: IAsyncResult) -> NodeAcl:
    entries, stat = done.get()
    return NodeAcl(entries=zookeeper_answers.from_kazoo(entries), version=stat.aversion)


def _names(done: IAsyncResult) -> tuple[str, ...]:
    return tuple(sorted(done.get()))


def _is_there(done: IAsyncResult) -> bool:
    return done.get() is not None


def _outcome(write: Write, result: object) -> Written:
    match write:
        case Create():
            return Written(path=str(result), version=0)
        case Put():
            return Written(path=write.path, version=write.version + 1)
        case Delete():
            return Written(path=write.path, version=None)
        case Check():
            return Written(path=write.path, version=write.version)
        case _:
            assert_never(write)


def _fail(future: "asyncio.Future[Answer]", error: errors.StoreError) -> None:
    if not future.done():
        future.set_exception(error)


def _succeed(future: "asyncio.Future[Answer]", answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)
