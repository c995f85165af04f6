"""Processes that outlive the command that started them, and are never mistaken for others.

A process is named by its pid *and* its start time *and* the machine's boot: the kernel may give the
pid again, but not all three. A signal goes through a descriptor of the process. The descriptor is
opened first, and the three are compared then. So if the process ends in between, no other process
gets the signal.
"""

import asyncio
import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.wire.running import logs

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: The places of the state and the start time in ``/proc/<pid>/stat``, counted from 0 behind the
#: name in brackets.
_STATE: Final = 0
_STARTED_AT: Final = 19
_STOPPED: Final = "T"
_SETTINGS: Final = "ZONEKEEPER_"
_PASSED: Final = frozenset(setting.environment for setting in logs.SETTINGS)

#: This interpreter, without the working directory on its path.
PYTHON: Final = (sys.executable, "-P")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """The identity of a process."""

    pid: int
    #: The start time, in clock ticks since the boot.
    started_ticks: int
    boot: str


def start(command: Sequence[str], output: Path) -> ProcessMark:
    """Start a program in a session of its own, so that no terminal's signals reach it.

    Its output is appended to a file. Of the environment variables of our settings it gets those of
    its log only.
    """
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        pid = os.posix_spawn(
            command[0],
            list(command),
            _environment(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, written, 1),
                (os.POSIX_SPAWN_DUP2, written, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(written)
    # It is our child: even after its end, its pid stays its own until it is waited for.
    started_ticks = _started_ticks(pid)
    assert started_ticks is not None, "a child that was not waited for is there"
    return ProcessMark(pid=pid, started_ticks=started_ticks, boot=_boot())


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in ours.items()
        if name in _PASSED or not name.startswith(_SETTINGS)
    }


def is_running(mark: ProcessMark) -> bool:
    """Say whether the process exists and has not ended."""
    with _opened(mark) as process:
        return process is not None and not _has_ended(process)


def is_frozen(mark: ProcessMark) -> bool:
    """Say whether the process exists and is stopped by SIGSTOP."""
    with _opened(mark) as process:
        stat = None if process is None else _stat(mark.pid)
        return stat is not None and stat[_STATE] == _STOPPED


def send(mark: ProcessMark, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended.

    Raises ``PermissionError`` if the process is another user's.
    """
    with _opened(mark) as process:
        if process is not None:
            try:
                signal.pidfd_send_signal(process, number)
            except ProcessLookupError:
                pass
            except PermissionError:
                raise PermissionError(
                    f"process {mark.pid} is another user's, and was not sent {number.name}: "
                    "call this as that user"
                ) from None


async def ended(mark: ProcessMark) -> None:
    """Wait until the process has ended."""
    with _opened(mark) as process:
        if process is None:
            return
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(process, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(process)
        _reap(process)


@contextlib.contextmanager
def _opened(mark: ProcessMark) -> Iterator[int | None]:
    """Give a descriptor of exactly this process; None: the process is gone."""
    try:
        process = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        same = _boot() == mark.boot and _started_ticks(mark.pid) == mark.started_ticks
        yield process if same else None
    finally:
        os.close(process)


def _reap(process: int) -> None:
    """Free the pid of a process that has ended, if it is our child."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOHANG)


def _has_ended(process: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def _started_ticks(pid: int) -> int | None:
    stat = _stat(pid)
    return None if stat is None else int(stat[_STARTED_AT])


def _stat(pid: int) -> list[str] | None:
    """Give the fields of ``/proc/<pid>/stat`` from the state on; None: the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold anything, brackets and spaces included.
    return text.rpartition(")")[2].split()


def _boot() -> str:
    return _BOOT_ID.read_text("ascii").strip()
