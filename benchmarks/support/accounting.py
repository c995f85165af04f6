"""CPU time of processes: the figure that stays put while other work makes the clock's useless."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
#: Where user and system time stand in ``/proc/<pid>/stat``, counted behind the name in brackets.
_USER_AT, _SYSTEM_AT = 11, 12
#: Where idle time and waiting for the disk stand in the first line of ``/proc/stat``; the times of
#: guests, which are in the others already, stand behind the last.
_IDLE_AT, _WAITING_AT, _TIMES = 3, 4, 8


def cpu_seconds(pids: Iterable[int] = ()) -> float:
    """Give the CPU seconds that this process and others have used so far."""
    return time.process_time() + cpu_seconds_of(pids)


def cpu_seconds_of(pids: Iterable[int]) -> float:
    """Give the CPU seconds that other processes have used so far."""
    return sum(map(_of, pids))


def machine_cpu_seconds() -> float:
    """Give the CPU seconds that all that runs on the machine has used so far."""
    return busy_ticks(Path("/proc/stat").read_text("ascii")) / _TICKS_PER_SECOND


def busy_ticks(stat: str) -> int:
    """Read how long the CPUs were busy; what the machine's host took from them counts, too."""
    times = [int(word) for word in stat.partition("\n")[0].split()[1 : 1 + _TIMES]]
    return sum(times) - times[_IDLE_AT] - times[_WAITING_AT]


def memory_mib(pid: int) -> float:
    """Give the most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def conditions() -> str:
    """Say how busy the machine is: a figure from a busy machine is a worse one."""
    one, five, _ = os.getloadavg()
    return f"{os.cpu_count()} CPUs, load {one:.1f} (1 min), {five:.1f} (5 min)"


def _of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[_USER_AT]) + int(fields[_SYSTEM_AT])) / _TICKS_PER_SECOND
