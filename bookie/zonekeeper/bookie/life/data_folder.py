"""Lock a bookie's folders, for one process at a time: the bookie itself, or one of its tools."""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from zonekeeper.bookie.disk.files import FileSystem, RealFileSystem
from zonekeeper.bookie.life import identity
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.running.processes import explained


class FolderInUseError(Refusal, BlockingIOError):
    """Another process works in the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFolders:
    """All folders of a bookie, open and locked."""

    #: By path; the data folder is under None.
    folders: Mapping[str | None, FileSystem]
    #: The folder for arrival segments, perhaps the data folder.
    journal: FileSystem
    #: The folders for sorted segments, perhaps only the data folder.
    ledgers: Sequence[FileSystem]

    @property
    def data(self) -> FileSystem:
        """The data folder."""
        return self.folders[None]


@contextmanager
def all_held(
    data: Path,
    journal: Path | None,
    ledgers: Sequence[Path],
    *,
    capacity_bytes: int | None = None,
) -> Iterator[HeldFolders]:
    """Open and lock all folders of a bookie; by default each is the data folder.

    ``capacity_bytes``: the stated capacity of each folder; None: that of its device.
    """
    with ExitStack() as stack:
        opened: dict[Path, RealFileSystem] = {}
        for path in (data, journal or data, *ledgers):
            if path not in opened:
                opened[path] = stack.enter_context(held(path, capacity_bytes=capacity_bytes))
        yield HeldFolders(
            folders={None if path == data else str(path): opened[path] for path in opened},
            journal=opened[journal or data],
            ledgers=[opened[path] for path in ledgers or (data,)],
        )


@contextmanager
def held(path: Path, *, capacity_bytes: int | None = None) -> Iterator[RealFileSystem]:
    """Open a folder and lock it for this process; make the folder, but not its parents.

    Raises ``OSError`` with words for a person. The lock ends with the process, in any case.
    """
    with explained(f"{path} cannot be used"):
        path.mkdir(exist_ok=True)
        files = RealFileSystem(path, capacity_bytes=capacity_bytes)
    try:
        with explained(f"{path} cannot be written"):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(path / identity.LOCK_NAME, flags, 0o640)
        try:
            _take(lock, path)
            yield files
        finally:
            os.close(lock)
    finally:
        files.close()


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FolderInUseError(
            f"{path} is in use by another process (a bookie, or one of its tools); stop it, or "
            "give this one its own folder"
        ) from error
