"""Processes of the lab: each has a log, is waited for by a condition, and is ended by its pid."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

POLL_SECONDS = 0.05
STOP_SECONDS_MAX = 20.0


class DeadlineExceededError(Exception):
    """A condition did not come true in time; the message says which, and what was seen last."""


def until(condition: Callable[[], object], *, what: str, seconds: float = 300.0) -> None:
    """Wait until a condition is true; exceptions count as "not yet" and are told at the end."""
    deadline = time.monotonic() + seconds  # noqa: TID251 waits for real processes in real time
    last: object = None
    while time.monotonic() < deadline:  # noqa: TID251 as above
        try:
            last = condition()
            if last:
                return
        except Exception as error:  # noqa: BLE001 told when the deadline passes
            last = error
        time.sleep(POLL_SECONDS)
    raise DeadlineExceededError(f"{what}: not within {seconds:g} s; last seen: {last!r}")


class Process:
    """One program of the lab in a session of its own, so that its children end with it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=None if env is None else {**os.environ, **env},
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it has ended; None: it has not, as far as was looked."""
        return self._popen.returncode

    def until(self, condition: Callable[[], object], *, what: str, seconds: float = 300.0) -> None:
        """Wait for a condition; a process that ended meanwhile is told at once, with its log."""

        def alive_and_true() -> object:
            if not self.running:
                return True
            return condition()

        try:
            until(alive_and_true, what=what, seconds=seconds)
        except DeadlineExceededError as error:
            raise DeadlineExceededError(f"{error}\n{self.tail()}") from error
        if not self.running:
            raise DeadlineExceededError(
                f"{self.name} ended ({self._popen.returncode})\n{self.tail()}"
            )

    def tail(self, lines: int = 30) -> str:
        """Give the end of its log."""
        kept = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"--- {self.name}: {self.log}", *kept])

    def stop(self, *, kill: bool = False) -> None:
        """End it and its session: first asked, then killed; returns when it is gone."""
        if self.running:
            self._signal(signal.SIGKILL if kill else signal.SIGTERM)
            try:
                self._popen.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._popen.wait(STOP_SECONDS_MAX)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._popen.pid, number)
        except ProcessLookupError:
            return
