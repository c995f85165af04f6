"""A bookie whose disk does one thing wrong; ``python -m tests.faults.faulty_bookie FAULT FLAGS…``.

It is ``zonekeeper bookie run FLAGS…`` with small segments, so that a short load meets all that a
long one does, and with one method of the real file system wrapped. ``FAULT`` is ``none``, or
``operation:prefix:nth:what``: at the nth call of the operation on a file whose name begins so,

- ``die-before``, ``die-after``: the process is killed there, as by ``kill -9``;
- ``die-half``: half of what is to be written is written, then the process is killed;
- ``eio``: the call fails once; ``enospc``: it and all later ones fail;
- ``late``: it and all later ones take their time;
- ``skipped``: it and all later ones do nothing, and say that they did.

With the variable ``FORGETTING`` set, the disk below the file system forgets what was not synced
(``forgetting_disk``), as soon as the test lets it lose power.

The bookie says if it closes a file while one of its threads works on it (``careful_files``).
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from tests.support import careful_files, forgetting_disk
from zonekeeper.bookie.disk.files import RealFile, RealFileSystem
from zonekeeper.bookie.segments import arrivals
from zonekeeper.shell.main import main

NONE = "none"
FORGETTING = "FORGETTING"
#: Much longer than a whole segment takes to arrive.
LATE_S = 2.0

#: Arrival segments are small, and each is rewritten by itself.
SMALL = (
    (arrivals, "SEGMENT_BYTES_MIN", 16 << 20),
    (arrivals, "SEGMENT_BYTES_DEFAULT", 16 << 20),
    (arrivals, "ROUND_SEGMENTS_DEFAULT", 1),
)


def happens(fault: str) -> str:
    """Say what the process says when its fault happens."""
    return f"the fault {fault} happens"


@dataclass(slots=True)
class Fault:
    """Where, when and what."""

    operation: str
    prefix: str
    nth: int
    what: str
    _seen: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        operation, prefix, nth, what = text.split(":")
        return cls(operation, prefix, int(nth), what)

    def __str__(self) -> str:
        return f"{self.operation}:{self.prefix}:{self.nth}:{self.what}"

    def at(self, name: str, call: Callable[[], object], half: Callable[[], object]) -> object:
        """Make a call on a file of this name, or let it go wrong."""
        if not name.startswith(self.prefix):
            return call()
        self._seen += 1
        if self.what == "enospc" and self._seen >= self.nth:
            self._tell()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        if self.what == "late" and self._seen >= self.nth:
            self._tell()
            time.sleep(LATE_S)
            return call()
        if self.what == "skipped" and self._seen >= self.nth:
            self._tell()
            return None
        if self._seen != self.nth:
            return call()
        self._tell()
        match self.what:
            case "eio":
                raise OSError(errno.EIO, os.strerror(errno.EIO), name)
            case "die-half":
                half()
            case "die-after":
                call()
            case _:
                assert self.what == "die-before", self.what
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed")

    def _tell(self) -> None:
        tell(happens(str(self)))

    def plant(self) -> None:
        """Wrap the method."""
        if self.operation in ("write", "sync", "allocate", "truncate"):
            self._plant_on_files()
        else:
            self._plant_on_names()

    def _plant_on_files(self) -> None:
        original = getattr(RealFile, self.operation)

        def method(file: RealFile, *given: object) -> object:
            def half() -> None:
                offset, buffers = given
                assert isinstance(offset, int)
                assert isinstance(buffers, Sequence)
                whole = b"".join(bytes(buffer) for buffer in buffers)
                os.pwrite(file._descriptor, whole[: len(whole) // 2], offset)

            return self.at(file.name, lambda: original(file, *given), half)

        setattr(RealFile, self.operation, method)

    def _plant_on_names(self) -> None:
        original = getattr(RealFileSystem, self.operation)

        def method(files: RealFileSystem, *names: str) -> object:
            def call() -> object:
                return original(files, *names)

            return self.at(names[-1] if names else "", call, call)

        setattr(RealFileSystem, self.operation, method)


def tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    for module, name, value in SMALL:
        setattr(module, name, value)
    if sys.argv[1] != NONE:
        Fault.parse(sys.argv[1]).plant()
    careful_files.plant(tell)
    if FORGETTING in os.environ:
        forgetting_disk.plant()
    main(["bookie", "run", *sys.argv[2:]])
