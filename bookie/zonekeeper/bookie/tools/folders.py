"""Lock the folders of a stopped bookie, so that either a tool or the bookie works on them.

Only the data folder must be given: its cookie names the other folders.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zonekeeper.bookie.disk.files import File, FileSystem, RealFileSystem
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.life import data_folder, identity
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.life.identity import Version
from zonekeeper.bookie.segments import directories
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.placement.base.troubles import Refusal, Trouble


class ToolError(Refusal):
    """A tool cannot do its work; the message says why, and what to do. Nothing was changed."""


class ToolFailedError(Trouble):
    """A tool could not read what it needs; the message says what. Nothing was changed."""


@contextmanager
def held(data: Path, *, lost: str | None = None) -> Iterator[HeldFolders]:
    """Lock the folders of a bookie that was started or prepared before.

    The ``lost`` folder is not checked, and is made if it does not exist.
    """
    if not _is_bookies(data):
        raise ToolError(
            f"--data: {data} is no bookie's data folder: no bookie was ever started or prepared in "
            "it; check that the disk is mounted"
        )
    version = _read(data)
    if version is None:
        with data_folder.all_held(data, None, ()) as alone:
            yield alone
        return
    for other in identity.other_folders(version.cookie):
        if other != lost and not _is_bookies(Path(other)):
            raise ToolError(
                f"{other} belongs to the bookie of {data}, and no bookie was ever started or "
                "prepared in it; check that the disk is mounted. If the disk is lost for good, see "
                "`zonekeeper bookie cookie replace-disk --folder`"
            )
    with open_all(data, version.cookie) as opened:
        for folder, files in opened.folders.items():
            if folder is None or folder != lost:
                _check(folder, files, version.cookie)
        yield opened


@contextmanager
def open_all(data: Path, cookie: Cookie) -> Iterator[HeldFolders]:
    """Lock all folders that a cookie names; missing folders are made."""
    others = identity.other_folders(cookie)

    def path(folder: str) -> Path:
        return Path(folder) if folder in others else data

    with data_folder.all_held(
        data, path(cookie.journal_dirs[0]), [path(each) for each in cookie.ledger_dirs]
    ) as opened:
        yield opened


def open_sorted(held: HeldFolders, last: Checkpoint, number: int) -> File:
    """Open a sorted segment; raises ``FileNotFoundError``.

    If the checkpoint names the segment, it must be in the directory named there. Any other segment
    may be in any directory.
    """
    name = directories.name_of(number)
    counts_in = {each.number: each.directory for each in last.segments}.get(number)
    wanted = held.ledgers if counts_in is None else held.ledgers[counts_in : counts_in + 1]
    for files in wanted:
        try:
            return files.open(name)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"there is no {name} where it should be")


def own_cookie(files: FileSystem) -> Cookie:
    """Read the cookie in the data folder; raises ``ToolError`` if there is none."""
    version = identity.read(files)
    if version is None:
        raise ToolError(
            f"--data: there is no file {identity.VERSION_NAME}: no bookie was ever started here, "
            "or the disk was wiped"
        )
    return version.cookie


def _check(folder: str | None, files: FileSystem, cookie: Cookie) -> None:
    version = identity.read(files)
    if version is None:
        raise ToolError(
            f"{folder} has no file {identity.VERSION_NAME}: the disk was wiped, or is not mounted"
        )
    identity.check(version, folder, cookie)


def _read(data: Path) -> Version | None:
    files = RealFileSystem(data)
    try:
        return identity.read(files)
    finally:
        files.close()


def _is_bookies(folder: Path) -> bool:
    return (folder / identity.LOCK_NAME).is_file()
