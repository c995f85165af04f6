"""The file behind the SQLite store: what one thread does with one connection, blocking.

One table has the tree, another one the sessions. A transaction first takes the write lock. Then it
ends the sessions whose lease has run out, checks its own session, plans, and writes. So every
decision is based on committed data, and the ephemeral nodes of a dead session are gone before any
write beside them. Just before the commit the lease is checked once more.

**Leases.** A session is a row with a deadline on CLOCK_MONOTONIC, the id of the machine's boot, and
an id. The id is drawn at random and never used again, so it is also the token. A process that was
stopped past its deadline finds its row gone or overdue, and its write is refused before anything is
written. All processes of one machine have one clock, so there is no skew. A process that is stopped
*inside* a transaction holds SQLite's lock, and other processes get "unavailable" until it goes on
or dies. Meanwhile no process can see its lease run out, so nothing is broken by it.

**Journal.** A write-ahead log, because then readers never wait and a commit costs one fsync; and
``synchronous=FULL``, because an acknowledged write must survive a crash of the machine. The log
needs memory that processes share. No network file system has that, so those are refused at opening.

**Access.** The metadata has the passwords of ledgers. So a new file belongs to its owner alone, and
SQLite gives the same mode to the files beside it. A file that an earlier version made is closed to
all users but its owner and its group. An owner who wants a group to use the store says so by the
file's mode.
"""

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import (
    Delete,
    SessionId,
    Versioned,
    Write,
    Written,
    name_of,
    parent_of,
)
from zonekeeper.metadata.stores import tree

#: "zkpr" in ASCII; SQLite's own header has this field for the owner of a file.
_APPLICATION_ID: Final = 0x7A6B7072
_FORMAT: Final = 1

#: The pause between attempts to switch a new file to its journal: SQLite does not wait for that.
_SWITCH_RETRY_SECONDS: Final = 0.02

_OWNER_ONLY: Final = 0o600
#: The file, its write-ahead log, and the memory that processes share.
_SUFFIXES: Final = ("", "-wal", "-shm")

#: A reader waits only while the log is recovered after a crash, or begun again.
_READ_WAIT_MS: Final = 5_000

_SCHEMA: Final = (
    """
    CREATE TABLE node (
        path TEXT NOT NULL PRIMARY KEY,
        parent TEXT NOT NULL,
        value BLOB NOT NULL,
        version INTEGER NOT NULL,
        created_id INTEGER NOT NULL,
        modified_id INTEGER NOT NULL,
        owner INTEGER,
        child_count INTEGER NOT NULL,
        children_made INTEGER NOT NULL,
        children_id INTEGER NOT NULL
    )
    """,
    "CREATE INDEX node_by_parent ON node (parent, path)",
    "CREATE INDEX node_by_owner ON node (owner) WHERE owner IS NOT NULL",
    """
    CREATE TABLE session (
        id INTEGER NOT NULL PRIMARY KEY,
        boot TEXT NOT NULL,
        deadline_ms INTEGER NOT NULL
    )
    """,
    "CREATE TABLE counter (last_change_id INTEGER NOT NULL)",
    "INSERT INTO counter VALUES (0)",
    "INSERT INTO node VALUES ('/', '', x'', 0, 0, 0, NULL, 0, 0, 0)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
)

_READ_NODE: Final = """
    SELECT value, version, created_id, modified_id, owner, child_count, children_made, children_id
    FROM node WHERE path = ?
"""

