"""How much room each bookie of a local cluster counts as its own.

All bookies of a local cluster are on one disk, and mostly that disk is nearly full of other things.
A bookie that judged the whole disk would be read-only there, and each bookie would count the same
free bytes. So each is told a capacity: an equal part of what the disk has left and of what the
bookies hold already, and never more than ``CAPACITY_BYTES_MAX``. A part is left to the disk's other
users.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zonekeeper.placement.base import units
from zonekeeper.placement.base.troubles import Refusal

#: The most that one bookie is given, however large the disk is.
CAPACITY_BYTES_MAX: Final = 10 << 30
#: The least that a bookie can be told: it prepares some 100 MiB of files, and keeps 64 MiB free.
CAPACITY_BYTES_MIN: Final = 256 << 20
#: Of what is free, this many hundredths are given to all bookies together.
GIVEN_PERCENT: Final = 80


class NoRoomError(Refusal):
    """The disk has too little room left for a cluster of this shape."""


def capacity(free_bytes: int, held_bytes: int, bookies: int) -> int | None:
    """Give the capacity of each of so many bookies, which hold so much; None: too little is left.

    Bookies that hold data are never given too little: they are read-only instead, and can be read.
    """
    given_bytes = (free_bytes + held_bytes) * GIVEN_PERCENT // 100 // bookies
    given_bytes -= given_bytes % units.MIB
    if given_bytes >= CAPACITY_BYTES_MIN:
        return min(given_bytes, CAPACITY_BYTES_MAX)
    return CAPACITY_BYTES_MIN if held_bytes else None


def capacity_in(folder: Path, bookies: int) -> int:
    """Give the capacity of each of the bookies whose data is in this folder."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free_bytes = shutil.disk_usage(there).free
    found = capacity(free_bytes, sum(_taken(folder)), bookies)
    if found is None:
        needed = CAPACITY_BYTES_MIN * bookies * 100 // GIVEN_PERCENT
        raise NoRoomError(
            f"the disk of {folder} has {free_bytes // units.MIB} MiB left, and {bookies} bookies "
            f"need {needed // units.MIB} MiB: make room, give a --folder on another disk, or fewer "
            "--bookies-per-zone"
        )
    return found


def _taken(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            yield path.lstat().st_blocks * 512
