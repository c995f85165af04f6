"""The twin of the file system: in memory, and it loses as much as a disk may lose.

The twin keeps three things: the content that the process sees, the content that is *known* to be on
the disk, and every change since. ``crashed`` gives a file system that a power loss may leave:

* All that was synced is there.
* Each write since the last sync is there or not, independent of the others. Some are torn, sector
  by sector.
* Each change of a name since the last ``sync_names`` is there or not.

A test orders errors with ``troubles``: a function that is called before each call and may raise. A
sync that fails drops the changes that it should have made durable, but the process still sees them.
Linux does the same. This is why the bookie must not sync again after an error.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zonekeeper.bookie.disk.files import BLOCK_BYTES, Buffer, Space, check_name
from zonekeeper.bookie.disk.memory_content import Content

SECTOR_BYTES = 512


class CrashChance(Protocol):
    """The part of ``random.Random`` that a crash uses."""

    def random(self) -> float:
        """Give the next number in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBytes:
    """A write of bytes at an offset, not known to be on the disk."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A new length, not known to be on the disk."""

    size: int


@dataclass(slots=True)
class Inode:
    """One file's bytes, without its names."""

    #: The content that the process sees.
    seen: Content = field(default_factory=Content)
    #: The content that a crash cannot take. It is replaced, and never changed.
    durable: Content = field(default_factory=Content)
    #: The changes that are not in ``durable``, oldest first.
    pending: list[WrittenBytes | Resize] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedName:
    """A name given to a file, not known to be on the disk."""

    name: str
    inode: Inode


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """A change of a file's name, not known to be on the disk; a crash leaves one of the two."""

    old: str
    new: str
    inode: Inode


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlink:
    """The removal of a name, not known to be on the disk."""

    name: str


NameChange = LinkedName | Rename | Unlink

#: Called before each call, with the call's kind and the file's name ("" for the folder itself).
Troubles = Callable[[str, str], None]


def no_troubles(kind: str, name: str) -> None:
    """Raise nothing."""
    del kind, name


