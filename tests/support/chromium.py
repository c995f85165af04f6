"""Debian's chromium for tests of pages, unpacked below the user's cache: no root is needed.

apt reads the machine's sources, but keeps its own lists and files in our folder, so it needs no
rights and changes nothing of the machine. What a machine has already is not fetched; packages are
unpacked, not installed. One folder a version, made under a lock and named when it is complete; a
second run finds it. ``ZONEKEEPER_CHROMIUM`` names another browser that speaks DevTools.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = "chromium"
#: The dynamic linker does not find this one of pulseaudio's by itself.
_LIBRARIES = ("usr/lib/{triplet}", "lib/{triplet}", "usr/lib/{triplet}/pulseaudio")
_ATTEMPTS = 3
_TIMEOUT_S = 240


class NoChromiumError(Exception):
    """There is no browser, and none can be had; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser that can be started."""

    program: Path
    libraries: str

    def environment(self) -> dict[str, str]:
        """Give the environment in which it finds its libraries, and no session bus."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        found = {**kept, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
        return {**found, "LD_LIBRARY_PATH": self.libraries} if self.libraries else found


def chromium(folder: Path | None = None) -> Chromium:
    """Give a browser; it is fetched if this machine has none. Raises ``NoChromiumError``."""
    if named := os.environ.get("ZONEKEEPER_CHROMIUM"):
        return Chromium(Path(named), "")
    if installed := shutil.which(_PACKAGE):
        return Chromium(Path(installed), "")
    if shutil.which("apt-get") is None:
        raise NoChromiumError(
            "the console's browser test needs chromium: install it, or name one in "
            "ZONEKEEPER_CHROMIUM (this machine has no apt to fetch Debian's)"
        )
    cache = folder or _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache):
        return _fetched(cache)


def _cache() -> Path:
    return Path.home() / ".cache" / "zonekeeper" / "chromium"


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Let one process of this user fetch at a time; the others then find what it fetched."""
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetched(cache: Path) -> Chromium:
    if newest := max(cache.glob("version-*"), default=None, key=lambda path: path.stat().st_mtime):
        return _in(newest)
    _apt(cache, "update")
    wanted = _apt(cache, "install", "--yes", "--no-install-recommends", "--print-uris", _PACKAGE)
    files = re.findall(r"^'[^']+' (\S+_\S+\.deb) ", wanted, re.M)
    version = next((name.split("_")[1] for name in files if name.startswith("chromium_")), None)
    if version is None:
        raise NoChromiumError(
            f"apt knows no package {_PACKAGE} that it could fetch: {wanted[-500:]}"
        )
    part = cache / f"part-{os.getpid()}"
    shutil.rmtree(part, ignore_errors=True)
    for old in cache.glob("part-*"):
        shutil.rmtree(old, ignore_errors=True)
    (part / "debs").mkdir(parents=True)
    _apt(cache, "download", *(name.split("_")[0] for name in files), cwd=part / "debs")
    for package in sorted((part / "debs").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(part / "root")], part)
    shutil.rmtree(part / "debs")
    whole = cache / f"version-{version}"
    part.rename(whole)
    return _in(whole)


def _in(folder: Path) -> Chromium:
    root = folder / "root"
    triplets = [path.name for path in (root / "usr" / "lib").glob("*-linux-gnu")]
    libraries = [
        str(root / part.format(triplet=triplet)) for triplet in triplets for part in _LIBRARIES
    ]
    program = root / "usr" / "lib" / "chromium" / "chromium"
    if not program.exists():
        raise NoChromiumError(f"{folder} has no chromium: remove it, and it is fetched again")
    return Chromium(program, ":".join(libraries))


def _apt(cache: Path, *words: str, cwd: Path | None = None) -> str:
    """Call apt-get with lists and files of its own; several times, as a mirror may be away."""
    for name in ("lists/partial", "archives/partial"):
        (cache / "apt" / name).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State::lists": cache / "apt" / "lists",
        "Dir::Cache": cache / "apt",
        "Dir::Cache::archives": cache / "apt" / "archives",
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "",
        "Acquire::Retries": _ATTEMPTS,
        "Acquire::http::Timeout": 20,
    }
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return _run(["apt-get", "--quiet", *given, *words], cwd or cache)


def _run(command: list[str], cwd: Path) -> str:
    said = ""
    for _ in range(_ATTEMPTS):
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                check=False,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
        except subprocess.TimeoutExpired:
            said = f"no end within {_TIMEOUT_S} s"
            continue
        if done.returncode == 0:
            return done.stdout
        said = done.stderr or done.stdout
    raise NoChromiumError(
        f"chromium could not be fetched ({' '.join(command[:1])} failed {_ATTEMPTS} times): "
        f"{said[-800:]}\nInstall chromium, or name a browser in ZONEKEEPER_CHROMIUM"
    )
