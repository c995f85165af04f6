"""Prometheus' own ``promtool``: on the PATH, or out of Debian's package, fetched once.

The package (19 MB) is fetched with apt and unpacked into the cache, without root and without an
installation. It is unpacked in a folder of its own and renamed into place when whole, under a lock,
so that two runs at once leave nothing half-made. Where it cannot be had, tests that need it are
skipped, and fail in CI.
"""

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.cluster.toolchain import cache_folder
from tests.support import java_runtime

ATTEMPTS: Final = 3
FETCH_SECONDS_MAX: Final = 300
_INSIDE: Final = Path("usr/bin/promtool")


def require() -> Path:
    """Find promtool, or fetch it; skip the test where it cannot be had, fail it in CI."""
    on_path = shutil.which("promtool")
    if on_path:
        return Path(on_path)
    folder = cache_folder() / "promtool"
    if not (folder / _INSIDE.name).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / _INSIDE.name).exists() and (why := _fetch_into(folder)):
                java_runtime.do_without(f"no promtool for this test: {why}")
    return folder / _INSIDE.name


def _fetch_into(folder: Path) -> str | None:
    """Fetch and unpack the package; give what went wrong, or None."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or dpkg is None:
        return "it is not on the PATH, and apt-get or dpkg-deb is missing (Debian: prometheus)"
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        making = Path(made)
        said = ""
        for attempt in range(ATTEMPTS):
            words = [apt, "download", "prometheus"]
            done = _run(words, making)
            packages = sorted(making.glob("prometheus_*.deb"))
            if done.returncode == 0 and packages:
                break
            said = done.stderr[-2_000:]
            if attempt == 0:  # the lists may be missing or old; only root may fetch them
                _run([apt, "update"], making)
        else:
            return f"`apt-get download prometheus` failed {ATTEMPTS} times: {said}"
        done = _run([dpkg, "-x", str(packages[0]), str(making / "x")], making)
        if done.returncode != 0:
            return f"dpkg-deb failed: {done.stderr[-2_000:]}"
        whole = making / "whole"
        whole.mkdir()
        (making / "x" / _INSIDE).rename(whole / _INSIDE.name)
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)
    return None


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(words, 1, "", str(late))