class MemoryFileSystem:
    """Files in memory. ``troubles`` may be replaced at any time."""

    def __init__(self, *, total_bytes: int = 1 << 40, device: int = 0) -> None:
        """Make an empty folder on a device, which it does not share unless ``device`` says so."""
        self.troubles: Troubles = no_troubles
        self._device = device
        self._total_bytes = total_bytes
        self._seen: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._pending: list[NameChange] = []

    def create(self, name: str) -> "MemoryFile":
        """Create a file and open it."""
        check_name(name)
        self.troubles("create", name)
        if name in self._seen:
            raise FileExistsError(errno.EEXIST, "exists", name)
        inode = self._seen[name] = Inode()
        self._pending.append(LinkedName(name=name, inode=inode))
        return MemoryFile(self, name, inode)

    def create_direct(self, name: str) -> "MemoryFile":
        """Create a file for large aligned writes; a crash may lose these like other writes."""
        file = self.create(name)
        file.is_direct = True
        return file

    def open(self, name: str) -> "MemoryFile":
        """Open a file to read and write."""
        check_name(name)
        self.troubles("open", name)
        return MemoryFile(self, name, self._find(name))

    def names(self) -> list[str]:
        """Give the names of all files, sorted."""
        self.troubles("names", "")
        return sorted(self._seen)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file that had that name is replaced."""
        check_name(new)
        self.troubles("rename", old)
        inode = self._find(old)
        del self._seen[old]
        self._seen[new] = inode
        self._pending.append(Rename(old=old, new=new, inode=inode))

    def remove(self, name: str) -> None:
        """Remove a name."""
        self.troubles("remove", name)
        self._find(name)
        del self._seen[name]
        self._pending.append(Unlink(name=name))

    def sync_names(self) -> None:
        """Make all names, as they are now, durable."""
        try:
            self.troubles("sync_names", "")
        finally:
            # Failed or not, the kernel has nothing left to write: each change is durable or lost.
            pending, self._pending = self._pending, []
        for change in pending:
            _apply_name(self._durable, change)

    def space(self) -> Space:
        """Give the room on the device."""
        self.troubles("space", "")
        free_bytes = self._total_bytes - self._used()
        return Space(total_bytes=self._total_bytes, free_bytes=free_bytes, device=self._device)

    def crashed(self, chance: CrashChance) -> "MemoryFileSystem":
        """Give a file system as one power loss may leave it; this one does not change."""
        after = MemoryFileSystem(total_bytes=self._total_bytes, device=self._device)
        names = dict(self._durable)
        for change in self._pending:
            if chance.random() < _KEPT:
                _apply_name(names, change)
        kept: dict[int, Inode] = {}
        for name in sorted(names):
            inode = names[name]
            if id(inode) not in kept:
                content = after_crash(inode, chance)
                kept[id(inode)] = Inode(seen=content.copied(), durable=content)
            after._seen[name] = after._durable[name] = kept[id(inode)]
        return after

    def _find(self, name: str) -> Inode:
        inode = self._seen.get(name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return inode

    def _used(self) -> int:
        inodes = {id(inode): inode for inode in self._seen.values()}
        return sum(len(inode.seen) for inode in inodes.values())

    def need(self, more: int, name: str) -> None:
        """Raise ENOSPC if ``more`` bytes do not fit on the device."""
        if more > 0 and self._used() + more > self._total_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


class MemoryFile:
    """An open file of a ``MemoryFileSystem``."""

    def __init__(self, files: MemoryFileSystem, name: str, inode: Inode) -> None:
        self._files = files
        self._name = name
        self._inode = inode
        self._closed = False
        self.is_direct = False

    @property
    def name(self) -> str:
        """The file's name when it was opened."""
        return self._name

    def size(self) -> int:
        """Give the file's length in bytes."""
        self._check("size")
        return len(self._inode.seen)

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; less only at the end of the file."""
        self._check("read")
        return self._inode.seen.read(offset, size)

    def read_into(self, offset: int, into: memoryview) -> int:
        """Fill a buffer; give the number of bytes read, less only at the end of the file."""
        data = self.read(offset, len(into))
        into[: len(data)] = data
        return len(data)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after the other, from ``offset`` on; all or an error."""
        self._check("write")
        data = b"".join(buffers)
        assert not self.is_direct or (len(buffers) == 1 and _is_aligned(offset, len(data)))
        self._files.need(offset + len(data) - len(self._inode.seen), self._name)
        change = WrittenBytes(offset=offset, data=data)
        _apply(self._inode.seen, change)
        self._inode.pending.append(change)

    def allocate(self, size: int) -> None:
        """Make the file at least this long; the new part is zeros, with reserved room."""
        self._check("allocate")
        if size > len(self._inode.seen):
            self._files.need(size - len(self._inode.seen), self._name)
            self._resize(size)

    def truncate(self, size: int) -> None:
        """Set the file's length."""
        self._check("truncate")
        self._resize(size)

    def _resize(self, size: int) -> None:
        change = Resize(size=size)
        _apply(self._inode.seen, change)
        self._inode.pending.append(change)

    def sync(self) -> None:
        """Make the file's bytes and length durable."""
        pending = self._inode.pending
        try:
            self._check("sync")
        finally:
            # Failed or not, the kernel has nothing left to write: each change is durable or lost.
            self._inode.pending = []
        content = self._inode.durable.copied()
        for change in pending:
            _apply(content, change)
        self._inode.durable = content

    def close(self) -> None:
        """Close the file; this makes nothing durable."""
        self._closed = True

    def _check(self, kind: str) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._name)
        self._files.troubles(kind, self._name)


def _is_aligned(offset: int, size: int) -> bool:
    return (offset | size) % BLOCK_BYTES == 0


#: The probability that a change that was not synced survives a crash.
_KEPT = 0.5
#: The probability that a write that was not synced is torn: each sector survives by itself.
_TORN = 0.25


def after_crash(inode: Inode, chance: CrashChance) -> Content:
    """Give a file's bytes as one power loss may leave them."""
    content = inode.durable.copied()
    for change in inode.pending:
        if isinstance(change, WrittenBytes) and chance.random() < _TORN:
            for piece in sectors(change):
                if chance.random() < _KEPT:
                    _apply(content, piece)
        elif chance.random() < _KEPT:
            _apply(content, change)
    return content


def sectors(write: WrittenBytes) -> list[WrittenBytes]:
    """Cut a write at the file's sector boundaries; a crash keeps or loses each piece as a whole."""
    pieces = []
    start = 0
    while start < len(write.data):
        room = SECTOR_BYTES - (write.offset + start) % SECTOR_BYTES
        data = write.data[start : start + room]
        pieces.append(WrittenBytes(offset=write.offset + start, data=data))
        start += room
    return pieces


def _apply(content: Content, change: WrittenBytes | Resize) -> None:
    if isinstance(change, Resize):
        content.resize(change.size)
    else:
        content.write(change.offset, change.data)


def _apply_name(names: dict[str, Inode], change: NameChange) -> None:
    if isinstance(change, LinkedName):
        names[change.name] = change.inode
    elif isinstance(change, Unlink):
        names.pop(change.name, None)
    else:
        names.pop(change.old, None)
        names[change.new] = change.inode
