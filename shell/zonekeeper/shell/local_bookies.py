"""Bookies of a local cluster as processes: started together, ended together.

Starting is all or nothing: if one does not come up, those that were started with it are stopped,
and its own last words are in the error.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from zonekeeper.placement.ids import BookieId
from zonekeeper.shell import local_processes, local_shape
from zonekeeper.shell.local_folder import Folder, LocalError
from zonekeeper.shell.local_processes import Mark
from zonekeeper.shell.local_state import State

#: A bookie that was killed waits for its former session to run out before it registers again.
READY_TIMEOUT_MS: Final = 60_000
#: Longer than a bookie takes to stop in order.
STOP_TIMEOUT_MS: Final = 20_000
KILL_TIMEOUT_MS: Final = 5_000
LAST_WORDS_LINES: Final = 8

_LOOK_EVERY_MS: Final = 50
_WORDS_BYTES_MAX: Final = 64 << 10


def running(state: State) -> dict[BookieId, Mark]:
    """Say which of those that were started still run."""
    return {name: mark for name, mark in state.marks.items() if local_processes.is_running(mark)}


async def start(folder: Folder, state: State, wanted: Iterable[BookieId]) -> tuple[BookieId, ...]:
    """Start those that do not run; returns when each has said that it is ready."""
    there = running(state)
    spoken = {name: _size(folder.log(name)) for name in wanted if name not in there}
    started: dict[BookieId, Mark] = {}
    try:
        for name in spoken:
            arguments = _arguments(folder, state, name)
            started[name] = local_processes.start(arguments, folder.log(name))
            state = state.started(name, started[name])
            folder.write(state)
        await _ready(folder, started, spoken)
    except BaseException:
        await end(started.values(), signal.SIGTERM)
        folder.write(state.stopped(started))
        raise
    return tuple(started)


async def end(marks: Iterable[Mark], how: signal.Signals) -> None:
    """End processes, all at once; who does not follow is killed."""
    left = list(marks)
    for number, timeout_ms in ((how, STOP_TIMEOUT_MS), (signal.SIGKILL, KILL_TIMEOUT_MS)):
        for mark in left:
            local_processes.send(mark, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1_000):
                await asyncio.gather(*(local_processes.ended(mark) for mark in left))
        left = [mark for mark in left if local_processes.is_running(mark)]
        if not left:
            return
    pids = ", ".join(str(mark.pid) for mark in left)
    raise LocalError(f"processes {pids} do not end, not even killed: is their disk still there?")


def _arguments(folder: Folder, state: State, name: BookieId) -> list[str]:
    """Give every setting as a flag, so that none comes from the environment."""
    flags = {
        "--metadata": folder.address,
        "--id": name,
        "--zone": local_shape.places(state.shape)[name].zone,
        "--upgrade-domains": str(state.shape.upgrade_domains),
        "--data": str(folder.data(name)),
        "--listen": "127.0.0.1:0",
        "--advertise": "127.0.0.1",
        "--http": "127.0.0.1:0",
    }
    pairs = [text for pair in flags.items() for text in pair]
    return ["-m", "zonekeeper.shell", "bookie", "run", *pairs]


async def _ready(
    folder: Folder, started: Mapping[BookieId, Mark], spoken: Mapping[BookieId, int]
) -> None:
    """Wait until each has printed its line; raises ``LocalError`` for the first that cannot."""
    waiting = dict(started)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_TIMEOUT_MS / 1_000
    while waiting:
        for name, mark in list(waiting.items()):
            ran = local_processes.is_running(mark)  # before its words: they may be its last
            lines = _lines(folder.log(name), spoken[name])
            if any(line.startswith(f"ready: bookie {name} ") for line in lines):
                del waiting[name]
            elif not ran:
                raise LocalError(_unready(folder, name, "ended", lines))
            elif loop.time() > deadline:
                late = f"was not ready after {READY_TIMEOUT_MS // 1_000} s"
                raise LocalError(_unready(folder, name, late, lines))
        await asyncio.sleep(_LOOK_EVERY_MS / 1_000 if waiting else 0)


def _unready(folder: Folder, name: BookieId, what: str, lines: list[str]) -> str:
    words = "".join(f"\n  {line}" for line in lines[-LAST_WORDS_LINES:]) or " (none)"
    return (
        f"bookie {name} {what}, so what was started with it is stopped again. "
        f"Its last words, from {folder.log(name)}:{words}"
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _lines(path: Path, start: int) -> list[str]:
    """Read what was said from a position on, or the end of it."""
    with path.open("rb") as file:
        file.seek(max(start, _size(path) - _WORDS_BYTES_MAX))
        return file.read(_WORDS_BYTES_MAX).decode(errors="replace").splitlines()
