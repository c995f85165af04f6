"""The files of one volume, replaced all at once, as a real kubelet writes them.

    tls.crt ──► ..data/tls.crt          a link for each first part of a path
    ..data  ──► ..2                     the link that is replaced, in one rename
    ..2/tls.crt                         the files

A process that opens a path sees the old files or the new ones, and never a part of both, unless it
opens one before the rename and another behind it. Where nothing has changed, nothing is written: a
file then keeps its inode and its times.

A mount of one file (``subPath``) is of the file that the links lead to when it is made. That file
is never written again, so such a mount never changes.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

DATA = "..data"
_NEW = "..data_tmp"


def put(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Make these the files of the volume, and say whether anything has changed."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / DATA
    before = data.resolve() if data.is_symlink() else None
    is_other = before is None or _read(before) != files
    if is_other:
        after = folder / f"..{_number(before) + 1}"
        shutil.rmtree(after, ignore_errors=True)  # a kubelet ended before its rename
        _write(after, files)
        new = folder / _NEW
        new.unlink(missing_ok=True)
        new.symlink_to(after.name)
        new.replace(data)
    # Also where nothing has changed: a kubelet may have ended behind its rename.
    _link(folder, {PurePosixPath(name).parts[0] for name in files})
    for old in folder.glob("..[0-9]*"):
        if old != data.resolve():
            shutil.rmtree(old)
    return is_other


def _number(folder: Path | None) -> int:
    return 0 if folder is None else int(folder.name.removeprefix(".."))


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _read(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _link(folder: Path, names: set[str]) -> None:
    """Let each name lead into the files, and no other name be there."""
    links = (path.name for path in folder.iterdir() if path.is_symlink())
    standing = {name for name in links if not name.startswith("..")}
    for name in names - standing:
        (folder / name).symlink_to(f"{DATA}/{name}")
    for name in standing - names:
        (folder / name).unlink()
