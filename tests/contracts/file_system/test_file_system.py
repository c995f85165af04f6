"""What every file system of a bookie does: the real one and its twin, held to the same words."""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonekeeper.bookie.disk.files import BLOCK_BYTES, FileSystem, RealFileSystem
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem


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


def test_folders_on_one_device_say_so(tmp_path: Path) -> None:
    folders = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        folders.append(RealFileSystem(tmp_path / name))
    folders.append(RealFileSystem(Path("/proc")))

    here, beside, elsewhere = (folder.space().device for folder in folders)

    assert here == beside != 0
    assert elsewhere != here
    for folder in folders:
        folder.close()


def aligned(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, size))


def test_a_file_for_large_writes_is_read_by_whoever_opens_it(files: FileSystem) -> None:
    file = files.create_direct("a")
    buffer = aligned(2 * BLOCK_BYTES)
    buffer[:] = b"x" * BLOCK_BYTES + b"y" * BLOCK_BYTES

    file.allocate(4 * BLOCK_BYTES)
    file.write(0, [buffer])
    file.write(2 * BLOCK_BYTES, [buffer[:BLOCK_BYTES]])
    file.truncate(2 * BLOCK_BYTES + 3)
    file.sync()

    assert files.open("a").read(BLOCK_BYTES - 1, 3) == b"xyy"
    assert files.open("a").read(2 * BLOCK_BYTES, 100) == b"xxx"
    with pytest.raises(FileExistsError):
        files.create_direct("a")


def test_a_buffer_is_filled_as_far_as_the_file_goes(files: FileSystem) -> None:
    file = files.create("a")
    file.write(0, [b"hello"])
    buffer = bytearray(b"-" * 8)

    assert file.read_into(1, memoryview(buffer)) == 4
    assert buffer == b"ello----"
    assert file.read_into(9, memoryview(buffer)) == 0


def test_a_device_that_refuses_direct_writes_is_written_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    refused: list[int] = []

    def refusing(descriptor: int, data: bytes, offset: int) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(offset)
            raise OSError(errno.EINVAL, "invalid argument")
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", refusing)
    files = RealFileSystem(tmp_path)
    file = files.create_direct("a")
    could = file.is_direct
    file.write(0, [aligned(BLOCK_BYTES)])
    assert not file.is_direct
    assert refused == [0] * could
    file.write(BLOCK_BYTES, [aligned(BLOCK_BYTES)])
    assert file.size() == 2 * BLOCK_BYTES
    files.close()
