"""The CPU time and memory of a process and of all that it started.

A process that has ended is gone from the kernel's table, and its time may go to nobody: a daemon of
Spark ends before its workers. So a clock keeps what it saw of each process last. What began and
ended between two looks is not counted.
"""

import os
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
#: Behind the name in brackets: the parent, user and system time, and when the process began.
_PARENT_AT, _USER_AT, _SYSTEM_AT, _BEGAN_AT = 1, 11, 12, 19


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()


def tree(pid: int) -> dict[int, list[str]]:
    """Give a process and its descendants, with what the kernel says of each."""
    every: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                every[int(folder.name)] = _stat(int(folder.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
    found, todo = {}, [pid]
    while todo:
        one = todo.pop()
        if one in every:
            found[one] = every[one]
            todo += [other for other, stat in every.items() if int(stat[_PARENT_AT]) == one]
    return found


class TreeClock:
    """The CPU time of a process and its descendants, as far as this clock has looked."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        #: By id and begin: an id may come again.
        self._seen: dict[tuple[int, str], int] = {}

    def cpu_s(self) -> float:
        """Look, and give the CPU seconds of all processes that were ever seen."""
        for pid, stat in tree(self._pid).items():
            self._seen[pid, stat[_BEGAN_AT]] = int(stat[_USER_AT]) + int(stat[_SYSTEM_AT])
        return sum(self._seen.values()) / _TICKS_PER_SECOND


def named(pid: int, word: str) -> list[int]:
    """Give the descendants of a process whose command has a word."""
    found = []
    for one in tree(pid):
        try:
            if word in Path(f"/proc/{one}/cmdline").read_text("utf-8", "replace"):
                found.append(one)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def most_mib(pid: int, word: str) -> float:
    """Give the most memory that one descendant has had whose command has a word."""
    most = 0.0
    for one in named(pid, word):
        try:
            lines = Path(f"/proc/{one}/status").read_text("utf-8").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        peaks = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")]
        most = max(most, *peaks)
    return most
