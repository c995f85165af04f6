"""Python processes of a test: they speak by lines, and are ended with the test."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator

from tests.support.checkout_root import ROOT

#: Longer than any test needs a process: ten takeovers take 9 s, and 95 s on a very busy machine.
_LIFE_SECONDS = 600


class PythonProcess:
    """``python -m module arguments``, with its lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def line(self) -> str:
        """Wait for the next line; an end without one is an error."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}"
        return line.rstrip("\n")

    def rest(self) -> list[str]:
        """Wait for the end, and give the whole lines until there."""
        assert self._process.stdout is not None
        lines = self._process.stdout.read().split("\n")
        self._process.wait()
        return lines[:-1]

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def run(main: Coroutine[None, None, None]) -> None:
    """Be such a process. One that hangs, or is left alone, ends: the alarm is not caught."""
    signal.alarm(_LIFE_SECONDS)
    asyncio.run(main)


def tell(line: str) -> None:
    """Say a line to the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def processes() -> Iterator[list[PythonProcess]]:
    """Give a list to put processes into; all are ended in the end."""
    started: list[PythonProcess] = []
    try:
        yield started
    finally:
        for process in started:
            process.end()
