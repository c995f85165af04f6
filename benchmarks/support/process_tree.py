"""The CPU time and memory of a process and of all that it started, ended children included."""

import os
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
#: Behind the name in brackets: the parent; then the process's own time, and that of ended children.
_PARENT_AT, _TIMES_FROM, _TIMES_END = 1, 11, 15


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


def cpu_s(pid: int) -> float:
    """Give the CPU seconds of a process and of its descendants, with those that have ended."""
    ticks = [sum(map(int, stat[_TIMES_FROM:_TIMES_END])) for stat in tree(pid).values()]
    return sum(ticks) / _TICKS_PER_SECOND


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
