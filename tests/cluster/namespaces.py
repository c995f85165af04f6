"""A network namespace of the run's own, so that nothing that the lab says leaves it.

The thread that enters it, and all that it starts afterwards, sees one loopback and one bridge; each
pod gets a namespace of its own behind that bridge. The namespace ends with its last process.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000

#: The address of the host side: the API server, ZooKeeper and the tests are reached here.
HOST_ADDRESS = "10.244.0.1"
BRIDGE = "pods0"

_libc = ctypes.CDLL(None, use_errno=True)


class NoNamespaceError(Exception):
    """This user may not make namespaces; the message says what to do."""


@contextmanager
def network() -> Iterator[None]:
    """Move the calling thread into a new network namespace with a bridge, and back at the end."""
    for tool in ("ip", "mount", "unshare"):
        if shutil.which(tool) is None:
            raise NoNamespaceError(f"no `{tool}` on the PATH: install iproute2 and util-linux")
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _unshare(CLONE_NEWNET)
        try:
            _set_up()
            yield
        finally:
            if _libc.setns(before, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot return to the first namespace")
    finally:
        os.close(before)


def _set_up() -> None:
    for line in (
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"addr add {HOST_ADDRESS}/16 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ):
        run("ip", *line.split())


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        error = os.strerror(ctypes.get_errno())
        raise NoNamespaceError(f"cannot make a network namespace ({error}): run the lab as root")


def run(*command: str | Path) -> None:
    """Run a command to its end; its own words are in the error."""
    done = subprocess.run([str(c) for c in command], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
