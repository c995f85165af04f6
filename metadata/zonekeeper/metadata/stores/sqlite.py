"""The store for one machine: many processes share a SQLite file, and nothing must be installed.

A store object has two threads, each with a connection of its own: one writes and one reads. So
reads and watches do not wait behind a write that waits for the lock. ``sqlite_file`` says what the
threads do, and how leases work. This module connects the threads to the event loop.

- The store's session is a lease that is renewed three times within its timeout. Once a lease has
  run out, everything that was handed in under its session is refused with ``SessionLostError``,
  even if the process did not know yet. Then a new session begins. Commits are handed to the writing
  thread one at a time, so that a renewal waits behind one commit and not behind all that wait.
- A read always sees the last commit, so ``sync`` has nothing to do here.
- Changes by other processes are noticed by asking SQLite again and again while there are watches
  (``sqlite_polling``). After a write of its own the object looks at once. A look also finds leases
  that have run out. So the nodes of a dead session are removed while any client watches, and not
  only when a client writes.

A store object must not be used across a fork: open it in the process that uses it.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias, TypeVar

from zonekeeper.metadata.store import errors, local_disk
from zonekeeper.metadata.store.store import (
    MetadataStore,
    Session,
    SessionId,
    Versioned,
    Write,
    Written,
)
from zonekeeper.metadata.store.watching import (
    Key,
    Notice,
    SessionFeed,
    Watched,
    follow,
)
from zonekeeper.metadata.stores.sqlite_file import Lease, Stamp, StoreFile
from zonekeeper.metadata.stores.sqlite_polling import Poller, Sight, taken
from zonekeeper.metadata.stores.timeouts import Timeouts

Answer = TypeVar("Answer")

#: A lease is renewed this often within its timeout.
_BEATS_PER_TIMEOUT: Final = 3

#: A call's own limit ends the wait for SQLite's lock. If it takes this much longer, the disk hangs.
_HANGS_AFTER_MS: Final = 1_000

_RETRY_DELAY_MS: Final = 200

_SESSION_BITS: Final = 62
#: An executor raises this once the interpreter is ending, for example in a function of ``atexit``.
#: The file is then released by the end of the process.
_NO_MORE_WORK: Final = RuntimeError

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MOUNTINFO: Final = Path("/proc/self/mountinfo")

Clock: TypeAlias = Callable[[], int]


def monotonic_ms() -> int:
    """Give the time of the clock that all processes of a machine share and no person can set."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


async def open_sqlite(
    path: Path, *, root: str, timeouts: Timeouts, clock_ms: Clock = monotonic_ms
) -> "SqliteStore":
    """Open the store in a file; a missing file is created, but its folder must exist."""
    store = SqliteStore(path, root=root, timeouts=timeouts, clock_ms=clock_ms)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


