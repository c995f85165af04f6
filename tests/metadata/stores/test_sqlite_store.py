"""What only the SQLite store has: its file, its leases, its way to notice what others do."""

import asyncio
import gc
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path, PurePosixPath

import pytest

from tests.support.stores import SqlitePlace
from zonekeeper.metadata.store import errors, local_disk
from zonekeeper.metadata.store.store import Create, Delete, SessionId, Write, Written
from zonekeeper.metadata.stores import sqlite_polling
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.sqlite import SqliteStore, open_sqlite
from zonekeeper.metadata.stores.sqlite_file import Lease, StoreFile
from zonekeeper.metadata.stores.timeouts import Timeouts

_FAR_MS = 1_000_000


#: Its lease is renewed, and others' ended, every twenty minutes.
_RARELY = Timeouts(session_ms=3_600_000)

#: What would never come, ends the test after so long.
_PATIENCE_SECONDS = 30


class Clock:
    """The machine's clock, which all files of a test share."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def _file(path: Path, clock: Clock, boot: str = "boot-1") -> StoreFile:
    file = StoreFile(path, name="sqlite", boot=boot, clock_ms=clock)
    file.open(_FAR_MS)
    return file


def _lease(number: int, timeout_ms: int = 1_000) -> Lease:
    return Lease(session=SessionId(number), timeout_ms=timeout_ms)


def _hold(file: StoreFile, lease: Lease, path: str) -> None:
    file.commit([Create(path=path, ephemeral=True)], lease.session, _FAR_MS)


# ── leases: one clock, two files ──


def test_a_lease_that_is_renewed_in_time_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    file = _file(tmp_path / "db", clock)
    file.begin_session(_lease(1), _FAR_MS)
    _hold(file, _lease(1), "/held")
    for _ in range(10):
        clock.now_ms += 999
        file.renew(_lease(1), _FAR_MS)
    assert file.get("/held")[0] is not None
    file.close()


@pytest.mark.parametrize("late_ms", [1_000, 1_001, 100_000])
def test_who_is_late_is_refused_even_if_nobody_else_was_there(tmp_path: Path, late_ms: int) -> None:
    clock = Clock()
    file = _file(tmp_path / "db", clock)
    file.begin_session(_lease(1), _FAR_MS)
    _hold(file, _lease(1), "/held")
    clock.now_ms += late_ms
    with pytest.raises(errors.SessionLostError) as refused:
        _hold(file, _lease(1), "/other")
    assert not refused.value.maybe_applied
    with pytest.raises(errors.SessionLostError):
        file.renew(_lease(1), _FAR_MS)
    file.begin_session(_lease(2), _FAR_MS)
    assert file.children("/")[0] == ()
    file.close()


def test_anybody_ends_the_sessions_of_the_dead_before_he_writes(tmp_path: Path) -> None:
    clock = Clock()
    dead, living = _file(tmp_path / "db", clock), _file(tmp_path / "db", clock)
    dead.begin_session(_lease(1), _FAR_MS)
    living.begin_session(_lease(2, timeout_ms=5_000), _FAR_MS)
    _hold(dead, _lease(1), "/leader")
    with pytest.raises(errors.NodeExistsError):
        _hold(living, _lease(2), "/leader")
    assert not living.anybody_overdue()
    clock.now_ms += 1_000
    assert living.anybody_overdue()
    _hold(living, _lease(2), "/leader")
    node, _ = dead.get("/leader")
    assert node is not None
    assert node.owner == 2
    with pytest.raises(errors.SessionLostError):
        dead.renew(_lease(1), _FAR_MS)
    dead.close()
    living.close()


def test_a_write_that_the_death_of_another_refuses_is_not_refused_again(tmp_path: Path) -> None:
    """A bookie that starts again removes its former registration, which may go by itself first."""
    clock = Clock()
    dead, living = _file(tmp_path / "db", clock), _file(tmp_path / "db", clock)
    dead.begin_session(_lease(1), _FAR_MS)
    living.begin_session(_lease(2, timeout_ms=5_000), _FAR_MS)
    _hold(dead, _lease(1), "/registered")
    clock.now_ms += 1_000
    node, _ = living.get("/registered")
    assert node is not None, "nobody has ended it yet"
    with pytest.raises(errors.NoNodeError):
        living.commit([Delete(path="/registered", version=node.version)], SessionId(2), _FAR_MS)
    assert living.get("/registered")[0] is None
    dead.close()
    living.close()


def test_who_runs_out_of_time_inside_his_transaction_commits_nothing(tmp_path: Path) -> None:
    clock = Clock()
    file = _file(tmp_path / "db", clock)
    file.begin_session(_lease(1), _FAR_MS)

    class Slow(StoreFile):
        """One whose process is stopped between planning and the commit."""

        def _apply(self, writes: Sequence[Write], session: SessionId) -> tuple[Written, ...]:
            written = super()._apply(writes, session)
            clock.now_ms += 1_000
            return written

    slow = Slow(tmp_path / "db", name="sqlite", boot="boot-1", clock_ms=clock)
    slow.open(_FAR_MS)
    with pytest.raises(errors.SessionLostError) as refused:
        slow.commit([Create(path="/a")], SessionId(1), _FAR_MS)
    assert not refused.value.maybe_applied
    assert file.get("/a")[0] is None
    slow.close()
    file.close()


def test_no_session_survives_a_boot_whatever_the_clock_says(tmp_path: Path) -> None:
    clock = Clock()
    clock.now_ms = 500_000
    before = _file(tmp_path / "db", clock)
    before.begin_session(_lease(1), _FAR_MS)
    _hold(before, _lease(1), "/held")
    before.close()
    clock.now_ms = 3
    after = _file(tmp_path / "db", clock, boot="boot-2")
    with pytest.raises(errors.SessionLostError):
        after.renew(_lease(1), _FAR_MS)
    after.begin_session(_lease(2), _FAR_MS)
    assert after.children("/")[0] == ()
    after.close()


def test_a_lock_that_is_held_for_too_long_is_unavailable_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    clock = Clock()
    file = _file(tmp_path / "db", clock)
    file.begin_session(_lease(1), _FAR_MS)
    holder = sqlite3.connect(tmp_path / "db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.StoreUnavailableError) as late:
        file.commit([Create(path="/a")], SessionId(1), clock.now_ms + 50)
    assert not late.value.maybe_applied
    assert file.get("/a")[0] is None, "readers do not wait for the writer"
    holder.execute("ROLLBACK")
    holder.close()
    file.commit([Create(path="/a")], SessionId(1), clock.now_ms + 50)
    file.close()


def test_a_full_disk_is_called_so_and_nothing_is_written(tmp_path: Path) -> None:
    file = _file(tmp_path / "db", Clock())
    file.begin_session(_lease(1), _FAR_MS)
    before = file._number("PRAGMA page_count")
    assert file._number(f"PRAGMA max_page_count = {before}") == before
    with pytest.raises(errors.StoreUnavailableError, match="disk is full") as full:
        file.commit([Create(path="/a", value=bytes(100_000))], SessionId(1), _FAR_MS)
    assert not full.value.maybe_applied
    file._number(f"PRAGMA max_page_count = {1 << 20}")
    file.commit([Create(path="/a")], SessionId(1), _FAR_MS)
    file.close()


# ── the file ──


def test_a_commit_is_on_the_disk_before_it_is_acknowledged(tmp_path: Path) -> None:
    """No process can lose what the system has buffered: only the setting shows it."""
    file = _file(tmp_path / "db", Clock())
    assert file._number("PRAGMA synchronous") == 2
    assert file._connection is not None
    assert file._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()


async def _refusal(path: Path) -> str:
    with pytest.raises(errors.BadStoreError) as refused:
        await open_store(f"sqlite://{path}")
    return str(refused.value)


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("this is no database, and longer than a header of one hundred bytes" * 9)
    assert "no SQLite file" in await _refusal(text)

    foreign = tmp_path / "foreign.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    assert "something else" in await _refusal(foreign)

    assert text.read_text().startswith("this is no")
    connection = sqlite3.connect(foreign)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()


async def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    store = await open_store(f"sqlite://{tmp_path}/db")
    await store.close()
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    assert "newer program" in await _refusal(tmp_path / "db")


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    message = await _refusal(tmp_path / "absent" / "db")
    assert "folder" in message
    assert str(tmp_path) in message


async def test_what_was_written_is_there_after_a_reopening(tmp_path: Path) -> None:
    address = f"sqlite://{tmp_path}/db"
    store = await open_store(address)
    await store.create("/a/b", b"v", make_parents=True)
    await store.create("/e", ephemeral=True)
    await store.close()
    store = await open_store(address)
    node = await store.get("/a/b")
    assert node is not None
    assert node.value == b"v"
    assert await store.children("/") == ("a",)
    await store.close()


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    stores = await asyncio.gather(*(open_store(f"sqlite://{tmp_path}/db") for _ in range(8)))
    await asyncio.gather(*(store.create(f"/n{n}") for n, store in enumerate(stores)))
    assert len(await stores[0].children("/") or ()) == 8
    for store in stores:
        await store.close()


# ── the store ──


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SqlitePlace]:
    opened = SqlitePlace(tmp_path)
    yield opened
    await opened.close()


async def test_a_lock_that_others_keep_shows_as_out_of_reach_and_then_as_reached(
    place: SqlitePlace,
) -> None:
    await place.open()  # the file and the root are made without haste
    store = await place.open(Timeouts(session_ms=2_000, request_ms=1_000))
    async with store.watch_session() as sessions:
        assert (await anext(sessions)).connected
        holder = sqlite3.connect(place.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert not (await anext(sessions)).connected
        with pytest.raises(errors.StoreUnavailableError):
            await store.create(f"{place.root}/a")
        assert await store.get(place.root) is not None
        holder.execute("ROLLBACK")
        holder.close()
        async for session in sessions:
            if session.connected and session.id is not None:
                break
        # Whether the lease was saved in time or a new session begun, it is known which.
        await store.create(f"{place.root}/b", ephemeral=True)
        node = await store.get(f"{place.root}/b")
        assert node is not None
        assert node.owner == store.session.id


async def test_the_nodes_of_the_dead_go_while_somebody_only_watches(place: SqlitePlace) -> None:
    watcher = await place.open(_RARELY)
    dying = await place.open(Timeouts(session_ms=2_000))
    await dying.create(f"{place.root}/a", ephemeral=True)
    async with watcher.watch(f"{place.root}/a") as states:
        assert await anext(states) is not None
        assert isinstance(dying, SqliteStore)
        assert dying._timer is not None
        dying._timer.cancel()  # as if its process were stopped: nothing renews the lease
        async with asyncio.timeout(_PATIENCE_SECONDS):
            assert await anext(states) is None


async def test_a_refused_write_makes_the_loss_known_without_waiting_for_the_renewal(
    place: SqlitePlace,
) -> None:
    store = await place.open(_RARELY)
    old = store.session.id
    await place.expire(store)
    with pytest.raises(errors.SessionLostError):
        await store.create(f"{place.root}/a")
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await store.create(f"{place.root}/b")
    assert store.session.id not in (None, old)


class Worked:
    """A clock on which time passes only while the writing thread works: 1 ms for 20 looks."""

    def __init__(self) -> None:
        self._looks = 0

    def __call__(self) -> int:
        self._looks += threading.current_thread() is not threading.main_thread()
        return self._looks // 20


async def test_many_waiting_writes_do_not_cost_a_store_its_session(tmp_path: Path) -> None:
    """All of them take longer than the lease lasts; the renewals come in between."""
    store = await open_sqlite(
        tmp_path / "db",
        root="/",
        timeouts=Timeouts(session_ms=30, request_ms=60_000),
        clock_ms=(clock := Worked()),
    )
    began_ms, session = clock(), store.session.id
    await store.create("/held", ephemeral=True)
    await asyncio.gather(*(store.create(f"/n{n}") for n in range(150)))
    assert clock() - began_ms > store.session_timeout_ms, "the test shows nothing"
    assert store.session.id == session
    assert await store.exists("/held")
    await store.close()


async def test_a_renewal_and_a_write_that_find_the_lease_over_are_both_heard(
    place: SqlitePlace,
) -> None:
    store = await place.open(_RARELY)
    assert isinstance(store, SqliteStore)
    await place.expire(store)
    unheard = list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    writing = asyncio.gather(store.create(f"{place.root}/a"), return_exceptions=True)
    await asyncio.sleep(0)
    store._beat()
    (refused,) = await writing
    assert isinstance(refused, errors.SessionLostError)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await store.create(f"{place.root}/b")
    gc.collect()
    assert unheard == []


async def test_a_write_of_a_session_that_is_over_does_not_wait_for_those_that_want_a_new_one(
    place: SqlitePlace,
) -> None:
    store = await place.open(_RARELY)
    assert isinstance(store, SqliteStore)
    assert store._lease is not None
    over = store.session.id
    holder = sqlite3.connect(place.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")  # so that no session can be begun
    store._lost(store._lease)
    waiting = asyncio.ensure_future(store.create(f"{place.root}/a"))
    await asyncio.sleep(0)
    with pytest.raises(errors.SessionLostError):
        await store.create(f"{place.root}/b", session=over)
    assert not waiting.done()
    holder.execute("ROLLBACK")
    holder.close()
    await waiting


async def test_what_a_store_writes_its_own_watches_see_without_waiting_for_the_poll(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_polling, "POLL_EVERY_MS", 3_600_000)
    store = await place.open()
    async with (
        asyncio.timeout(_PATIENCE_SECONDS),
        store.watch(f"{place.root}/a") as states,
        store.watch_children(place.root) as names,
    ):
        assert await anext(states) is None
        assert await anext(names) == ()
        for value in (b"one", b"two"):
            await store.create(f"{place.root}/a", value)
            state = await anext(states)
            assert state is not None
            assert state.value == value
            await store.delete(f"{place.root}/a", version=0)
            assert await anext(states) is None


# ── network file systems ──

_MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /srv/shared rw,nosuid - nfs4 server:/export rw,vers=4.2
31 22 0:27 / /srv/shared/local rw - xfs /dev/vdb rw
32 22 0:28 / /mnt/with\040space rw - cifs //host/share rw
33 22 0:29 / /srv/a rw - fuse.sshfs host: rw
34 22 0:30 / /over rw - nfs server:/x rw
35 22 0:31 / /over rw - tmpfs tmpfs rw
a line that is nothing
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/lib", None),
        ("/srv", None),
        ("/srv/shared", "nfs4"),
        ("/srv/shared/deep/down", "nfs4"),
        ("/srv/sharedish", None),
        ("/srv/shared/local/x", None),
        ("/mnt/with space/x", "cifs"),
        ("/srv/a/b", "fuse.sshfs"),
        ("/over/x", None),
    ],
)
def test_a_network_file_system_is_recognised_by_its_mount(path: str, found: str | None) -> None:
    assert local_disk.network_file_system(PurePosixPath(path), _MOUNTS) == found


@pytest.fixture
def on_nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of which the system says that it comes from another machine."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 0:1 / {tmp_path.resolve()} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr("zonekeeper.metadata.stores.sqlite._MOUNTINFO", mounts)
    return tmp_path


async def test_a_network_file_system_is_refused(on_nfs: Path) -> None:
    assert "network file system (nfs4)" in await _refusal(on_nfs / "db")
    assert await asyncio.to_thread(os.listdir, on_nfs) == ["mountinfo"]
