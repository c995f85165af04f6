"""One turn of a lane beside load: the processes, and what tree they ran on.

Pytest is the first process of a session of its own. An interruption is passed on to all of that
session, as a terminal would, so that tests and their processes end as they do by Ctrl-C. What is
left then is found by a mark in its environment, in whatever session it is, and killed.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

#: From an interruption to the end of all that tests have started.
_END_SECONDS: Final = 60
#: In the environment of all that a turn starts.
_MARK: Final = "ZONEKEEPER_FLAKY_TURN"
#: Works without a pause, and ends soon after whoever started it, however that one ends.
_BUSY: Final = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


class Ran(NamedTuple):
    """What a turn left behind."""

    code: int
    #: The JUnit report; empty if there is none.
    report: str
    #: All that was said.
    words: str


def run(arguments: Sequence[str], checkout: Path) -> Ran:
    """Run pytest; an interruption ends it first, and is raised then."""
    with tempfile.TemporaryDirectory() as folder:
        report, words = Path(folder, "report.xml"), Path(folder, "words")
        flags = ["-q", f"--junitxml={report}", "-o", "junit_family=xunit1"]
        with words.open("wb") as told:
            pytest = subprocess.Popen(
                [sys.executable, "-m", "pytest", *flags, *arguments],
                cwd=checkout,
                env={**os.environ, _MARK: folder},
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = pytest.wait()
            finally:
                _end(pytest, folder)
        said = words.read_text(errors="replace")
        return Ran(code, report.read_text() if report.exists() else "", said)


def _end(pytest: "subprocess.Popen[bytes]", mark: str) -> None:
    """End pytest, if it still runs, and all that it has started."""
    if pytest.poll() is not None:
        return
    os.killpg(pytest.pid, signal.SIGINT)
    try:
        with suppress(subprocess.TimeoutExpired):
            pytest.wait(_END_SECONDS)
    finally:  # also of a second interruption
        while left := list(_marked(mark)):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            pytest.poll()
        pytest.wait()


def _marked(mark: str) -> Iterator[int]:
    """Give the processes that were started in this turn, and live."""
    wanted = f"{_MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


@contextmanager
def beside(busy: int) -> Iterator[None]:
    """Keep so many processes busy."""
    others: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(busy):
            command = [sys.executable, "-c", _BUSY, str(os.getpid())]
            others.append(subprocess.Popen(command, start_new_session=True))
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def tree_of(checkout: Path) -> str:
    """Name the tree that stands in a checkout: that of its commit, if nothing was changed.

    It is what `git add --all` would commit; neither index nor repository are touched.
    """
    objects = _git(checkout, {}, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    with tempfile.TemporaryDirectory() as folder:
        aside = {
            "GIT_INDEX_FILE": f"{folder}/index",
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        _git(checkout, aside, "add", "--all")
        return _git(checkout, aside, "write-tree")


def _git(checkout: Path, settings: Mapping[str, str], *words: str) -> str:
    return subprocess.run(
        ["git", *words],
        cwd=checkout,
        env={**os.environ, **settings},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
