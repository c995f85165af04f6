"""A runner for a command's work, which ends the work in order after an interruption.

The first SIGINT, SIGTERM or SIGHUP cancels the work, which then takes back what it began. Further
signals are ignored: work that is being taken back must not stop half-way.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

_T = TypeVar("_T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedWorkError(Exception):
    """The work was interrupted, and what it had begun is taken back."""


def run(work: Coroutine[None, None, _T], say_stopping: Callable[[], None]) -> _T:
    """Run the work; raises ``InterruptedWorkError`` if a signal ended it.

    The first signal calls ``say_stopping``.
    """
    return asyncio.run(_heard(work, say_stopping))


async def _heard(work: Coroutine[None, None, _T], say_stopping: Callable[[], None]) -> _T:
    stopped = False
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()  # first: the terminal may be gone
            say_stopping()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        return await work
    except asyncio.CancelledError:
        if stopped:
            raise InterruptedWorkError from None
        raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