class SqliteStore(MetadataStore):
    """One user of the file, with one session at a time. ``open_sqlite`` gives a started one."""

    def __init__(self, path: Path, *, root: str, timeouts: Timeouts, clock_ms: Clock) -> None:
        self.name = f"sqlite://{path}"
        self.root = root
        self.session_timeout_ms = timeouts.session_ms
        self._path = path
        self._timeouts = timeouts
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._closed = False
        boot = _boot()
        # Only the threads use the files; this object only says what to do there.
        self._written = StoreFile(path, name=self.name, boot=boot, clock_ms=clock_ms)
        self._read = StoreFile(path, name=self.name, boot=boot, clock_ms=clock_ms)
        self._writer = ThreadPoolExecutor(1, "zonekeeper-sqlite-writer")
        self._reader = ThreadPoolExecutor(1, "zonekeeper-sqlite-reader")
        #: Held while a commit is with the writing thread.
        self._turn = asyncio.Lock()
        #: The session; None while a new one begins.
        self._lease: Lease | None = None
        self._leased = asyncio.Event()
        self._feed = SessionFeed(self.name, Session(id=None, connected=False))
        self._timer: asyncio.TimerHandle | None = None
        self._renewing = False
        self._poller = Poller(self._loop, self._look, self._beat)

    async def start(self) -> None:
        """Open the file and begin a session."""
        deadline_ms = self._clock_ms() + self._timeouts.first_ms
        await self._in(self._writer, partial(_refuse_network, self._path, self.name))
        await self._in(self._writer, partial(self._written.open, deadline_ms))
        await self._in(self._reader, partial(self._read.open, deadline_ms))
        lease = self._new_lease()
        await self._in(self._writer, partial(self._written.begin_session, lease, deadline_ms))
        self._begun(lease)

    # ── the interface ──

    @property
    def session(self) -> Session:
        """The session as of the last renewal of its lease, or of the last write."""
        return self._feed.current

    def watch_session(self) -> AbstractAsyncContextManager[AsyncIterator[Session]]:
        """Follow the session."""
        return self._feed.watch()

    async def close(self) -> None:
        """End the session and release the file; jobs under way there are waited for."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._leased.set()
        self._feed.close()
        self._poller.close()
        lease, self._lease = self._lease, None
        try:
            if lease is not None:
                end = partial(self._written.end_session, lease.session, self._deadline_ms())
                # If this fails, the lease runs out by itself.
                with contextlib.suppress(errors.StoreError, _NO_MORE_WORK):
                    await self._in(self._writer, end)
        finally:
            for thread, file in ((self._writer, self._written), (self._reader, self._read)):
                with contextlib.suppress(_NO_MORE_WORK):
                    thread.submit(file.close)
                thread.shutdown(wait=False)

    async def _get(self, path: str, *, sync: bool) -> Versioned | None:
        del sync  # a read always sees the last commit
        self._require_open()
        state, _ = await self._in(self._reader, partial(self._read.get, path), path)
        return state

    async def _children(self, path: str, *, sync: bool) -> tuple[str, ...] | None:
        del sync
        self._require_open()
        names, _ = await self._in(self._reader, partial(self._read.children, path), path)
        return names

    async def _commit(
        self, writes: Sequence[Write], *, session: SessionId | None
    ) -> tuple[Written, ...]:
        deadline_ms = self._deadline_ms()
        path = writes[0].path
        await self._lease_for(session, path)  # a wait for a session must not hold the turn
        async with self._taking_turns(path):
            lease = await self._lease_for(session, path)
            job = partial(self._written.commit, tuple(writes), lease.session, deadline_ms)
            try:
                written = await self._in(self._writer, job, path, writes=True)
            except errors.SessionLostError:
                self._lost(lease)
                raise
        self._poller.hurry()
        return written

    @contextlib.asynccontextmanager
    async def _taking_turns(self, path: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeouts.request_ms / 1000):
                await self._turn.acquire()
        except TimeoutError as late:
            raise errors.StoreUnavailableError(
                "too much waits to be written", store=self.name, path=path
            ) from late
        try:
            yield
        finally:
            self._turn.release()

    def _watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[Versioned | None]]:
        return self._follow((Watched.NODE, path), partial(self._read.get, path))

    def _watch_children(
        self, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, ...] | None]]:
        return self._follow((Watched.CHILDREN, path), partial(self._read.children, path))

    # ── reading and following ──

    def _follow(
        self, key: Key, look: Callable[[], tuple[Answer, Stamp | None]]
    ) -> AbstractAsyncContextManager[AsyncIterator[Answer]]:
        async def read(notice: Notice) -> Answer:
            self._require_open()
            state, stamp = await self._in(self._reader, look, key[1])
            self._require_open()
            self._poller.arm(key, notice, stamp)
            return state

        return follow(read, lambda notice: self._poller.disarm(key, notice))

    def _look(self, known_version: int | None, paths: Sequence[str]) -> "asyncio.Future[Sight]":
        """See, in the reading thread, the state of these paths, if anything was committed since."""

        def look() -> Sight:
            version = self._read.data_version()
            stamps = {} if version == known_version else self._read.stamps(paths)
            return Sight(version=version, stamps=stamps, overdue=self._read.anybody_overdue())

        return self._loop.run_in_executor(self._reader, look)

    # ── the session ──

    def _new_lease(self) -> Lease:
        session = SessionId(secrets.randbits(_SESSION_BITS) + 1)
        return Lease(session=session, timeout_ms=self._timeouts.session_ms)

    async def _lease_for(self, session: SessionId | None, path: str) -> Lease:
        self._require_open()
        if session is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeouts.request_ms / 1000):
                    await self._leased.wait()
            self._require_open()
            if self._lease is None:
                raise errors.StoreUnavailableError(
                    "no session can be begun", store=self.name, path=path
                )
        if self._lease is None or session not in (None, self._lease.session):
            raise errors.SessionLostError(f"session {session} is over", store=self.name, path=path)
        return self._lease

    def _begun(self, lease: Lease) -> None:
        self._lease = lease
        self._leased.set()
        self._feed.publish(Session(id=lease.session, connected=True))
        self._in_a_while(self._beat, self._timeouts.session_ms // _BEATS_PER_TIMEOUT)

    def _lost(self, lease: Lease) -> None:
        """Replace a session that has ended by a new one; the first caller to notice does it."""
        if lease is not self._lease or self._closed:
            return
        self._lease = None
        self._leased.clear()
        self._feed.publish(Session(id=None, connected=True))
        self._begin_again()

    def _begin_again(self) -> None:
        lease = self._new_lease()
        begin = partial(self._written.begin_session, lease, self._deadline_ms())

        def begun(done: "asyncio.Future[None]") -> None:
            if taken(done, self._closed):
                self._feed.publish(Session(id=None, connected=False))
                self._in_a_while(self._begin_again, _RETRY_DELAY_MS)
            elif not self._closed:
                self._begun(lease)

        self._loop.run_in_executor(self._writer, begin).add_done_callback(begun)

    def _beat(self) -> None:
        """Renew the lease, end leases that have run out, and set the timer for the next time."""
        lease = self._lease
        if lease is None or self._renewing:
            return
        self._renewing = True
        renew = partial(self._written.renew, lease, self._deadline_ms())

        def renewed(done: "asyncio.Future[None]") -> None:
            self._renewing = False
            error = taken(done, self._closed)
            if lease is not self._lease or self._closed:
                return
            if isinstance(error, errors.SessionLostError):
                self._lost(lease)
                return
            self._feed.publish(Session(id=lease.session, connected=error is None))
            delay_ms = self._timeouts.session_ms // _BEATS_PER_TIMEOUT
            self._in_a_while(self._beat, delay_ms if error is None else _RETRY_DELAY_MS)

        self._loop.run_in_executor(self._writer, renew).add_done_callback(renewed)

    def _in_a_while(self, then: Callable[[], None], delay_ms: int) -> None:
        if not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(delay_ms / 1000, then)

    # ── the threads ──

    def _deadline_ms(self) -> int:
        return self._clock_ms() + self._timeouts.request_ms

    async def _in(
        self,
        thread: ThreadPoolExecutor,
        job: Callable[[], Answer],
        path: str = "",
        *,
        writes: bool = False,
    ) -> Answer:
        try:
            async with asyncio.timeout((self._timeouts.request_ms + _HANGS_AFTER_MS) / 1000):
                return await self._loop.run_in_executor(thread, job)
        except TimeoutError as late:
            raise errors.StoreUnavailableError(
                "the disk does not answer", store=self.name, path=path, maybe_applied=writes
            ) from late

    def _require_open(self) -> None:
        if self._closed:
            raise errors.StoreClosedError("is closed", store=self.name)


def _boot() -> str:
    """Give a text that is different after each boot of this machine."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError as error:
        raise errors.BadStoreError(
            f"leases need {_BOOT_ID}, which this system lacks ({error}): use ZooKeeper",
            store="sqlite:",
        ) from error


def _refuse_network(path: Path, name: str) -> None:
    try:
        mountinfo = _MOUNTINFO.read_text()
    except OSError:
        return  # it cannot be known; SQLite's own check of its journal remains
    found = local_disk.network_file_system(PurePosixPath(path.parent.resolve()), mountinfo)
    if found is not None:
        raise errors.BadStoreError(
            f"is on a network file system ({found}), where SQLite's lock and log do not hold:"
            " use a local disk, or ZooKeeper",
            store=name,
        )
