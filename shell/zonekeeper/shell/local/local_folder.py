"""The folder of a local cluster: its files, and the lock that a command takes.

::

    local.json          what was started (``local_state``)
    meta.db             the metadata store, or
    zookeeper/          the ZooKeeper server's data and its settings
    bookies/<id>/       the data of a bookie
    logs/<id>.log       the output of a process; each start appends to it
    tls/<id>/           of a process, ``admin`` or ``client`` (``local_certificates``)

A new cluster is made only in an empty folder. A purge removes nothing but these files. One command
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

from zonekeeper.client.base import beside_store
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.shell.local import local_state
from zonekeeper.shell.local.local_shape import Shape
from zonekeeper.shell.local.local_state import LocalState

_META: Final = "meta.db"
_ZOOKEEPER: Final = "zookeeper"
_DATA: Final = "bookies"
_LOGS: Final = "logs"
#: All processes of a local cluster listen on this address only.
LOOPBACK: Final = "127.0.0.1"
_FILES: Final = (_META, f"{_META}-wal", f"{_META}-shm", f"{local_state.NAME}.part")


class BadRequestError(Refusal):
    """The request is wrong; nothing was done."""


class LocalError(Trouble):
    """A command on a local cluster failed; the message says what is left."""


class Folder:
    """A folder, with or without a cluster in it."""

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
        """The folder in which the ZooKeeper server keeps its data."""
        return self.path / _ZOOKEEPER

    def address(self, state: LocalState) -> str:
        """Give the metadata store's address, for clients."""
        if state.zookeeper_port is not None:
            return f"zk://{LOOPBACK}:{state.zookeeper_port}/ledgers"
        return f"sqlite://{quote(str(self.store))}"

    @property
    def bookies(self) -> Path:
        """The folder with the data of all bookies; it may not be there yet."""
        return self.path / _DATA

    def data(self, bookie: BookieId) -> Path:
        """Give the folder in which a bookie keeps its data."""
        return self.path / _DATA / bookie

    @property
    def certificates(self) -> Path:
        """The folder with all certificates; it may not be there."""
        return self.path / beside_store.FOLDER

    def log(self, name: BookieId) -> Path:
        """Give the log file of a process."""
        return self.path / _LOGS / f"{name}.log"

    def read(self) -> LocalState | None:
        """Read the state of the cluster; None: there is no cluster in the folder."""
        try:
            return local_state.read(self.path)
        except local_state.UnreadableStateError as error:
            raise LocalError(str(error)) from error

    def write(self, state: LocalState) -> None:
        """Replace the state of the cluster."""
        local_state.write(self.path, state)

    def make(self, shape: Shape, zookeeper_port: int | None) -> LocalState:
        """Lay out a new cluster; the folder must exist and be empty."""
        if any(self.path.iterdir()):
            raise BadRequestError(
                f"--folder {self.path}: holds other things; give an empty or a new folder"
            )
        state = LocalState(shape=shape, zookeeper_port=zookeeper_port)
        self.write(state)  # first, so that what is made from here on can be purged
        for part in (_DATA, _LOGS):
            (self.path / part).mkdir()
        return state

    def purge(self) -> None:
        """Remove all files of the cluster."""
        for part in (_DATA, _LOGS, _ZOOKEEPER, beside_store.FOLDER):
            if (self.path / part).exists():
                shutil.rmtree(self.path / part)
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        # The state goes last, so that an interrupted purge can be repeated.
        (self.path / local_state.NAME).unlink()
        with contextlib.suppress(OSError):  # the folder holds files of the user
            self.path.rmdir()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other commands out of the folder; the lock ends with the process at the latest."""
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
