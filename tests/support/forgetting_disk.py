"""A disk below the real file system of a process, which forgets what was not synced.

The module ``files`` is given another ``os``: each call goes to the operating system, and is noted.
What was synced, and nothing else, is in a *shadow* folder beside the bookie's: ``fdatasync`` brings
a file's bytes there, ``fsync`` of the folder brings the names. So ``RealFile`` and
``RealFileSystem`` run as they are, and a sync that they leave out is missed.

``lose_power`` makes the folder what the shadow says, when the process is dead. That is the worst
that a power loss may leave, and it needs no mount, no rights and no other program. A file system in
user space (FUSE) would see the calls of RocksDB, too. But it may be mounted here and not on every
machine that runs the tests. The index may be lost, so what RocksDB syncs need not be known.
"""

import json
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from zonekeeper.bookie.disk import files
from zonekeeper.bookie.disk.files import Buffer

NAMES: Final = "NAMES"
_Change = Callable[[int], object]


def shadow_of(folder: Path) -> Path:
    """Say where that of a folder is which is on the disk."""
    return folder.parent / f"{folder.name}.synced"


def lose_power(folder: Path, *, kept: Sequence[str] = ()) -> None:
    """Leave of a folder's files what was synced; other folders in it stay."""
    shadow = shadow_of(folder)
    for path in folder.iterdir():
        if path.is_file() and path.name not in kept:
            path.unlink()
    for name, number in _names(shadow).items():
        content = shadow / str(number)
        if content.exists():
            shutil.copyfile(content, folder / name)
        else:
            (folder / name).touch()


def _names(shadow: Path) -> dict[str, int]:
    try:
        found = json.loads((shadow / NAMES).read_text())
    except FileNotFoundError:
        return {}
    return {str(name): int(number) for name, number in found.items()}


class _Folder:
    """A folder that the process has open, and its shadow."""

    def __init__(self, path: Path) -> None:
        self._shadow = shadow_of(path)
        self._shadow.mkdir(exist_ok=True)
        #: The file that has a name now, by a number that is never used again.
        self.files = _names(self._shadow)
        used = [int(each.name) for each in self._shadow.iterdir() if each.name.isdecimal()]
        self._last = max([*used, *self.files.values()], default=0)

    def create(self, name: str) -> None:
        self._last += 1
        self.files[name] = self._last

    def keep_names(self) -> None:
        new = self._shadow / f"{NAMES}.new"
        new.write_text(json.dumps(self.files))
        new.replace(self._shadow / NAMES)

    def keep_bytes(self, number: int, changes: Sequence[_Change]) -> None:
        descriptor = os.open(self._shadow / str(number), os.O_RDWR | os.O_CREAT)
        try:
            for change in changes:
                change(descriptor)
        finally:
            os.close(descriptor)


class ForgettingSystem:
    """Stands for the module ``os`` in ``files``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[int, _Folder] = {}
        #: By descriptor: the folder and the number of an open file.
        self._open: dict[int, tuple[_Folder, int]] = {}
        #: By folder and number: what was changed and not synced.
        self._changes: dict[tuple[_Folder, int], list[_Change]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(
        self, path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
        with self._lock:
            if dir_fd is None:
                self._folders[descriptor] = _Folder(Path(path))
            else:
                folder, name = self._folders[dir_fd], str(path)
                if flags & os.O_CREAT or name not in folder.files:
                    folder.create(name)
                self._open[descriptor] = (folder, folder.files[name])
        return descriptor

    def close(self, descriptor: int) -> None:
        with self._lock:
            self._open.pop(descriptor, None)
            self._folders.pop(descriptor, None)
        os.close(descriptor)

    def pwritev(self, descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        done = os.pwritev(descriptor, buffers, offset)
        data = b"".join(buffers)[:done]
        self._note(descriptor, lambda shadow: os.pwrite(shadow, data, offset))
        return done

    def pwrite(self, descriptor: int, buffer: Buffer, offset: int) -> int:
        done = os.pwrite(descriptor, buffer, offset)
        data = bytes(buffer[:done])
        self._note(descriptor, lambda shadow: os.pwrite(shadow, data, offset))
        return done

    def ftruncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)
        self._note(descriptor, lambda shadow: os.ftruncate(shadow, size))

    def posix_fallocate(self, descriptor: int, offset: int, size: int) -> None:
        os.posix_fallocate(descriptor, offset, size)
        self._note(descriptor, lambda shadow: os.posix_fallocate(shadow, offset, size))

    def fdatasync(self, descriptor: int) -> None:
        with self._lock:
            folder, number = self._open[descriptor]
            changes = self._changes.pop((folder, number), [])
        folder.keep_bytes(number, changes)

    def fsync(self, descriptor: int) -> None:
        with self._lock:
            folder = self._folders.get(descriptor)
            if folder is not None:
                folder.keep_names()
                return
        self.fdatasync(descriptor)

    def rename(self, old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        with self._lock:
            os.rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            folder = self._folders[src_dir_fd]
            folder.files[new] = folder.files.pop(old)

    def unlink(self, name: str, *, dir_fd: int) -> None:
        with self._lock:
            os.unlink(name, dir_fd=dir_fd)
            with suppress(KeyError):
                del self._folders[dir_fd].files[name]

    def _note(self, descriptor: int, change: _Change) -> None:
        with self._lock:
            self._changes.setdefault(self._open[descriptor], []).append(change)


def plant() -> None:
    """Put the disk below the real file system of this process, before it opens a folder."""
    setattr(files, "os", ForgettingSystem())  # noqa: B010 for mypy it is a module
