"""CPU time of processes: the figure that stays put while other work makes the clock's useless."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
#: Where user and system time stand in ``/proc/<pid>/stat``, counted behind the name in brackets.
_USER_AT, _SYSTEM_AT = 11, 12


def cpu_seconds(pids: Iterable[int] = ()) -> float:
    """Give the CPU seconds that this process and others have used so far."""
    return time.process_time() + sum(map(_of, pids))


def conditions() -> str:
    """Say how busy the machine is: a figure from a busy machine is a worse one."""
    one, five, _ = os.getloadavg()
    return f"{os.cpu_count()} CPUs, load {one:.1f} (1 min), {five:.1f} (5 min)"


def _of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[_USER_AT]) + int(fields[_SYSTEM_AT])) / _TICKS_PER_SECOND
