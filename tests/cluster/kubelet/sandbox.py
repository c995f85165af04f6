"""A pod's sandbox: a network namespace of its own behind the lab's bridge, and its containers.

The namespace is held by a process that only sleeps, as a pause container holds a pod's.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cluster import namespaces
from tests.cluster.processes import until
from tests.support.checkout_root import ROOT

LAUNCHER = Path(__file__).with_name("launcher.py")
_READY_POLLS_MAX = 500


class Sandbox:
    """The network of one pod; ``close`` ends it and whatever still runs in it."""

    def __init__(self, pause: asyncio.subprocess.Process, folder: Path) -> None:
        self._pause = pause
        self._link = f"v{pause.pid}"
        self._folder = folder

    @classmethod
    async def open(cls, folder: Path, address: str, gateway: str) -> "Sandbox":
        """Make the namespace and give it its address.

        The namespace's process is started from the loop's own thread: it is to die with its
        parent, and to the kernel its parent is a thread.
        """
        pause = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"),
            stdin=subprocess.DEVNULL,
        )
        sandbox = cls(pause, folder)
        await asyncio.to_thread(sandbox._connect, address, gateway)
        return sandbox

    def _connect(self, address: str, gateway: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        ours = Path("/proc/thread-self/ns/net").readlink()
        until(lambda: Path(self.network).readlink() != ours, what="a pod's network", seconds=10)
        inside = ("nsenter", f"--net={self.network}", "ip")
        pause = str(self._pause.pid)
        peer = ("type", "veth", "peer", "name", "eth0", "netns", pause)
        for command in (
            ("ip", "link", "add", self._link, *peer),
            ("ip", "link", "set", self._link, "master", namespaces.BRIDGE, "up"),
            (*inside, "link", "set", "lo", "up"),
            (*inside, "addr", "add", f"{address}/16", "dev", "eth0"),
            (*inside, "link", "set", "eth0", "up"),
            (*inside, "route", "add", "default", "via", gateway),
        ):
            namespaces.run(*command)

    @property
    def network(self) -> str:
        """The file that names the namespace."""
        return f"/proc/{self._pause.pid}/ns/net"

    async def start(
        self,
        name: str,
        command: list[str],
        env: Mapping[str, str],
        mounts: list[tuple[str, str, bool]],
        *,
        image: Path,
        cwd: str,
    ) -> "asyncio.subprocess.Process":
        """Start a container's process in the pod's network, with its image and its own mounts."""
        scratch = self._folder / "scratch" / name
        spec = {
            "network": self.network,
            "scratch": str(scratch),
            "mounts": mounts,
            "keep": sorted({str(ROOT), str(image), sys.prefix, sys.base_prefix}),
            "command": command,
            "env": dict(env),
            "cwd": cwd,
            "hostname": env["HOSTNAME"],
            "log": str(self.log(name)),
        }
        file = await asyncio.to_thread(self._write, name, scratch, json.dumps(spec))
        return await asyncio.create_subprocess_exec(
            sys.executable, "-IS", LAUNCHER, file, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def _write(self, name: str, scratch: Path, spec: str) -> Path:
        scratch.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{name}.json"
        file.write_text(spec)
        return file

    def log(self, container: str) -> Path:
        """The file that a container writes its output to."""
        return self._folder / f"{container}.log"

    async def run_in(self, pid: int, command: list[str], seconds: float) -> bool:
        """Run a command beside a container's process; True if it ended well in time."""
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--target={pid}", "--net", "--mount", "--root", "--wd", *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return await asyncio.wait_for(process.wait(), seconds) == 0
        except TimeoutError:
            process.kill()
            await process.wait()
            return False

    async def close(self) -> None:
        """End the namespace; its link goes with it."""
        if self._pause.returncode is None:
            self._pause.kill()
            await self._pause.wait()
