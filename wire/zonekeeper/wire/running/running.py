"""The runner of a process that serves until it is told to stop.

The first SIGTERM or SIGINT begins an orderly stop. A process is *up* from the moment at which its
life waits for the stop (``StopRequest.heard``). Before that a signal cancels the life, so the
process ends at once. After that the life ends what it began, in its own order.

The way down has a limit. It must be shorter than the time that Kubernetes or a person waits before
killing the process. At the limit the process ends with exit code 1, and leaves the rest undone. So
a kill must not make the process lose anything.

A trouble becomes ``StoppedError``, with one line. A bug keeps its class and its traceback.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.wire.running import last_words, processes

_logger = logging.getLogger(__name__)


class StoppedError(Trouble):
    """The process cannot start, or cannot go on; the message says why and what to do."""


class RefusedStartError(StoppedError, Refusal):
    """The process does not start, because a setting or its place is wrong; nothing was changed."""


class StopRequest:
    """The way in which a life hears that it is to end."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._asked = asyncio.Event()
        self._too_late: asyncio.TimerHandle | None = None
        #: When the stop was asked for.
        self._asked_s = 0.0
        #: Has the life begun to wait for the stop?
        self.is_up = False

    async def heard(self) -> None:
        """Be up, and return when the process is to stop; the caller then ends what it began."""
        self.is_up = True
        await self._asked.wait()

    @property
    def was_asked(self) -> bool:
        """Is the process to stop?"""
        return self._asked.is_set()

    def ask(self, life: "asyncio.Task[None]") -> None:
        """Begin the way down; a second signal changes nothing."""
        if self.was_asked:
            return
        loop = asyncio.get_running_loop()
        self._too_late = loop.call_later(self._limit_s, _give_up, self._limit_s)
        self._asked_s = loop.time()
        _logger.info("stopping: a signal asked for it")
        self._asked.set()
        if not self.is_up:
            life.cancel()

    def over(self) -> None:
        """End the limit: the life has ended."""
        if self._too_late is not None:
            self._too_late.cancel()

    def stopped_in_order(self) -> None:
        """Log that the way down is done, if a signal began it."""
        if self.was_asked:
            took_s = asyncio.get_running_loop().time() - self._asked_s
            _logger.info(
                "stopped in order after %.1f s", took_s, extra={"duration_ms": round(took_s * 1e3)}
            )


Life: TypeAlias = Callable[[StopRequest], Coroutine[None, None, None]]


async def run(
    life: Life,
    *,
    stop_limit_s: float,
    words: Callable[[BaseException], str] = str,
    last_words_in: Path | None = None,
) -> None:
    """Run a life until it ends or the process is told to stop; raises ``StoppedError``.

    ``words`` gives the message for a trouble; without it, the message is the trouble's own. The
    message is also left in the file ``last_words_in``.
    """
    processes.leave_no_core()
    stop = StopRequest(stop_limit_s)
    try:
        async with asyncio.TaskGroup() as tasks:
            living = tasks.create_task(life(stop))
            with processes.stopped_by_signals(lambda: stop.ask(living)):
                await asyncio.wait([living])
    except BaseExceptionGroup as group:
        troubles, bugs = group.split((Trouble, OSError))
        if troubles is None or bugs is not None:
            raise
        trouble = processes.first_of(troubles)
        refused = isinstance(trouble, Refusal) and not stop.is_up
        said = words(trouble)
        # A trouble is one line, without a traceback.
        how = "the process ends" if stop.is_up else "not started"
        _logger.log(logging.ERROR, "%s: %s", how, said)
        last_words.leave(last_words_in, said)
        raise (RefusedStartError if refused else StoppedError)(said) from group
    finally:
        stop.over()
    if living.cancelled() and not stop.was_asked:
        raise asyncio.CancelledError
    stop.stopped_in_order()


def _give_up(limit_s: float) -> None:
    _logger.error("not stopped in order within %g s: the rest is left as it is", limit_s)
    os._exit(1)
