"""Progress of a job, on standard error: how many of its tasks are done, now and then.

The first line comes after ``FIRST_LINE_S``, each next one after twice the time that the one before
took, up to ``LINE_EVERY_S_MAX``. That the job waits is a line at once. While it waits for the same
cause, the lines that come now and then say how that is by now.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from py4j.protocol import Py4JError
from pyspark import StatusTracker

from zonekeeper.placement.zones.losses import Held, HeldBy

FIRST_LINE_S: Final = 5.0
LINE_EVERY_S_MAX: Final = 300.0
#: So often the tasks are counted, and what holds is looked at.
LOOK_EVERY_S: Final = 1.0


class JobProgress:
    """Says how far a job is."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        """``clock`` gives seconds, and never goes back."""
        self._out = out
        self._clock = clock
        self._began_s = clock()
        self._next_s = self._began_s + FIRST_LINE_S
        self._pause_s = FIRST_LINE_S
        self._cause: HeldBy | None = None

    def look(self, done: int, total: int, waits_for: Held | None) -> None:
        """Take in how many tasks are done, and what the job waits for; None: for nothing."""
        cause = None if waits_for is None else waits_for.by
        if cause != self._cause:
            self._cause = cause
            self._write(
                "nothing holds any more: the job goes on"
                if waits_for is None
                else f"the job reads nothing until this is over: {waits_for.text}"
            )
        if not total or self._clock() < self._next_s:
            return
        self._pause_s = min(2 * self._pause_s, LINE_EVERY_S_MAX)
        self._next_s = self._clock() + self._pause_s
        elapsed_s = self._clock() - self._began_s
        waits = "" if waits_for is None else f"; waits, because {waits_for.text}"
        self._write(f"{done} of {total} tasks done, {elapsed_s:.0f} s{waits}")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # nobody listens
            self._out.write(f"{text}\n")
            self._out.flush()


@contextmanager
def followed(
    progress: JobProgress | None, tracker: StatusTracker | None, held: Callable[[], Held | None]
) -> Iterator[None]:
    """Say how far the jobs of a session are while the block lasts."""
    if progress is None:
        yield
        return
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(LOOK_EVERY_S):
            try:
                done, total = (0, 0) if tracker is None else _tasks(tracker)
            except (Py4JError, OSError):
                return  # Java has gone, and so has the job: its own error says so
            progress.look(done, total, held())

    thread = threading.Thread(target=follow, name="zonekeeper-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tasks(tracker: StatusTracker) -> tuple[int, int]:
    """Count the tasks of the stages that run now: those that are done, and all."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    there = [stage for stage in stages if stage is not None]
    return sum(one.numCompletedTasks for one in there), sum(one.numTasks for one in there)
