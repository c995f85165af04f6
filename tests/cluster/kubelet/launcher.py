"""Becomes a container's process: enters the pod's network, makes its mounts, then executes it.

Run as ``python launcher.py <spec>`` by the process kubelet; the spec is the JSON of ``Spec``. The
process sees the host's files through an overlay, so what it writes outside its volumes is dropped
with its memory; its volumes are real folders at their real mount paths. It dies with its kubelet,
as processes die with their machine.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
DEVICES = ("null", "zero", "full", "random", "urandom")


class Spec(TypedDict):
    """What to become."""

    network: str  # the file of the pod's network namespace
    scratch: str  # an empty folder; a tmpfs is mounted on it
    mounts: list[tuple[str, str, bool]]  # source, path inside, read-only
    keep: list[str]  # folders that must be visible though they may be on another file system
    command: list[str]
    env: dict[str, str]
    cwd: str
    hostname: str
    log: str


def main() -> None:
    """Follow the spec; does not return."""
    spec: Spec = json.loads(Path(sys.argv[1]).read_text())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    _enter(libc, spec["network"])
    _name(libc, spec["hostname"])
    root = _make_root(spec)
    os.chroot(root)
    os.chdir(spec["cwd"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvpe(spec["command"][0], spec["command"], spec["env"])


def _enter(libc: ctypes.CDLL, network: str) -> None:
    handle = os.open(network, os.O_RDONLY)
    for result in (libc.setns(handle, CLONE_NEWNET), libc.unshare(CLONE_NEWNS)):
        if result != 0:
            raise OSError(ctypes.get_errno(), "cannot enter the pod's namespaces")
    os.close(handle)


def _name(libc: ctypes.CDLL, hostname: str) -> None:
    """Give the container a host name of its own, as its processes ask for it."""
    name = hostname.encode()
    if libc.unshare(CLONE_NEWUTS) != 0 or libc.sethostname(name, len(name)) != 0:
        raise OSError(ctypes.get_errno(), "cannot name the container's host")


def _make_root(spec: Spec) -> str:
    scratch = spec["scratch"]
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "tmpfs", scratch)
    upper, work, root = (f"{scratch}/{name}" for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        Path(folder).mkdir()
    options = f"lowerdir=/,upperdir={upper},workdir={work}"
    _mount("-t", "overlay", "overlay", "-o", options, root)
    # before what is kept, because that may be somewhere under it
    _mount("-t", "tmpfs", "tmpfs", f"{root}/tmp")
    _make_devices(f"{root}/dev")
    for folder in spec["keep"]:
        _bind(folder, root + folder)
    _mount("-t", "proc", "proc", f"{root}/proc")
    for source, path, read_only in spec["mounts"]:
        # /var/run and the like are links; inside the new root they must not lead out of it
        inside = root + os.path.realpath(path)
        _bind(source, inside)
        if read_only:
            _mount("-o", "remount,bind,ro", inside)
    return root


def _make_devices(folder: str) -> None:
    """A container has devices of its own: what is mounted among them is not on the host's."""
    _mount("-t", "tmpfs", "tmpfs", folder)
    for name in DEVICES:
        _bind(f"/dev/{name}", f"{folder}/{name}")
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        Path(f"{folder}/{name}").symlink_to(f"/proc/self/{target}")
    Path(f"{folder}/shm").mkdir(mode=0o1777)


def _bind(source: str, target: str) -> None:
    if Path(source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).touch()
    _mount("--rbind", source, target)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
