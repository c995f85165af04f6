"""A bookie's data folder, held against the bookie: only one of them works on it at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from zonekeeper.bookie import data_folder, identity
from zonekeeper.bookie.files import FileSystem, RealFileSystem
from zonekeeper.metadata import cookies
from zonekeeper.metadata.cookies import Cookie
from zonekeeper.metadata.malformed import UnreadableError

_COOKIE_BYTES_MAX: Final = 1 << 20


class ToolError(Exception):
    """A tool cannot do its work; the message says why, and what to do. Nothing was changed."""


@contextmanager
def held(data: Path) -> Iterator[RealFileSystem]:
    """Hold the data folder of a bookie that was started or prepared once."""
    if not (data / identity.LOCK_NAME).is_file():
        raise ToolError(
            f"--data: {data} is no bookie's data folder: no bookie was ever started or prepared in "
            "it; is the disk mounted?"
        )
    with made(data) as files:
        yield files


@contextmanager
def made(data: Path) -> Iterator[RealFileSystem]:
    """Hold a data folder that is made if there is none, but not what it stands in."""
    with data_folder.held(data) as files:
        yield files


def read_cookie(files: FileSystem) -> Cookie | None:
    """Read the cookie that stands beside the data; None: there is none."""
    try:
        file = files.open(identity.VERSION_NAME)
    except FileNotFoundError:
        return None
    try:
        return cookies.parse(file.read(0, _COOKIE_BYTES_MAX))
    except UnreadableError as error:
        error.where = f"the file {identity.VERSION_NAME}"
        raise
    finally:
        file.close()


def write_cookie(files: FileSystem, cookie: Cookie) -> None:
    """Put a cookie beside the data, whole or not at all."""
    new = f"{identity.VERSION_NAME}.new"
    if new in files.names():
        files.remove(new)
    file = files.create(new)
    try:
        file.write(0, [cookies.render(cookie)])
        file.sync()
    finally:
        file.close()
    files.rename(new, identity.VERSION_NAME)
    files.sync_names()


def own_cookie(files: FileSystem) -> Cookie:
    """Read the cookie that must stand beside the data."""
    cookie = read_cookie(files)
    if cookie is None:
        raise ToolError(
            f"--data: there is no file {identity.VERSION_NAME}: no bookie was ever started here, "
            "or the disk was wiped"
        )
    return cookie
