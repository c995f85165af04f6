"""The file system of a bookie: the interface, and the real form.

One ``FileSystem`` is one folder on one device. It has files and no inner folders, so there is one
directory to sync. A file's bytes are durable only after ``File.sync``. A name that is created,
renamed or removed is durable only after ``sync_names``. Before that, a crash may keep any part of
the changes, in any order, torn at any sector.

All calls block, and fail with ``OSError``. Code on an event loop calls them through a
``disks.Disk``. After a failed ``sync`` the state of all bytes since the last successful one is
unknown: the kernel drops them, and reports the error only once. So the bookie must stop after the
error, and must not sync again in the hope of a better result.
"""

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

#: Offset, size and memory of a direct write are multiples of this.
BLOCK_BYTES = 4096

#: Errors of a shortage: room, open files or memory are lacking now. The device itself is well.
SHORTAGES = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM})

#: What a folder with a stated capacity leaves of a disk that others use as well.
DISK_LEFT_BYTES = 64 << 20
#: The unit of ``st_blocks``, whatever the disk's own is.
_COUNTED_BLOCK_BYTES = 512
#: The most buffers of one vectored write on Linux.
_BUFFERS_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The room on the device, shared by all that use the device."""

    total_bytes: int
    free_bytes: int
    #: The device's number: folders with equal numbers share the room. 0: it is not known, and no
    #: other folder shares it.
    device: int = 0


class File(Protocol):
    """An open file. Reads and writes are at explicit offsets; there is no position."""

    @property
    def name(self) -> str:
        """The file's name when it was opened."""
        ...

    @property
    def is_direct(self) -> bool:
        """Do writes bypass the page cache, so that a sync has almost nothing left to write?"""
        ...

    def size(self) -> int:
        """Give the file's length in bytes."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; less only at the end of the file."""
        ...

    def read_into(self, offset: int, into: memoryview) -> int:
        """Fill a buffer; give the number of bytes read, less only at the end of the file."""
        ...

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after the other, from ``offset`` on; all or an error."""
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least this long; the new part is zeros, with reserved room."""
        ...

    def truncate(self, size: int) -> None:
        """Set the file's length."""
        ...

    def sync(self) -> None:
        """Make the file's bytes and length durable."""
        ...

    def close(self) -> None:
        """Close the file; this makes nothing durable. Closing twice is harmless."""
        ...


class FileSystem(Protocol):
    """One folder of one device."""

    def create(self, name: str) -> File:
        """Create a file and open it; ``FileExistsError`` if the name is taken."""
        ...

    def create_direct(self, name: str) -> File:
        """Create a file for large writes that bypass the page cache, if the device allows it.

        Each write is one buffer. The buffer's memory address, its size and its offset are multiples
        of ``BLOCK_BYTES``.
        """
        ...

    def open(self, name: str) -> File:
        """Open a file to read and write; ``FileNotFoundError`` if it does not exist."""
        ...

    def names(self) -> list[str]:
        """Give the names of all files, sorted."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file that had that name is replaced."""
        ...

    def remove(self, name: str) -> None:
        """Remove a name; the bytes are freed when the last open file is closed."""
        ...

    def sync_names(self) -> None:
        """Make all names, as they are now, durable."""
        ...

    def space(self) -> Space:
        """Give the room on the device."""
        ...


