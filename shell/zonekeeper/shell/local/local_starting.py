"""Processes of a local cluster: started together, ended together.

Starting is all or nothing: if one process does not become ready, all that were started with it are
stopped. The error shows the last lines of that process's log. A batch of processes begins when the
batch before it is ready.
"""

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

from zonekeeper.client.base import beside_store
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.local import local_processes, local_room, local_shape, local_zookeeper
from zonekeeper.shell.local.local_folder import LOOPBACK, Folder, LocalError
from zonekeeper.shell.local.local_processes import PYTHON, ProcessMark
from zonekeeper.shell.local.local_state import ZOOKEEPER, LocalState
from zonekeeper.wire.identity.callers import Enforcement

#: A bookie that was killed waits for its former session to run out before it registers again.
READY_TIMEOUT_MS: Final = 60_000
#: A bookie takes less time than this to stop in order.
STOP_TIMEOUT_MS: Final = 20_000
KILL_TIMEOUT_MS: Final = 5_000
LAST_WORDS_LINES: Final = 8

_LOOK_EVERY_MS: Final = 50
_WORDS_BYTES_MAX: Final = 64 << 10
_HTTP: Final = re.compile(r"\bhttp (\S+:\d+)")
_LISTEN: Final = f"{LOOPBACK}:0"

#: Takes what is done now, in words.
Tell: TypeAlias = Callable[[str], None]
#: Says whether a process is ready, by its name and the lines of its output.
_IsReady: TypeAlias = Callable[[BookieId, list[str]], bool]


def _told_nobody(_: str) -> None:
    """Say nothing."""


def running(state: LocalState) -> dict[BookieId, ProcessMark]:
    """Give the started processes that still run."""
    return {name: mark for name, mark in state.marks.items() if local_processes.is_running(mark)}


@asynccontextmanager
async def all_or_nothing(
    folder: Folder, state: LocalState, tell: Tell = _told_nobody
) -> AsyncIterator["LocalStart"]:
    """Give a start; if the block fails, the processes that it has started are stopped again.

    ``tell`` is called again and again with how many processes are ready.
    """
    start = LocalStart(folder, state, tell)
    try:
        yield start
    except BaseException:
        await end(start.started.values(), signal.SIGTERM)
        folder.write(start.state.stopped(start.started))
        raise


