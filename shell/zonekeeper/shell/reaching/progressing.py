"""Progress of a long command: what it does now, on standard error, and never on standard output.

On a terminal it is one line that is written again and again, and is gone at the end. Elsewhere it
is a line now and then: the first one after ``FIRST_LINE_S``, and each next one after twice the time
that the one before took, up to ``LINE_EVERY_S_MAX``. So a log of a command that runs for a day has
some hundred lines. What a person must see at once (a command waits for something) is a line at
once, and only once as long as it stays the same.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TextIO

from zonekeeper.placement.zones.counted_time import spelled

#: The shortest time between two writes of the line on a terminal.
SHOWN_EVERY_S: Final = 0.1
#: Elsewhere: the time before the first line, and the longest time between two.
FIRST_LINE_S: Final = 5.0
LINE_EVERY_S_MAX: Final = 600.0
#: A rate over less time than this is chance.
_RATE_AFTER_S: Final = 1.0
_MIB: Final = 1 << 20
_ERASE: Final = "\r\x1b[K"


class Progress:
    """The progress of one command."""

    def __init__(
        self, out: TextIO | None, clock: Callable[[], float], *, quiet: bool = False
    ) -> None:
        """``clock`` gives seconds, and never goes back; ``quiet``: nothing is written."""
        self._out = None if quiet else out
        self._clock = clock
        self._live = self._out is not None and self._out.isatty()
        self._began_s = clock()
        self._next_s = self._began_s + (0.0 if self._live else FIRST_LINE_S)
        self._pause_s = FIRST_LINE_S
        self._standing = False
        self._urgent: str | None = None

    @property
    def elapsed_s(self) -> float:
        """The time since the command began."""
        return self._clock() - self._began_s

    def tell(self, text: str) -> None:
        """Say what is done now, unless that was said just now."""
        if self._out is None or self._clock() < self._next_s:
            return
        if self._live:
            self._next_s = self._clock() + SHOWN_EVERY_S
            self._standing = True
            self._write(f"{_ERASE}{text}")
            return
        self._pause_s = min(2 * self._pause_s, LINE_EVERY_S_MAX)
        self._next_s = self._clock() + self._pause_s
        self._write(f"{text}\n")

    def tell_at_once(self, text: str) -> None:
        """Write a line that stays, unless it is the last such line."""
        if self._out is None or text == self._urgent:
            return
        self._urgent = text
        self.end()
        self._write(f"{text}\n")

    def end(self) -> None:
        """Erase the line of a terminal."""
        if self._standing:
            self._standing = False
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        assert self._out is not None, "a quiet progress writes nothing"
        self._out.write(text)
        self._out.flush()


@asynccontextmanager
async def shown(*, quiet: bool) -> AsyncIterator[Progress]:
    """Give the progress of a command that runs on this event loop; its line ends with the block."""
    progress = Progress(sys.stderr, asyncio.get_running_loop().time, quiet=quiet)
    try:
        yield progress
    finally:
        progress.end()


def work(
    what: str, done: int, elapsed_s: float, *, total: int | None = None, moved_bytes: int = 0
) -> str:
    """Say how much is done: of the total if that is known, with bytes, rate and the time left."""
    text = f"{done} {what} done" if total is None else f"{done} of {total} {what} done"
    if moved_bytes:
        text += f", {moved_bytes / _MIB:.1f} MiB"
    if elapsed_s < _RATE_AFTER_S:
        return text
    if moved_bytes:
        text += f", {moved_bytes / _MIB / elapsed_s:.1f} MiB/s"
    if total is not None and 0 < done < total:
        text += f", about {spelled(int(elapsed_s * 1_000 * (total - done) / done))} left"
    return text
