"""The folder of a local cluster: where everything stands, and who may work on it.

::

    local.json          what was started (``local_state``)
    meta.db             the metadata store, or
    zookeeper/          the ZooKeeper server's data and its settings
    bookies/<id>/       what a bookie keeps
    logs/<id>.log       what a process said, all its lives after one another

A folder that holds anything else is not taken, and a purge removes nothing but these. One command
at a time works on a folder.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.shell.local import local_state
from zonekeeper.shell.local.local_shape import Shape
from zonekeeper.shell.local.local_state import LocalState

_META: Final = "meta.db"
_ZOOKEEPER: Final = "zookeeper"
_DATA: Final = "bookies"
_LOGS: Final = "logs"
#: Nothing of a local cluster listens anywhere else.
LOOPBACK: Final = "127.0.0.1"
_FILES: Final = (_META, f"{_META}-wal", f"{_META}-shm", f"{local_state.NAME}.part")


class BadRequestError(Refusal):
    """What was asked for cannot be meant; nothing was done."""


class LocalError(Trouble):
    """It did not work; the message says what is left."""


class Folder:
    """One folder, with a cluster in it or not."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        if "," in str(self.path) or not str(self.path).isprintable():
            raise BadRequestError(
                f"--folder {str(path)!r}: must have no comma and no control characters in its "
                "path, because it stands in the bookies' cookies"
            )

    @property
    def store(self) -> Path:
        """The metadata store's file."""
        return self.path / _META

    @property
    def zookeeper(self) -> Path:
        """Where the ZooKeeper server keeps its data."""
        return self.path / _ZOOKEEPER

    def address(self, state: LocalState) -> str:
        """Give the metadata store's address, for clients."""
        if state.zookeeper_port is not None:
            return f"zk://{LOOPBACK}:{state.zookeeper_port}/ledgers"
        return f"sqlite://{quote(str(self.store))}"

    def data(self, bookie: BookieId) -> Path:
        """Say where a bookie keeps its data."""
        return self.path / _DATA / bookie

    def log(self, name: BookieId) -> Path:
        """Say where a process's words are."""
        return self.path / _LOGS / f"{name}.log"

    def read(self) -> LocalState | None:
        """Read what was started; None: there is no cluster here."""
        try:
            return local_state.read(self.path)
        except local_state.UnreadableStateError as error:
            raise LocalError(str(error)) from error

    def write(self, state: LocalState) -> None:
        """Say what was started."""
        local_state.write(self.path, state)

    def make(self, shape: Shape, zookeeper_port: int | None) -> LocalState:
        """Lay out a new cluster; the folder is there, and empty."""
        if any(self.path.iterdir()):
            raise BadRequestError(
                f"--folder {self.path}: holds other things; give an empty or a new folder"
            )
        state = LocalState(shape=shape, zookeeper_port=zookeeper_port)
        self.write(state)  # first: what is made from here on can be purged
        for part in (_DATA, _LOGS):
            (self.path / part).mkdir()
        return state

    def purge(self) -> None:
        """Remove all that a cluster has here."""
        for part in (_DATA, _LOGS, _ZOOKEEPER):
            if (self.path / part).exists():
                shutil.rmtree(self.path / part)
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        # Last, so that a purge that was interrupted can be asked for again.
        (self.path / local_state.NAME).unlink()
        with contextlib.suppress(OSError):  # somebody put a file of theirs beside ours
            self.path.rmdir()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Work here while nobody else does; the lock goes with the process."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LocalError(
                    f"another command is at work in {self.path}; nothing was done: try again when "
                    "it has ended"
                ) from error
            yield
        finally:
            os.close(folder)
