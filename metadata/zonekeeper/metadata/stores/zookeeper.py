"""The store in ZooKeeper, for clusters: the same nodes that Apache BookKeeper would make.

``zookeeper_client`` sends the requests. On top of it this module keeps the store's promises.

- While the connection is lost, nothing is sent: calls wait for the connection within their time. If
  it broke after a request was sent, a write is unknown, and a read is sent again.
- A read never goes back. Within a session ZooKeeper promises that, on any of its servers. After a
  session was lost, the next server may be behind the last one. So reads ``sync`` until one has.
- ZooKeeper compares only the node's version. The ids (``czxid``, ``mzxid``) are only shown.
- The server's name is checked against its certificate.
- Where the root says which identity has which role (``access.identities``), each node gets the ACL
  of its kind. Elsewhere the address says which clients may use our nodes (``acl``).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.guard import CREATOR_ACL, OPEN_ACL, Acl, NodeGuard
from zonekeeper.metadata.access.guarded import GuardedStore, NodeAcl
from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.layout import OWN_SUFFIX
from zonekeeper.metadata.store.store import (
    Create,
    Session,
    SessionId,
    Versioned,
    Write,
    Written,
    check_writes,
)
from zonekeeper.metadata.store.watching import (
    Key,
    Notice,
    Notices,
    SessionFeed,
    Watched,
    follow,
)
from zonekeeper.metadata.stores import credentials
from zonekeeper.metadata.stores.credentials import Credentials
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.uri import AddressAcl, ZooKeeperAddress
from zonekeeper.metadata.stores.zookeeper_client import Reports, ZooKeeperClient

Answer = TypeVar("Answer")

#: A client that reaches no server has nothing to end there, and waits no longer for its threads.
UNREACHED_STOP_MS: Final = 100
_READ_RETRY_MS: Final = 20

#: So often each server may refuse our certificate, or we its, before the first session.
_DISTRUSTS_EACH: Final = 2
#: Of an entry of an ACL, beside scheme and name.
_ENTRY_FRAMING_BYTES: Final = 12

_logger = logging.getLogger(__name__)


async def open_zookeeper(address: ZooKeeperAddress, timeouts: Timeouts) -> "ZooKeeperStore":
    """Connect, and begin a session."""
    # Each connection reads the files of TLS again; but an error is better reported at once.
    known = await asyncio.to_thread(credentials.read, address)
    store = ZooKeeperStore(address, known, timeouts)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


class ZooKeeperStore(GuardedStore):
    """One client of an ensemble. ``open_zookeeper`` gives a connected one."""

    def __init__(self, address: ZooKeeperAddress, known: Credentials, timeouts: Timeouts) -> None:
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
            distrusted=self._distrusted,
        )
        guard = NodeGuard(
            root=address.root,
            mine=known.identities,
            otherwise=CREATOR_ACL if address.acl is AddressAcl.CREATOR else OPEN_ACL,
        )
        self._client = ZooKeeperClient(address, guard, known.secrets, timeouts, reports)
        #: Where the roles of identities stand.
        self._identities: Final = f"{address.root}{OWN_SUFFIX}/{identities.NAME}"
        #: They were not read yet, or changed since: they are read before a node is made.
        self._is_stale = True
        #: The identities of a root that has none yet.
        self._assumed: Identities | None = None
        #: Why the last attempt to connect was refused; "": it was not.
        self._distrust = ""
        self._distrusts = 0
        self._distrusts_max: Final = _DISTRUSTS_EACH * len(address.servers)

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

    async def _learn(self) -> None:
        """Read which identity has which role, and hear of the next change."""
        key = (Watched.NODE, self._identities)
        self._is_stale = False
        self._notices.arm(key, self._grow_stale)
        try:
            node = await self._client.node(key[1], sync=True, watch=True)
            found = self._assumed if node is None else identities.parse(node.value)
            self._client.guard = self._client.guard.knowing(found)
        except UnreadableError as error:
            self._is_stale = True
            raise errors.UnauthorizedError(
                f"nothing is made while it is unknown which identity has which role: {error}",
                store=self.name,
                path=key[1],
            ) from error
        except BaseException:
            self._is_stale = True
            raise

    def _grow_stale(self) -> None:
        self._is_stale = True

    # ── ACLs ──

    @property
    def guard(self) -> NodeGuard:
        """What this process knows of identities."""
        return self._client.guard

    def assume(self, identities: Identities | None) -> None:
        """Give new nodes the ACLs of these identities, until the root says others."""
        self._assumed = identities
        self._is_stale = True

    async def acl(self, path: str) -> NodeAcl | None:
        """Read a node's ACL."""
        return await self._read(path, lambda _: self._client.acl(path))

    async def set_acl(self, path: str, entries: Acl, *, version: int) -> None:
        """Replace a node's ACL; it is unknown whether one without an answer was replaced."""
        sent = False
        try:
            async with asyncio.timeout(self._request_ms / 1000):
                await self._reach(path)
                sent = True
                await self._client.set_acl(path, entries, version)
        except TimeoutError as late:
            raise self._late(path, maybe_applied=sent) from late

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
                if self._is_stale and any(isinstance(write, Create) for write in writes):
                    await self._learn()
                self._check_ours(writes)
                self._check_size(writes)
                sent = True
                written = await self._client.commit(writes, session)
                self._silent = False
                return written
        except TimeoutError as late:
            raise self._late(path, maybe_applied=sent) from late

    def _check_ours(self, writes: Sequence[Write]) -> None:
        """Refuse to make a ledger that this process may not write."""
        if (shut_out := self.guard.shut_out(writes)) is not None:
            path, why = shut_out
            raise errors.UnauthorizedError(why, store=self.name, path=path)

    def _check_size(self, writes: Sequence[Write]) -> None:
        """Refuse a transaction that is too large with its ACLs: the server would cut us off.

        The ACL of a node that is open to the world is part of what each write is taken for.
        """
        made = [
            self.guard.acl(write.path, write.value) for write in writes if isinstance(write, Create)
        ]
        entries = (entry.identity for acl in made if acl != OPEN_ACL for entry in acl)
        acl_bytes = sum(len(str(one).encode()) + _ENTRY_FRAMING_BYTES for one in entries)
        check_writes(writes, store=self.name, also_bytes=acl_bytes)

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
            why = self._distrust or "the credentials were refused"
            raise errors.UnauthorizedError(why, store=self.name, path=path)

    def _session_changed(self, session: Session) -> None:
        if self._closed:
            return
        if session.connected:
            if self._last_session not in (None, session.id):
                self._behind = True
            self._last_session = session.id
            self._distrust = ""
            self._reached.set()
        elif not self._refused:
            self._reached.clear()
        self._feed.publish(session)

    def _session_granted(self, timeout_ms: int) -> None:
        self.session_timeout_ms = timeout_ms

    def _credentials_refused(self) -> None:
        self._refused = True
        self._reached.set()

    def _distrusted(self, why: str) -> None:
        """Note why a connection was refused. Before the first session it is not tried for ever.

        A process that has a session goes on trying: its files, or the server's, may be renewed.
        """
        if self._closed:
            return
        self._distrusts += 1
        if self._last_session is not None and why != self._distrust:
            _logger.warning("%s: %s; trying again", self.name, why)
        self._distrust = why
        if self._last_session is None and self._distrusts >= self._distrusts_max:
            self._credentials_refused()

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
