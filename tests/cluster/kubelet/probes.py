"""Startup, readiness and liveness probes: HTTP, TCP and exec, with Kubernetes' thresholds."""

import asyncio
from dataclasses import dataclass

import aiohttp

from tests.cluster.kubelet.api import Json
from tests.cluster.kubelet.sandbox import Sandbox

HTTP_OK = range(200, 400)


@dataclass(slots=True)
class Threshold:
    """Counts answers of one probe; its verdict changes only after enough of them in a row."""

    failures_max: int
    successes_needed: int
    passed: bool = False
    failed: bool = False
    _run: int = 0
    _last: bool | None = None

    def count(self, answer: bool) -> None:
        """Take one answer."""
        self._run = self._run + 1 if answer == self._last else 1
        self._last = answer
        if answer and self._run >= self.successes_needed:
            self.passed, self.failed = True, False
        elif not answer and self._run >= self.failures_max:
            self.passed, self.failed = False, True


def threshold(probe: Json) -> Threshold:
    """Give a fresh count with a probe's thresholds."""
    return Threshold(probe.get("failureThreshold", 3), probe.get("successThreshold", 1))


async def ask(probe: Json, container: Json, address: str, sandbox: Sandbox, pid: int) -> bool:
    """Ask once; any failure to answer in time is a no."""
    seconds = float(probe.get("timeoutSeconds", 1))
    try:
        if "exec" in probe:
            return await sandbox.run_in(pid, probe["exec"]["command"], seconds)
        if "httpGet" in probe:
            return await _http(probe["httpGet"], container, address, seconds)
        if "tcpSocket" in probe:
            port = _port(probe["tcpSocket"]["port"], container)
            _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), seconds)
            writer.close()
            return True
    except (OSError, TimeoutError, aiohttp.ClientError):
        return False
    raise ValueError(f"a probe that the lab does not know: {sorted(probe)}")


async def _http(get: Json, container: Json, address: str, seconds: float) -> bool:
    scheme = get.get("scheme", "HTTP").lower()
    url = f"{scheme}://{address}:{_port(get['port'], container)}{get.get('path', '/')}"
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, ssl=False) as got,
    ):
        return got.status in HTTP_OK


def _port(port: int | str, container: Json) -> int:
    if isinstance(port, int):
        return port
    return int(next(p["containerPort"] for p in container["ports"] if p.get("name") == port))
