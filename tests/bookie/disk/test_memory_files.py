"""The twin of the disk forgets what it may, keeps what it must, and fails on demand."""

import errno
import itertools
import os
import random

import pytest

from zonekeeper.bookie.disk.memory_files import (
    SECTOR_BYTES,
    MemoryFileSystem,
    WrittenBytes,
    sectors,
)


def contents(files: MemoryFileSystem) -> dict[str, bytes]:
    return {name: files.open(name).read(0, 1 << 20) for name in files.names()}


def crashes(files: MemoryFileSystem, times: int = 300) -> list[dict[str, bytes]]:
    return [contents(files.crashed(random.Random(seed))) for seed in range(times)]


def test_what_was_synced_survives_every_crash() -> None:
    files = MemoryFileSystem()
    file = files.create("a")
    file.write(0, [b"kept"])
    file.sync()
    files.sync_names()

    assert all(after == {"a": b"kept"} for after in crashes(files))


def test_bytes_that_were_not_synced_may_be_lost_kept_or_torn() -> None:
    files = MemoryFileSystem()
    file = files.create("a")
    files.sync_names()
    file.write(0, [b"x" * 2 * SECTOR_BYTES])

    seen = {after["a"] for after in crashes(files)}

    x, zero = b"x" * SECTOR_BYTES, bytes(SECTOR_BYTES)
    assert seen == {b"", x, x + x, zero + x}


def test_any_subset_of_unsynced_writes_may_survive() -> None:
    files = MemoryFileSystem()
    file = files.create("a")
    file.write(0, [b"..."])
    file.sync()
    files.sync_names()
    for offset in range(3):
        file.write(offset, [b"x"])

    seen = {after["a"] for after in crashes(files)}

    assert seen == {bytes(parts) for parts in itertools.product(b".x", repeat=3)}


def test_a_name_that_was_not_synced_may_be_lost_though_its_bytes_were_synced() -> None:
    files = MemoryFileSystem()
    file = files.create("a")
    file.write(0, [b"x"])
    file.sync()

    assert {tuple(after) for after in crashes(files)} == {(), ("a",)}


def test_a_rename_that_was_not_synced_shows_the_old_file_or_the_new_one() -> None:
    files = MemoryFileSystem()
    for name in ("current", "next"):
        file = files.create(name)
        file.write(0, [name.encode()])
        file.sync()
    files.sync_names()
    files.rename("next", "current")

    seen = {tuple(sorted(after.items())) for after in crashes(files)}

    assert seen == {
        (("current", b"current"), ("next", b"next")),
        (("current", b"next"),),
    }


def test_a_removal_that_was_not_synced_may_come_back() -> None:
    files = MemoryFileSystem()
    files.create("a")
    files.sync_names()
    files.remove("a")

    assert {tuple(after) for after in crashes(files)} == {(), ("a",)}


def test_a_crash_leaves_the_running_file_system_as_it_is() -> None:
    files = MemoryFileSystem()
    files.create("a").write(0, [b"x"])

    files.crashed(random.Random(1))

    assert contents(files) == {"a": b"x"}


def test_a_failed_sync_loses_the_bytes_and_the_next_one_does_not_say_so() -> None:
    files = MemoryFileSystem()
    file = files.create("a")
    files.sync_names()
    file.write(0, [b"x"])

    def fail_syncs(kind: str, name: str) -> None:
        if kind == "sync":
            raise OSError(errno.EIO, "input/output error", name)

    files.troubles = fail_syncs
    with pytest.raises(OSError, match="input/output error"):
        file.sync()
    files.troubles = lambda kind, name: None
    file.sync()

    assert contents(files) == {"a": b"x"}
    assert all(after == {"a": b""} for after in crashes(files))


def test_a_full_device_refuses_and_changes_nothing() -> None:
    files = MemoryFileSystem(total_bytes=4)
    file = files.create("a")
    file.write(0, [b"1234"])

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        file.write(2, [b"567"])

    assert contents(files) == {"a": b"1234"}
    assert files.space().free_bytes == 0


def test_a_write_is_torn_at_the_sectors_of_the_file() -> None:
    pieces = sectors(WrittenBytes(offset=SECTOR_BYTES - 1, data=b"a" + b"b" * SECTOR_BYTES + b"c"))

    assert [(piece.offset, piece.data[:1]) for piece in pieces] == [
        (SECTOR_BYTES - 1, b"a"),
        (SECTOR_BYTES, b"b"),
        (2 * SECTOR_BYTES, b"c"),
    ]
