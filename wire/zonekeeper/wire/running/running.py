"""A process that serves until it is told to stop: signals in, one clear line out.

A first SIGTERM or SIGINT stops it in order. While it comes up, its life is cancelled: it turns
round at once. From the moment at which it waits for the stop (``StopRequest.heard``), it is up,
and goes down in its own order.

Going down has a limit, under what whoever stops processes waits before killing them. What is not
done by then is left, and the process ends with 1. So what runs here must lose nothing by a kill.

A trouble of the world becomes ``StoppedError``, one line. A bug stays what it is, with its
traceback.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import TypeAlias

from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.wire.running import processes

_logger = logging.getLogger(__name__)


class StoppedError(Trouble):
    """The process cannot start, or cannot go on; the message says why and what to do."""


class RefusedStartError(StoppedError, Refusal):
    """The process does not start, because what it was told is wrong; nothing was changed."""


class StopRequest:
    """How a life hears that it is to end."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._asked = asyncio.Event()
        self._too_late: asyncio.TimerHandle | None = None
        #: Does the life wait for the stop, or has it waited?
        self.is_up = False

    async def heard(self) -> None:
        """Be up; return when the process is to stop, and go down in order then."""
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
        self._asked.set()
        if not self.is_up:
            life.cancel()

    def over(self) -> None:
        """There is nothing left that could be too late."""
        if self._too_late is not None:
            self._too_late.cancel()


Life: TypeAlias = Callable[[StopRequest], Coroutine[None, None, None]]


async def run(
    life: Life,
    *,
    stop_limit_s: float,
    words: Callable[[BaseException], str] = str,
) -> None:
    """Run a life until it ends or the process is told to stop; raises ``StoppedError``.

    ``words`` says what a trouble means, where it does not say it itself.
    """
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
        raise (RefusedStartError if refused else StoppedError)(words(trouble)) from group
    finally:
        stop.over()
    if living.cancelled() and not stop.was_asked:
        raise asyncio.CancelledError


def _give_up(limit_s: float) -> None:
    _logger.error("not stopped in order within %g s: the rest is left as it is", limit_s)
    os._exit(1)
