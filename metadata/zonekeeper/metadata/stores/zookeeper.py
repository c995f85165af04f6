"""The store in ZooKeeper, for clusters: the same nodes that Apache BookKeeper would make.

``zookeeper_client`` sends the requests. On top of it this module keeps the store's promises.

- While the connection is lost, nothing is sent: calls wait for the connection within their time. If
  it broke after a request was sent, a write is unknown, and a read is sent again.
- A read never goes back. Within a session ZooKeeper promises that, on any of its servers. After a
  session was lost, the next server may be behind the last one. So reads ``sync`` until one has.
- ZooKeeper compares only the node's version. The ids (``czxid``, ``mzxid``) are only shown.
- The server's name is checked against its certificate. The address says which clients may use our
  nodes (``acl``).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, TypeVar

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import (
    MetadataStore,
    Session,
    SessionId,
    Versioned,
    Write,
    Written,
)
from zonekeeper.metadata.stores import zookeeper_tls
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.uri import ZooKeeperAddress
from zonekeeper.metadata.stores.watching import (
    Key,
    Notice,
    Notices,
    SessionFeed,
    Watched,
    follow,
)
from zonekeeper.metadata.stores.zookeeper_client import Reports, ZooKeeperClient

Answer = TypeVar("Answer")

#: A client that reaches no server has nothing to end there, and waits no longer for its threads.
UNREACHED_STOP_MS: Final = 100
_READ_RETRY_MS: Final = 20

_SECRET_BYTES_MAX: Final = 1_024


async def open_zookeeper(address: ZooKeeperAddress, timeouts: Timeouts) -> "ZooKeeperStore":
    """Connect, and begin a session."""
    secret = None
    if address.auth_file is not None:
        secret = await asyncio.to_thread(_read_secret, address.auth_file, str(address))
    if address.tls is not None:
        # Each connection reads the files again; but an error in them is better reported at once.
        try:
            await asyncio.to_thread(zookeeper_tls.context, address.tls)
        except OSError as error:
            raise errors.UnauthorizedError(
                f"the files of 'tls-ca', 'tls-cert' and 'tls-key' cannot be used: {error}",
                store=str(address),
            ) from error
    store = ZooKeeperStore(address, secret, timeouts)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


class ZooKeeperStore(MetadataStore):
    """One client of an ensemble. ``open_zookeeper`` gives a connected one."""

    def __init__(self, address: ZooKeeperAddress, secret: str | None, timeouts: Timeouts) -> None:
        self.name = str(address)
        self.root = address.root
        self.session_timeout_ms = timeouts.session_ms
        self._request_ms = timeouts.request_ms
        self._first_ms = timeouts.first_ms
        #: A request was given up, and none was answered since.
        self._silent = False
        self._closed = False
        self._refused = False
        #: Set while requests make sense: connected, or closed or refused for good.
        self._reached = asyncio.Event()
        #: The last session; reads of a later session may be behind until one has synced.
        self._last_session: SessionId | None = None
        self._behind = False
        self._notices = Notices()
        self._feed = SessionFeed(self.name, Session(id=None, connected=False))
        reports = Reports(
            session=self._session_changed,
            granted=self._session_granted,
            refused=self._credentials_refused,
            changed=self._changed,
        )
        self._client = ZooKeeperClient(address, secret, timeouts, reports)

    async def start(self) -> None:
        """Wait until a server gives a session."""
        await self._client.start()
        try:
            async with asyncio.timeout(self._first_ms / 1000):
                await self._reach("")
        except TimeoutError as late:
            raise errors.StoreUnavailableError(
                f"no server gave a session within {self._first_ms} ms:"
                " is the address right, is there a quorum, do the certificates fit?"
                " At DEBUG the logger zonekeeper.metadata.kazoo says what was tried",
                store=self.name,
            ) from late

    # ── the interface ──

    @property
    def session(self) -> Session:
        """The session; while unconnected, only a server knows whether it lives."""
        return self._feed.current

    def watch_session(self) -> AbstractAsyncContextManager[AsyncIterator[Session]]:
        """Follow the session."""
        return self._feed.watch()

    async def close(self) -> None:
        """End the session; if no server is reached, it ends at its timeout."""
        if self._closed:
            return
        reached = self._feed.current.connected and not self._silent
        self._closed = True
        self._reached.set()
        self._feed.close()
        await self._client.stop(self._request_ms if reached else UNREACHED_STOP_MS)
        self._notices.tell_all()

    async def _get(self, path: str, *, sync: bool) -> Versioned | None:
        return await self._read(
            path, lambda behind: self._client.node(path, sync=sync or behind, watch=False)
        )

    async def _children(self, path: str, *, sync: bool) -> tuple[str, ...] | None:
        return await self._read(
            path, lambda behind: self._client.children(path, sync=sync or behind, watch=False)
        )

    async def _commit(
        self, writes: Sequence[Write], *, session: SessionId | None
    ) -> tuple[Written, ...]:
        path = writes[0].path
        sent = False
        try:
            async with asyncio.timeout(self._request_ms / 1000):
                await self._reach(path)
                sent = True
                written = await self._client.commit(writes, session)
                self._silent = False
                return written
        except TimeoutError as late:
            raise self._late(path, maybe_applied=sent) from late

    def _watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[Versioned | None]]:
        return self._follow(
            (Watched.NODE, path), lambda behind: self._client.node(path, sync=behind, watch=True)
        )

    def _watch_children(
        self, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, ...] | None]]:
        return self._follow(
            (Watched.CHILDREN, path),
            lambda behind: self._client.children(path, sync=behind, watch=True),
        )

    # ── how it is done ──

    def _follow(
        self, key: Key, ask: Callable[[bool], Awaitable[Answer]]
    ) -> AbstractAsyncContextManager[AsyncIterator[Answer]]:
        async def read(notice: Notice) -> Answer:
            # The notice is armed before the request, because it may come before the answer.
            self._notices.arm(key, notice)
            return await self._read(key[1], ask)

        return follow(read, lambda notice: self._notices.disarm(key, notice))

    async def _read(self, path: str, ask: Callable[[bool], Awaitable[Answer]]) -> Answer:
        """Call ``ask`` with ``behind`` until there is an answer or the time is up."""
        try:
            async with asyncio.timeout(self._request_ms / 1000):
                while True:
                    await self._reach(path)
                    session, behind = self._feed.current.id, self._behind
                    try:
                        answer = await ask(behind)
                    except (errors.StoreUnavailableError, errors.SessionLostError):
                        await asyncio.sleep(_READ_RETRY_MS / 1000)
                        continue
                    self._silent = False
                    if behind and session == self._feed.current.id:
                        self._behind = False
                    return answer
        except TimeoutError as late:
            raise self._late(path) from late

    async def _reach(self, path: str) -> None:
        """Wait until there is a server to ask."""
        await self._reached.wait()
        if self._closed:
            raise errors.StoreClosedError("is closed", store=self.name, path=path)
        if self._refused:
            raise errors.UnauthorizedError(
                "the credentials were refused", store=self.name, path=path
            )

    def _session_changed(self, session: Session) -> None:
        if self._closed:
            return
        if session.connected:
            if self._last_session not in (None, session.id):
                self._behind = True
            self._last_session = session.id
            self._reached.set()
        elif not self._refused:
            self._reached.clear()
        self._feed.publish(session)

    def _session_granted(self, timeout_ms: int) -> None:
        self.session_timeout_ms = timeout_ms

    def _credentials_refused(self) -> None:
        self._refused = True
        self._reached.set()

    def _changed(self, key: Key) -> None:
        self._notices.tell(key)

    def _late(self, path: str, *, maybe_applied: bool = False) -> errors.StoreUnavailableError:
        self._silent = True
        return errors.StoreUnavailableError(
            f"no answer within {self._request_ms} ms",
            store=self.name,
            path=path,
            maybe_applied=maybe_applied,
        )


def _read_secret(path: Path, store: str) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise errors.UnauthorizedError(
            f"'auth-file' cannot be read: {error}", store=store
        ) from error
    secret = raw.decode("utf-8", errors="replace").strip()
    user, colon, password = secret.partition(":")
    if not (user and colon and password) or "\n" in secret or len(raw) > _SECRET_BYTES_MAX:
        raise errors.UnauthorizedError(
            f"'auth-file' {path} does not hold one line 'user:password'", store=store
        )
    return secret
