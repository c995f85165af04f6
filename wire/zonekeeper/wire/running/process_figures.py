"""Figures of this process itself, under the names that Prometheus' own clients use.

They come from ``/proc``. A figure that this system does not tell is left out.
"""

import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from zonekeeper.wire.formats.exposition import Family, single

_SELF: Final = Path("/proc/self")
_PAGE_BYTES: Final = resource.getpagesize()
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")

#: Counted from the first field behind the name of the command, which may hold spaces.
_START_TICKS: Final = 19


def families() -> list[Family]:
    """Give the figures."""
    found = []
    for name, (read, help_text) in _FIGURES.items():
        with suppress(OSError, ValueError, IndexError, StopIteration):
            found.append(single(f"process_{name}", read(), help_text))
    return found


def _memory_pages(at: int) -> int:
    return int((_SELF / "statm").read_text("ascii").split()[at])


def _descriptors() -> int:
    return len(os.listdir(_SELF / "fd"))  # noqa: PTH208 a listing of names is all that is wanted


def _start_s() -> float:
    """Give the wall time of the process's start."""
    fields = (_SELF / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    lines = Path("/proc/stat").read_text("ascii").splitlines()
    boot_s = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return boot_s + int(fields[_START_TICKS]) / _TICKS_A_SECOND


_FIGURES: Final[dict[str, tuple[Callable[[], float], str]]] = {
    "cpu_seconds_total": (time.process_time, "CPU time of the process, its threads included."),
    "resident_memory_bytes": (lambda: _memory_pages(1) * _PAGE_BYTES, "Memory in use."),
    "virtual_memory_bytes": (lambda: _memory_pages(0) * _PAGE_BYTES, "Address space in use."),
    "open_fds": (_descriptors, "Open file descriptors."),
    "max_fds": (
        lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "The limit of open file descriptors.",
    ),
    "start_time_seconds": (_start_s, "The start of the process, in seconds since 1970."),
}
