"""A SQLite store has passwords: its owner alone may read its file, unless the owner says so."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonekeeper.metadata.store.store import SessionId
from zonekeeper.metadata.stores.sqlite_file import Lease, StoreFile

_FAR_MS = 1_000_000
_SESSIONS = iter(range(1, 1_000))


def _opened(path: Path) -> StoreFile:
    """A file that is in use: it has its log, and the memory that processes share."""
    file = StoreFile(path, name="sqlite", boot="boot-1", clock_ms=lambda: 0)
    file.open(_FAR_MS)
    file.begin_session(Lease(session=SessionId(next(_SESSIONS)), timeout_ms=1_000), _FAR_MS)
    return file


def _modes(path: Path) -> set[int]:
    files = list(path.parent.iterdir())
    assert len(files) == 3, "the file, its log, and the memory that processes share"
    return {file.stat().st_mode & 0o777 for file in files}


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    """Each test has a umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_s139_only_the_owner_of_a_store_may_read_it(tmp_path: Path) -> None:
    file = _opened(tmp_path / "db")
    assert _modes(tmp_path / "db") == {0o600}
    file.close()


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o640), (0o666, 0o660), (0o640, 0o640)])
def test_s139_an_older_store_is_closed_to_all_but_its_owner_and_its_group(
    tmp_path: Path, before: int, after: int
) -> None:
    older = _opened(tmp_path / "db")
    for file in tmp_path.iterdir():
        file.chmod(before)
    newer = _opened(tmp_path / "db")
    assert _modes(tmp_path / "db") == {after}
    older.close()
    newer.close()
    again = _opened(tmp_path / "db")
    assert _modes(tmp_path / "db") == {after}, "the files beside it are made like it"
    again.close()
