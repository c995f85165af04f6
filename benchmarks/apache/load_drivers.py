"""A load driver's process: it is told commands by lines, and answers each with one line."""

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.apache import protocol
from benchmarks.apache.protocol import DriverFailedError
from tests.support.checkout_root import ROOT

_START_S: Final = 180
#: How long any command may take beyond the time that it is told to.
_PATIENCE_S: Final = 600
#: So many characters of a driver's last words are told.
_WORDS: Final = 500


class LoadDriver:
    """One process, which stays warm between commands."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self._log = log
        self._read = b""
        with log.open("ab") as words:
            self._process = subprocess.Popen(  # noqa: S603 words of this benchmark and paths
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                cwd=ROOT,
            )
        try:
            self.hear(_START_S)
        except DriverFailedError:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def ask(self, verb: str, **values: int | str) -> Mapping[str, object]:
        """Have a command done, and give its answer; raises ``DriverFailedError``."""
        self.tell(verb, **values)
        takes_ms = values.get("milliseconds", 0)
        return self.hear(_PATIENCE_S + int(takes_ms) / 1e3)

    def tell(self, verb: str, **values: int | str) -> None:
        """Give a command, and do not wait for its answer."""
        assert self._process.stdin is not None
        if self._process.returncode is not None:
            raise DriverFailedError("the driver has ended, and was told more")
        try:
            self._process.stdin.write((protocol.command(verb, **values) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise DriverFailedError("the driver has ended") from error

    def hear(self, patience_s: float) -> Mapping[str, object]:
        """Wait for the next answer."""
        until = time.perf_counter() + patience_s
        while True:
            line = self._line(until)
            if line is None:
                raise DriverFailedError(
                    f"no answer in {patience_s:.0f} s, or the driver has ended; its last words: "
                    f"{self._log.read_text(errors='replace')[-_WORDS:]!r}"
                )
            if (found := protocol.answer(line)) is not None:
                return found

    def kill(self) -> list[Mapping[str, object]]:
        """End the process at once, as a crash would; give the answers that nobody has heard."""
        self._process.kill()
        left = []
        while (line := self._line(time.perf_counter() + 1)) is not None:
            if (found := protocol.answer(line)) is not None:
                left.append(found)
        self._process.communicate()
        return left

    def _line(self, until: float) -> str | None:
        """Read a whole line; None: there is none in time, or none any more."""
        assert self._process.stdout is not None
        while b"\n" not in self._read:
            left_s = max(0.0, until - time.perf_counter())
            there, _, _ = select.select([self._process.stdout], [], [], left_s)
            more = os.read(self._process.stdout.fileno(), 1 << 20) if there else b""
            if not more:
                return None
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")
