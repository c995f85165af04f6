"""What a power loss takes and leaves: the twin's disk, and the real file system's, by its calls.

The real file system runs on a disk that forgets what was not synced. So it is held to each system
call that makes something durable: a ``sync`` that does nothing would lose what was written.
"""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from tests.support import forgetting_disk
from zonekeeper.bookie.disk import files as file_systems
from zonekeeper.bookie.disk.files import BLOCK_BYTES, File, FileSystem, RealFileSystem
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem


class Machine(Protocol):
    """A file system, and what a power loss leaves of it at the worst."""

    files: FileSystem

    def lose_power(self) -> dict[str, bytes]:
        """Give what is there afterwards."""
        ...


class _Worst:
    """Chance that keeps nothing of what may be lost."""

    def random(self) -> float:
        return 1.0


class InMemory:
    def __init__(self) -> None:
        self._memory = MemoryFileSystem()
        self.files: FileSystem = self._memory

    def lose_power(self) -> dict[str, bytes]:
        after = self._memory.crashed(_Worst())
        return {name: after.open(name).read(0, 1 << 20) for name in after.names()}


class OnForgettingDisk:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        patch.setattr(file_systems, "os", forgetting_disk.ForgettingSystem())
        self._folder = folder
        self.files: FileSystem = RealFileSystem(folder)

    def lose_power(self) -> dict[str, bytes]:
        forgetting_disk.lose_power(self._folder)
        return {path.name: path.read_bytes() for path in self._folder.iterdir()}


@pytest.fixture(params=["real", "memory"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    if request.param == "memory":
        return InMemory()
    return OnForgettingDisk(tmp_path / "data", monkeypatch)


def test_what_was_synced_stays(machine: Machine) -> None:
    file = machine.files.create("a")
    machine.files.sync_names()
    file.write(0, [b"one", b" and "])
    file.write(8, [b"two"])
    file.sync()

    assert machine.lose_power() == {"a": b"one and two"}


def test_bytes_that_were_not_synced_go(machine: Machine) -> None:
    file = machine.files.create("a")
    machine.files.sync_names()
    file.write(0, [b"one"])
    file.sync()
    file.write(0, [b"two"])

    assert machine.lose_power() == {"a": b"one"}


def test_a_name_that_was_not_synced_goes(machine: Machine) -> None:
    machine.files.create("a")
    machine.files.sync_names()
    file = machine.files.create("b")
    file.write(0, [b"x"])
    file.sync()

    assert machine.lose_power() == {"a": b""}


@pytest.mark.parametrize("synced", [False, True])
def test_a_rename_stays_once_the_names_are_synced(machine: Machine, synced: bool) -> None:
    for name, data in (("current", b"old"), ("next", b"new")):
        file = machine.files.create(name)
        file.write(0, [data])
        file.sync()
    machine.files.sync_names()
    machine.files.rename("next", "current")
    if synced:
        machine.files.sync_names()

    before = {"current": b"old", "next": b"new"}
    assert machine.lose_power() == ({"current": b"new"} if synced else before)


@pytest.mark.parametrize("synced", [False, True])
def test_a_removal_stays_once_the_names_are_synced(machine: Machine, synced: bool) -> None:
    machine.files.create("a")
    machine.files.sync_names()
    machine.files.remove("a")
    if synced:
        machine.files.sync_names()

    assert machine.lose_power() == ({} if synced else {"a": b""})


@pytest.mark.parametrize(
    ("change", "size"),
    [(File.allocate, 5_000), (File.truncate, 2)],
    ids=["allocate", "truncate"],
)
@pytest.mark.parametrize("synced", [False, True])
def test_a_length_stays_once_it_is_synced(
    machine: Machine, change: Callable[[File, int], None], size: int, synced: bool
) -> None:
    file = machine.files.create("a")
    machine.files.sync_names()
    file.write(0, [b"1234"])
    file.sync()
    getattr(file, change.__name__)(size)
    if synced:
        file.sync()

    assert len(machine.lose_power()["a"]) == (size if synced else 4)


def test_a_direct_write_stays_once_it_is_synced(machine: Machine) -> None:
    file = machine.files.create_direct("a")
    machine.files.sync_names()
    block = mmap.mmap(-1, BLOCK_BYTES)
    block.write(b"x" * BLOCK_BYTES)
    file.write(0, [memoryview(block)])
    file.sync()

    assert machine.lose_power() == {"a": b"x" * BLOCK_BYTES}


def test_another_handle_of_a_file_syncs_what_the_first_one_wrote(machine: Machine) -> None:
    file = machine.files.create("a")
    machine.files.sync_names()
    file.write(0, [b"one"])
    file.close()
    machine.files.open("a").sync()

    assert machine.lose_power() == {"a": b"one"}


def test_the_system_calls_are_of_the_very_file_and_of_the_very_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[str, int]] = []

    def noted(name: str) -> Callable[[int], None]:
        call = getattr(os, name)

        def method(descriptor: int) -> None:
            called.append((name, os.fstat(descriptor).st_ino))
            call(descriptor)

        return method

    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, noted(name))
    real = RealFileSystem(tmp_path)
    first, second = real.create("a"), real.create("b")

    second.sync()
    real.sync_names()
    first.sync()

    inodes = [path.stat().st_ino for path in (tmp_path / "b", tmp_path, tmp_path / "a")]
    assert called == list(zip(("fdatasync", "fsync", "fdatasync"), inodes, strict=True))
    for file in (first, second, real):
        file.close()
