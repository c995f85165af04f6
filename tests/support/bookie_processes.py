"""Bookies as real processes on any store: started, killed, frozen and thawed by name.

Each has a folder for its data and its words. A bookie is started with every setting as a flag, so
that none comes from the environment, and counts as started once it has said that it is ready. Only
processes that were started here are ever signalled; all of them end with the block.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata import policy_store
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.ids import BookieId, ZoneName
from zonekeeper.placement.policy import Policy

_ROOT: Final = Path(__file__).parents[2]
_READY_SECONDS: Final = 60
_STOP_SECONDS: Final = 20
COMMAND: Final = (sys.executable, "-m", "zonekeeper.shell", "bookie", "run")


async def make_cluster(address: str, policy: Policy) -> None:
    """Make a root with a policy at a store's address."""
    store = await open_store(address)
    try:
        cluster = await clusters.initialise(store, str(uuid.uuid4()))
        await policy_store.write(cluster, policy, replaces=0)
    finally:
        await store.close()


@dataclass(slots=True)
class BookieProcesses:
    """The bookies of one cluster, by their names."""

    address: str
    folder: Path
    zones: Mapping[BookieId, ZoneName]
    upgrade_domains: int
    #: More flags for each, such as a session timeout.
    flags: Mapping[str, str] = field(default_factory=dict)
    _running: dict[BookieId, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, *names: BookieId) -> None:
        """Start those that do not run (without names: all), and wait until each is ready."""
        wanted = [name for name in names or self.zones if name not in self._running]
        for name in wanted:
            self.launch(name, COMMAND)
        for name in wanted:
            assert self.is_ready(name), f"{name} is not ready:\n{self.words(name)}"

    def launch(self, name: BookieId, command: Sequence[str]) -> None:
        """Start one by a command of one's own, which is given the flags of ``bookie run``."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        flags = {
            "--metadata": self.address,
            "--id": name,
            "--zone": self.zones[name],
            "--upgrade-domains": str(self.upgrade_domains),
            "--data": str(folder / "data"),
            "--listen": "127.0.0.1:0",
            "--advertise": "127.0.0.1",
            "--http": "127.0.0.1:0",
            **self.flags,
        }
        with (folder / "log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, *(word for pair in flags.items() for word in pair)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=_ROOT,
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
        return said.startswith(b"ready: ")

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

    def ended(self) -> list[BookieId]:
        """Say which have ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def pids(self) -> list[int]:
        """Give the numbers of the processes that were started and not ended here."""
        return [process.pid for process in self._running.values()]

    def data(self, name: BookieId) -> Path:
        """Say where a bookie's data is."""
        return self.folder / name / "data"

    def words(self, name: BookieId) -> str:
        """Give what a bookie has said on its standard error."""
        return (self.folder / name / "log").read_text(errors="replace")

    def close(self) -> None:
        """End all, at once."""
        for name in list(self._running):
            self.kill(name)


@contextlib.contextmanager
def bookie_processes(
    address: str,
    folder: Path,
    zones: Mapping[BookieId, ZoneName],
    *,
    upgrade_domains: int = 3,
    flags: Mapping[str, str] | None = None,
) -> Iterator[BookieProcesses]:
    """Give the bookies of a cluster that was made, none of them started yet."""
    bookies = BookieProcesses(address, folder, zones, upgrade_domains, flags or {})
    try:
        yield bookies
    finally:
        bookies.close()