class LocalStart:
    """The processes that one command starts."""

    def __init__(self, folder: Folder, state: LocalState, tell: Tell) -> None:
        self._folder = folder
        self._tell = tell
        self.state = state
        self.started: dict[BookieId, ProcessMark] = {}

    async def zookeeper(self) -> None:
        """Start the ZooKeeper server, if the cluster has one and it does not run."""
        port = self.state.zookeeper_port
        if port is None or ZOOKEEPER in running(self.state):
            return
        installation = local_zookeeper.find()
        spoken = _size(self._folder.log(ZOOKEEPER))
        self._launch(ZOOKEEPER, local_zookeeper.command(installation, self._folder.zookeeper, port))
        await self._wait({ZOOKEEPER: spoken}, lambda _name, _lines: local_zookeeper.serves(port))

    async def bookies(self, wanted: Iterable[BookieId]) -> None:
        """Start the bookies of ``wanted`` that do not run; returns when all are ready."""
        known = local_shape.places(self.state.shape)
        capacity = local_room.capacity_in(self._folder.bookies, len(known))
        await self._python({name: self._bookie(name, capacity) for name in wanted if name in known})

    async def autorecovery(self, wanted: Iterable[BookieId]) -> None:
        """Start the autorecovery processes of ``wanted``, in the same way as bookies."""
        known = local_shape.autorecovery(self.state.shape)
        await self._python({name: self._autorecovery(name) for name in wanted if name in known})

    async def _python(self, commands: Mapping[BookieId, list[str]]) -> None:
        there = running(self.state)
        wanted = {name: command for name, command in commands.items() if name not in there}
        spoken = {name: _size(self._folder.log(name)) for name in wanted}
        for name, arguments in wanted.items():
            self._launch(name, [*PYTHON, "-m", "zonekeeper.shell", *arguments])
        await self._wait(spoken, self._is_ready)

    def _launch(self, name: BookieId, command: list[str]) -> None:
        mark = local_processes.start(command, self._folder.log(name))
        self.started[name] = mark
        self.state = self.state.started(name, mark)
        self._folder.write(self.state)

    def _bookie(self, name: BookieId, capacity_bytes: int) -> list[str]:
        shape = self.state.shape
        flags = {
            "--metadata": self._folder.address(self.state),
            "--id": name,
            "--zone": local_shape.places(shape)[name].zone,
            "--upgrade-domains": str(shape.upgrade_domains),
            "--data": str(self._folder.data(name)),
            "--listen": _LISTEN,
            "--listen-socket": _LISTEN,
            "--advertise": LOOPBACK,
            "--http": _LISTEN,
            "--capacity": units.size_text(capacity_bytes),
        }
        if shape.tls:
            flags |= {**self._tls(name), "--access": Enforcement.ON.value}
        return ["bookie", "run", *(text for pair in flags.items() for text in pair)]

    def _autorecovery(self, name: BookieId) -> list[str]:
        flags = {
            "--metadata": self._folder.address(self.state),
            "--name": name,
            "--zone": local_shape.autorecovery(self.state.shape)[name],
            "--http": _LISTEN,
        }
        if self.state.shape.tls:
            flags |= self._tls(name)
        return ["autorecovery", "run", *(text for pair in flags.items() for text in pair)]

    def _tls(self, name: BookieId) -> dict[str, str]:
        files = beside_store.files_in(self._folder.certificates / name)
        return {
            "--tls-authority": str(files.authority),
            "--tls-certificate": str(files.certificate),
            "--tls-key": str(files.key),
        }

    def _is_ready(self, name: BookieId, lines: list[str]) -> bool:
        """Has a process printed its ready line? Notes the HTTP address in autorecovery's line."""
        for line in lines:
            if line.startswith(f"ready: bookie {name} "):
                return True
            if line.startswith(f"ready: autorecovery {name} ") and (where := _HTTP.search(line)):
                self.state = self.state.looked_at(name, where[1])
                self._folder.write(self.state)
                return True
        return False

    async def _wait(self, spoken: Mapping[BookieId, int], is_ready: _IsReady) -> None:
        """Wait until all are ready; raises ``LocalError`` for the first that ends or is late."""
        waiting = dict(spoken)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_TIMEOUT_MS / 1_000
        while waiting:
            ready, named = len(spoken) - len(waiting), ", ".join(sorted(waiting))
            self._tell(f"{ready} of {len(spoken)} processes are ready; waiting for {named}")
            for name, begin in list(waiting.items()):
                ran = local_processes.is_running(self.started[name])  # before its log is read
                lines = _lines(self._folder.log(name), begin)
                if is_ready(name, lines):
                    del waiting[name]
                elif not ran:
                    raise LocalError(_unready(self._folder, name, "ended", lines))
                elif loop.time() > deadline:
                    late = f"was not ready after {READY_TIMEOUT_MS // 1_000} s"
                    raise LocalError(_unready(self._folder, name, late, lines))
            await asyncio.sleep(_LOOK_EVERY_MS / 1_000 if waiting else 0)


async def end(marks: Iterable[ProcessMark], how: signal.Signals) -> None:
    """End processes, all at once: a frozen one is thawed, and one that does not end is killed."""
    left = list(marks)
    for number, timeout_ms in ((how, STOP_TIMEOUT_MS), (signal.SIGKILL, KILL_TIMEOUT_MS)):
        for mark in left:
            local_processes.send(mark, number)
            local_processes.send(mark, signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1_000):
                await asyncio.gather(*(local_processes.ended(mark) for mark in left))
        left = [mark for mark in left if local_processes.is_running(mark)]
        if not left:
            return
    pids = ", ".join(str(mark.pid) for mark in left)
    raise LocalError(f"processes {pids} do not end, not even killed: is their disk still there?")


def _unready(folder: Folder, name: BookieId, what: str, lines: list[str]) -> str:
    words = "".join(f"\n  {line}" for line in lines[-LAST_WORDS_LINES:]) or " (none)"
    return (
        f"{name} {what}, so what was started with it is stopped again. "
        f"Its last words, from {folder.log(name)}:{words}"
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _lines(path: Path, start: int) -> list[str]:
    """Read the lines of a log from a position on, or the end of them."""
    with path.open("rb") as file:
        file.seek(max(start, _size(path) - _WORDS_BYTES_MAX))
        return file.read(_WORDS_BYTES_MAX).decode(errors="replace").splitlines()
