"""The index of a stopped bookie: open it, or build it again.

The index follows from the checkpoint, which names the sorted segments, and from their tables. The
new index is built beside the live one, is compared with it, and replaces it by renaming. A crash
between the renames leaves no index; then the next start builds it again.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats.index import ExtentRow, Index
from zonekeeper.bookie.life import process
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.tools.folders import ToolFailedError
from zonekeeper.wire.formats import errors

_NEW: Final = f"{process.INDEX_NAME}.new"
_OLD: Final = f"{process.INDEX_NAME}.old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference between a new index and the live one."""

    rows: int
    #: None: the live index was not compared; ``problem`` says why.
    live_rows: int | None
    equal: bool
    problem: str


@contextmanager
def live(data: Path) -> Iterator[Index]:
    """Open the live index without a change; make an empty one if there is none."""
    try:
        index = Index(RocksOrdered(data / process.INDEX_NAME))
    except OSError as error:
        raise ToolFailedError(str(error)) from error
    try:
        yield index
    finally:
        index.close()


def rebuild(
    data: Path, held: HeldFolders, *, keep: bool, told: Callable[[str], None]
) -> Comparison:
    """Build the index again, and compare it with the live one; with ``keep``, replace that."""
    new = data / _NEW
    for left in (new, data / _OLD):
        shutil.rmtree(left, ignore_errors=True)
    try:
        index = Index(RocksOrdered(new))
        try:
            told("reading the tables of the sorted segments")
            storage.rebuild_index(held.data, index, held.ledgers)
            told("comparing with the live index")
            found = _compared(data, index)
        finally:
            index.close()
        if keep:
            _swap(data, held.data)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return found


def plain(compared: Comparison, *, kept: bool) -> dict[str, object]:
    """Give a comparison as plain data."""
    return {
        "extents": compared.rows,
        "liveExtents": compared.live_rows,
        "equal": compared.equal,
        "problem": compared.problem or None,
        "inPlace": kept,
    }


def _swap(data: Path, files: FileSystem) -> None:
    place = data / process.INDEX_NAME
    if place.exists():
        place.rename(data / _OLD)
    (data / _NEW).rename(place)
    files.sync_names()
    shutil.rmtree(data / _OLD, ignore_errors=True)


def _compared(data: Path, new: Index) -> Comparison:
    problem = "there is no live index"
    if (data / process.INDEX_NAME).is_dir():
        try:
            with live(data) as index:
                if (index.segments(), index.sweep) == (new.segments(), new.sweep):
                    return _compared_rows(new, index)
                problem = "the live index is behind the checkpoint, as after a crash"
        except (ToolFailedError, errors.IoFailed) as error:
            problem = str(error)
    count = sum(1 for _ in new.rows())
    return Comparison(rows=count, live_rows=None, equal=False, problem=problem)


def _compared_rows(new: Index, old: Index) -> Comparison:
    rows = old_rows = 0
    problem = ""
    for one, other in zip_longest(new.rows(), old.rows()):
        rows += one is not None
        old_rows += other is not None
        if one != other and not problem:
            problem = f"they differ first at {_text(one)} (new) and {_text(other)} (live)"
    return Comparison(rows=rows, live_rows=old_rows, equal=not problem, problem=problem)


def _text(row: ExtentRow | None) -> str:
    if row is None:
        return "the end"
    return f"ledger {row.ledger_id} entries {row.extent.first} to {row.extent.last}"
