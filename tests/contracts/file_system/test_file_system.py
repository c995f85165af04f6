"""What every file system of a bookie does: the real one and its twin, held to the same words."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonekeeper.bookie.files import FileSystem, RealFileSystem
from zonekeeper.bookie.memory_files import MemoryFileSystem


@pytest.fixture(params=["real", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileSystem]:
    if request.param == "memory":
        yield MemoryFileSystem()
        return
    real = RealFileSystem(tmp_path)
    yield real
    real.close()


def test_what_was_written_is_read(files: FileSystem) -> None:
    file = files.create("a")

    file.write(0, [b"hello ", memoryview(b"world")])

    assert file.read(0, 100) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert file.read(11, 1) == b""
    assert file.size() == 11


def test_a_write_behind_the_end_leaves_zeros_between(files: FileSystem) -> None:
    file = files.create("a")

    file.write(3, [b"x"])

    assert file.read(0, 10) == b"\0\0\0x"


def test_more_buffers_than_one_call_takes_are_all_written(files: FileSystem) -> None:
    file = files.create("a")
    buffers = [number.to_bytes(2) for number in range(3000)]

    file.write(1, buffers)

    assert file.read(1, 6000) == b"".join(buffers)


def test_two_handles_see_one_file(files: FileSystem) -> None:
    first = files.create("a")
    second = files.open("a")

    first.write(0, [b"x"])

    assert second.read(0, 1) == b"x"


def test_allocated_room_reads_as_zeros_and_never_shrinks(files: FileSystem) -> None:
    file = files.create("a")
    file.write(0, [b"data"])

    file.allocate(4096)
    file.allocate(10)

    assert file.size() == 4096
    assert file.read(0, 6) == b"data\0\0"


def test_truncation_cuts(files: FileSystem) -> None:
    file = files.create("a")
    file.write(0, [b"data"])

    file.truncate(2)

    assert file.read(0, 10) == b"da"


def test_a_name_is_taken_once(files: FileSystem) -> None:
    files.create("a")

    with pytest.raises(FileExistsError):
        files.create("a")
    with pytest.raises(FileNotFoundError):
        files.open("b")
    with pytest.raises(FileNotFoundError):
        files.remove("b")
    with pytest.raises(FileNotFoundError):
        files.rename("b", "c")


def test_renaming_takes_the_place_of_what_was_there(files: FileSystem) -> None:
    files.create("old").write(0, [b"old"])
    files.create("new").write(0, [b"new"])

    files.rename("new", "old")
    files.sync_names()

    assert files.names() == ["old"]
    assert files.open("old").read(0, 10) == b"new"


def test_an_open_file_outlives_its_name(files: FileSystem) -> None:
    file = files.create("a")
    file.write(0, [b"x"])

    files.remove("a")

    assert files.names() == []
    assert file.read(0, 1) == b"x"


def test_a_closed_file_takes_nothing(files: FileSystem) -> None:
    file = files.create("a")
    file.close()
    file.close()

    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        file.write(0, [b"x"])


def test_there_is_room(files: FileSystem) -> None:
    space = files.space()

    assert 0 < space.free_bytes <= space.total_bytes