_WRITE_NODE: Final = """
    INSERT OR REPLACE INTO node (
        path, parent,
        value, version, created_id, modified_id, owner, child_count, children_made, children_id
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

#: Sessions whose lease has run out, or that are of an earlier boot of the machine.
_OVERDUE: Final = "SELECT id FROM session WHERE boot != ? OR deadline_ms <= ? ORDER BY id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Numbers that change when a node, or its children, change; cheap to compare."""

    created_id: int
    modified_id: int
    children_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A session as the file knows it."""

    session: SessionId
    timeout_ms: int


class StoreFile:
    """One connection to the file. The same thread must open, use and close it."""

    def __init__(self, path: Path, *, name: str, boot: str, clock_ms: Callable[[], int]) -> None:
        self._path = path
        self._name = name
        self._boot = boot
        self._clock_ms = clock_ms
        self._connection: sqlite3.Connection | None = None

    # ── the file itself ──

    def open(self, deadline_ms: int) -> None:
        """Connect; create the tables in an empty file; refuse a file that is not ours."""
        _close_to_others(self._path)
        with self._translated():
            self._connection = sqlite3.connect(self._path, isolation_level=None)
            with self._reading():  # one state: another process may be making the tables now
                self._own_or_new()
            self._switch_journal(deadline_ms)
            self._run("PRAGMA synchronous = FULL")
            with self._writing(deadline_ms):
                if self._own_or_new():
                    for statement in _SCHEMA:
                        self._run(statement)
            self._run(f"PRAGMA busy_timeout = {_READ_WAIT_MS}")

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _own_or_new(self) -> bool:
        """Say whether the file is still empty; raise if it belongs to something else."""
        application = self._number("PRAGMA application_id")
        version = self._number("PRAGMA user_version")
        tables = self._number("SELECT count(*) FROM sqlite_master")
        if (application, version) == (_APPLICATION_ID, _FORMAT):
            return False
        if application == _APPLICATION_ID:
            raise errors.BadStoreError(
                f"has format {version}, and this program knows {_FORMAT}: use the newer program",
                store=self._name,
            )
        if tables or application:
            raise errors.BadStoreError(
                "is a SQLite file of something else: give the path of a file of its own",
                store=self._name,
            )
        return True

    def _switch_journal(self, deadline_ms: int) -> None:
        while True:
            try:
                mode = self._run("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or self._clock_ms() >= deadline_ms:
                    raise
                time.sleep(_SWITCH_RETRY_SECONDS)
            else:
                if mode != "wal":
                    raise errors.BadStoreError(
                        f"its file system allows only journal mode {mode}: use a local disk",
                        store=self._name,
                    )
                return

    # ── reading ──

    def get(self, path: str) -> tuple[Versioned | None, Stamp | None]:
        """Read a node, and the stamp to compare its next state with."""
        with self._translated():
            node = self._node(path)
        return (None, None) if node is None else (node.seen(), _stamp(node))

    def children(self, path: str) -> tuple[tuple[str, ...] | None, Stamp | None]:
        """Read a node's children and its stamp, both in one state."""
        with self._translated(), self._reading():
            node = self._node(path)
            if node is None:
                return None, None
            rows = self._run("SELECT path FROM node WHERE parent = ? ORDER BY path", path)
            return tuple(name_of(path) for (path,) in rows), _stamp(node)

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp | None]:
        """Give the stamps that ``get`` would give, without the values."""
        found: dict[str, Stamp | None] = {}
        with self._translated(), self._reading():
            for path in paths:
                row = self._run(
                    "SELECT created_id, modified_id, children_id FROM node WHERE path = ?", path
                ).fetchone()
                found[path] = row and Stamp(
                    created_id=row[0], modified_id=row[1], children_id=row[2]
                )
        return found

    def data_version(self) -> int:
        """Give a number that changes whenever another connection, of any process, has committed."""
        with self._translated():
            return self._number("PRAGMA data_version")

    def anybody_overdue(self) -> bool:
        """Is there a session that the next write will end?"""
        with self._translated():
            return bool(self._overdue())

    # ── writing ──

    def begin_session(self, lease: Lease, deadline_ms: int) -> None:
        """Register a session; its lease runs from now."""
        with self._translated(), self._writing(deadline_ms):
            self._end_overdue()
            self._run(
                "INSERT INTO session VALUES (?, ?, ?)",
                lease.session,
                self._boot,
                self._clock_ms() + lease.timeout_ms,
            )

    def renew(self, lease: Lease, deadline_ms: int) -> None:
        """Let the lease run from now again, and end other sessions whose lease has run out."""
        with self._translated(), self._writing(deadline_ms):
            self._end_overdue()
            self._require(lease.session)
            self._run(
                "UPDATE session SET deadline_ms = ? WHERE id = ?",
                self._clock_ms() + lease.timeout_ms,
                lease.session,
            )

    def end_session(self, session: SessionId, deadline_ms: int) -> None:
        """End a session that its owner gives up; it may have ended already."""
        with self._translated(), self._writing(deadline_ms):
            self._end(session)

    def commit(
        self, writes: Sequence[Write], session: SessionId, deadline_ms: int
    ) -> tuple[Written, ...]:
        """Apply a transaction of a session, or raise its error."""
        with self._translated():
            if self._overdue():
                # Commit this even if the write is refused: a later read must not show a session
                # that this write has found to be over.
                with self._writing(deadline_ms):
                    self._end_overdue()
        with self._translated(), self._writing(deadline_ms):
            self._end_overdue()
            self._require(session)
            written = self._apply(writes, session)
            self._require(session)
            return written

    def _apply(self, writes: Sequence[Write], session: SessionId) -> tuple[Written, ...]:
        change_id = self._number("SELECT last_change_id FROM counter") + 1
        request = tree.TransactionRequest(change_id=change_id, session=session, store=self._name)
        plan = tree.plan(writes, self._node, request)
        for path, node in plan.changes.items():
            if node is None:
                self._run("DELETE FROM node WHERE path = ?", path)
            else:
                self._save(path, node)
        self._run("UPDATE counter SET last_change_id = ?", change_id)
        return plan.written

    def _save(self, path: str, node: tree.Node) -> None:
        self._run(
            _WRITE_NODE,
            path,
            "" if path == "/" else parent_of(path),
            node.value,
            node.version,
            node.created_id,
            node.modified_id,
            node.owner,
            node.child_count,
            node.children_made,
            node.children_id,
        )

    def _node(self, path: str) -> tree.Node | None:
        row = self._run(_READ_NODE, path).fetchone()
        if row is None:
            return None
        value, version, created_id, modified_id, owner, *counts = row
        child_count, children_made, children_id = counts
        return tree.Node(
            value=value,
            version=version,
            created_id=created_id,
            modified_id=modified_id,
            owner=None if owner is None else SessionId(owner),
            child_count=child_count,
            children_made=children_made,
            children_id=children_id,
        )

    # ── sessions ──

    def _end_overdue(self) -> None:
        """End every session whose lease has run out, or that is of an earlier boot."""
        for session in self._overdue():
            self._end(session)

    def _overdue(self) -> list[SessionId]:
        rows = self._run(_OVERDUE, self._boot, self._clock_ms()).fetchall()
        return [SessionId(number) for (number,) in rows]

    def _end(self, session: SessionId) -> None:
        owned = self._run("SELECT path FROM node WHERE owner = ? ORDER BY path", session).fetchall()
        if owned:
            self._apply([Delete(path=path, version=None) for (path,) in owned], session)
        self._run("DELETE FROM session WHERE id = ?", session)

    def _require(self, session: SessionId) -> None:
        lives = self._run(
            "SELECT 1 FROM session WHERE id = ? AND boot = ? AND deadline_ms > ?",
            session,
            self._boot,
            self._clock_ms(),
        ).fetchone()
        if lives is None:
            raise errors.SessionLostError(
                f"the lease of session {session} ran out", store=self._name
            )

    # ── statements and transactions ──

    def _run(self, statement: str, *values: str | bytes | int | None) -> sqlite3.Cursor:
        assert self._connection is not None, "the file is not open"
        return self._connection.execute(statement, values)

    def _in_transaction(self) -> bool:
        """Is a transaction open? SQLite itself rolls it back in some cases, as on a full disk."""
        return self._connection is not None and self._connection.in_transaction

    def _number(self, query: str) -> int:
        return int(self._run(query).fetchone()[0])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Let several statements see one state."""
        self._run("BEGIN")
        try:
            yield
        finally:
            if self._in_transaction():
                self._run("COMMIT")

    @contextlib.contextmanager
    def _writing(self, deadline_ms: int) -> Iterator[None]:
        """Hold the write lock; commit everything that the block does, or nothing."""
        self._run(f"PRAGMA busy_timeout = {max(0, deadline_ms - self._clock_ms())}")
        self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._in_transaction():
                self._run("ROLLBACK")
            raise
        try:
            self._run("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._run("ROLLBACK")
            # It is unknown what reached the disk before the failure.
            raise errors.StoreUnavailableError(
                f"the commit failed: {error}", store=self._name, maybe_applied=True
            ) from error

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors, which come before any commit, into ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: sqlite3.Error) -> errors.StoreError:
        code = _primary_code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return errors.StoreUnavailableError(
                "another process holds its lock for too long", store=self._name
            )
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return errors.BadStoreError(
                f"is no SQLite file, or a damaged one ({error}): restore it", store=self._name
            )
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return errors.UnauthorizedError(
                f"this user may not write it ({error})", store=self._name
            )
        if code == sqlite3.SQLITE_CANTOPEN:
            return errors.BadStoreError(
                "cannot be opened: does its folder exist, and may this user write there?",
                store=self._name,
            )
        return errors.StoreUnavailableError(f"SQLite failed: {error}", store=self._name)


def _stamp(node: tree.Node) -> Stamp:
    return Stamp(
        created_id=node.created_id, modified_id=node.modified_id, children_id=node.children_id
    )


def _primary_code(error: sqlite3.Error) -> int:
    """Give SQLite's basic result code; 0 if the error is from Python's module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _close_to_others(path: Path) -> None:
    """Make the file for its owner alone; take from other users what an earlier version gave them.

    What fails here is left to SQLite, which says why it cannot use the file. Only its owner can
    change a file's mode.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY))
    for suffix in _SUFFIXES:
        with contextlib.suppress(OSError):
            file = path.with_name(path.name + suffix)
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & stat.S_IRWXO:
                file.chmod(mode & ~stat.S_IRWXO)
