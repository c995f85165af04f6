"""Our own processes in a test, by name: started, killed, frozen and thawed.

Each has a folder for its data and its words. A process is started with every setting as a flag, so
that none comes from the environment, and counts as started once it has said that it is ready. Only
processes that were started here are ever signalled.
"""

import abc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.checkout_root import ROOT
from zonekeeper.placement.base.ids import BookieId

#: On a busy machine a start took more than 60 s; a process that ends instead is not waited for.
_READY_SECONDS: Final = 300
_STOP_SECONDS: Final = 60
SHELL: Final = (sys.executable, "-m", "zonekeeper.shell")


@dataclass(slots=True, kw_only=True)
class ReadyProcesses(abc.ABC):
    """Processes of one kind; a subclass says how each is started."""

    folder: Path
    _running: dict[BookieId, subprocess.Popen[bytes]] = field(default_factory=dict)
    #: What each said when it was ready.
    _said: dict[BookieId, str] = field(default_factory=dict)

    @property
    @abc.abstractmethod
    def command(self) -> Sequence[str]:
        """The command that runs one."""

    @abc.abstractmethod
    def settings(self, name: BookieId) -> Mapping[str, str]:
        """The flags of one."""

    @abc.abstractmethod
    def names(self) -> Iterable[BookieId]:
        """Name all that there may be."""

    def start(self, *names: BookieId) -> None:
        """Start those that do not run (without names: all), and wait until each is ready."""
        wanted = [name for name in names or self.names() if name not in self._running]
        for name in wanted:
            self.launch(name, self.command)
        for name in wanted:
            assert self.is_ready(name), f"{name} is not ready:\n{self.words(name)}"

    def launch(self, name: BookieId, command: Sequence[str]) -> None:
        """Start one by the given command, with the usual flags."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        flags = self.settings(name)
        with (folder / "log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, *(word for pair in flags.items() for word in pair)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
            )

    def is_ready(self, name: BookieId) -> bool:
        """Wait until it says that it is ready; False: it has ended instead, or takes too long."""
        process = self._running[name]
        assert process.stdout is not None
        said = b""
        while not said.endswith(b"\n"):
            there, _, _ = select.select([process.stdout], [], [], _READY_SECONDS)
            more = os.read(process.stdout.fileno(), 4096) if there else b""
            if not more:
                return False
            said += more
        self._said[name] = said.decode()
        return said.startswith(b"ready: ")

    def said(self, name: BookieId) -> str:
        """Give what it said when it was ready."""
        return self._said[name]

    def kill(self, name: BookieId) -> None:
        """End a process at once, as a crash would."""
        process = self._running.pop(name)
        process.kill()
        process.communicate()

    def stop(self, name: BookieId) -> None:
        """End a process in order."""
        process = self._running.pop(name)
        process.terminate()
        process.communicate(timeout=_STOP_SECONDS)

    def freeze(self, name: BookieId) -> None:
        """Stop a process where it is; ``thaw`` lets it go on."""
        self._running[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: BookieId) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def running(self) -> list[BookieId]:
        """Name those that were started and not ended here."""
        return list(self._running)

    def ended(self) -> list[BookieId]:
        """Say which have ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def pids(self) -> list[int]:
        """Give the numbers of the processes that were started and not ended here."""
        return [process.pid for process in self._running.values()]

    def words(self, name: BookieId) -> str:
        """Give what a process has said on its standard error."""
        return (self.folder / name / "log").read_text(errors="replace")

    def close(self) -> None:
        """End all, at once."""
        for name in list(self._running):
            self.kill(name)