class RealFile:
    """A file of the operating system."""

    def __init__(self, name: str, descriptor: int, *, is_direct: bool = False) -> None:
        self._name = name
        self._descriptor = descriptor
        self._is_direct = is_direct

    @property
    def name(self) -> str:
        """The file's name when it was opened."""
        return self._name

    @property
    def is_direct(self) -> bool:
        """Do writes bypass the page cache, so that a sync has almost nothing left to write?"""
        return self._is_direct

    def size(self) -> int:
        """Give the file's length in bytes."""
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; less only at the end of the file."""
        data = self._pread(size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := self._pread(size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_into(self, offset: int, into: memoryview) -> int:
        """Fill a buffer; give the number of bytes read, less only at the end of the file."""
        got = 0
        try:
            while got < len(into):
                more = os.preadv(self._descriptor, [into[got:]], offset + got)
                if not more:
                    break
                got += more
        except OSError as error:
            raise self._named(error) from error
        return got

    def _pread(self, size: int, offset: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise self._named(error) from error

    def _named(self, error: OSError) -> OSError:
        """Add the file's name to an error: the kernel does not give it."""
        return OSError(error.errno, error.strerror, self._name)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after the other, from ``offset`` on; all or an error."""
        if self._is_direct:
            (buffer,) = buffers
            self._write_direct(offset, memoryview(buffer))
            return
        for first in range(0, len(buffers), _BUFFERS_MAX):
            some = buffers[first : first + _BUFFERS_MAX]
            wanted = sum(memoryview(buffer).nbytes for buffer in some)
            done = os.pwritev(self._descriptor, some, offset)
            if done < wanted:
                self._write_rest(offset + done, b"".join(some)[done:])
            offset += wanted

    def _write_direct(self, offset: int, buffer: memoryview) -> None:
        """Write directly. If the device refuses that, use the page cache from now on."""
        assert not (offset | len(buffer)) % BLOCK_BYTES, (offset, len(buffer))
        done = 0
        try:
            done = os.pwrite(self._descriptor, buffer, offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        if done < len(buffer):
            self._go_through_the_cache()
            self._write_rest(offset + done, bytes(buffer[done:]))

    def _go_through_the_cache(self) -> None:
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self._is_direct = False

    def _write_rest(self, offset: int, rest: bytes) -> None:
        """Write the rest after a short write. A short write gives no reason, the next one does."""
        while rest:
            done = os.pwrite(self._descriptor, rest, offset)
            if done == 0:
                raise OSError(errno.EIO, "the device takes no more bytes", self._name)
            offset, rest = offset + done, rest[done:]

    def allocate(self, size: int) -> None:
        """Make the file at least this long; the new part is zeros, with reserved room."""
        if size > 0:
            os.posix_fallocate(self._descriptor, 0, size)

    def truncate(self, size: int) -> None:
        """Set the file's length."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Make the file's bytes and length durable."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file; this makes nothing durable."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class RealFileSystem:
    """A folder of the operating system, which must exist.

    With a stated capacity the folder counts as a device of that size: what its own files take is
    used, and what others keep on the disk is not. The disk itself ends it, too: the folder never
    counts as free what the disk has not, nor the last ``DISK_LEFT_BYTES`` of it.
    """

    def __init__(self, folder: Path, *, capacity_bytes: int | None = None) -> None:
        self._folder = folder
        self._capacity_bytes = capacity_bytes
        self._directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Close the folder."""
        if self._directory >= 0:
            directory, self._directory = self._directory, -1
            os.close(directory)

    def create(self, name: str) -> RealFile:
        """Create a file and open it."""
        return self._open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def create_direct(self, name: str) -> RealFile:
        """Create a file for large writes that bypass the page cache, if the device allows it."""
        file = self.create(name)
        try:
            return self._open(name, os.O_RDWR | os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return self.open(name)
        finally:
            file.close()

    def open(self, name: str) -> RealFile:
        """Open a file to read and write."""
        return self._open(name, os.O_RDWR)

    def _open(self, name: str, flags: int) -> RealFile:
        check_name(name)
        # A link in the folder leads out of it: to a file that is none of ours, or nobody's yet.
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(name, flags, mode=0o640, dir_fd=self._directory)
        except OSError as error:
            if error.errno == errno.ELOOP:
                error.strerror = f"{name} is a symbolic link, and only plain files are opened"
            raise
        return RealFile(name, descriptor, is_direct=bool(flags & os.O_DIRECT))

    def names(self) -> list[str]:
        """Give the names of all files, sorted; folders and links are left out."""
        with os.scandir(self._directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file that had that name is replaced."""
        check_name(old)
        check_name(new)
        os.rename(old, new, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def remove(self, name: str) -> None:
        """Remove a name."""
        check_name(name)
        os.unlink(name, dir_fd=self._directory)

    def sync_names(self) -> None:
        """Make all names, as they are now, durable."""
        os.fsync(self._directory)

    def space(self) -> Space:
        """Give the room on the device; room that is reserved for root does not count as free."""
        found = os.fstatvfs(self._directory)
        free_bytes = found.f_bavail * found.f_frsize
        if self._capacity_bytes is not None:
            return stated(self._capacity_bytes, self._taken_bytes(), free_bytes)
        return Space(
            total_bytes=found.f_blocks * found.f_frsize,
            free_bytes=free_bytes,
            device=os.fstat(self._directory).st_dev,
        )

    def _taken_bytes(self) -> int:
        """Give the bytes of the disk that the files of the folder take, at any depth."""
        taken_bytes = 0
        for _, _, names, directory in os.fwalk(".", dir_fd=self._directory):
            for name in names:
                with suppress(FileNotFoundError):  # removed meanwhile
                    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    taken_bytes += found.st_blocks * _COUNTED_BLOCK_BYTES
        return taken_bytes


def stated(capacity_bytes: int, taken_bytes: int, disk_free_bytes: int) -> Space:
    """Give the room of a folder with a stated capacity, on a disk that has so much left."""
    left_bytes = min(capacity_bytes - taken_bytes, disk_free_bytes - DISK_LEFT_BYTES)
    return Space(total_bytes=capacity_bytes, free_bytes=max(0, left_bytes))


def check_name(name: str) -> None:
    """Assert that a name is plain; another name is a bug of ours, not an error of the disk."""
    assert name not in ("", ".", ".."), name
    assert "/" not in name, name
