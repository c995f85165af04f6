"""Deadlines that blame no peer for time in which this process itself stood still.

After a SIGSTOP, a pause of the machine or a blocking call, timers fire before the process reads the
answers that came in time. So an alarm that fires too late (``late > LATE_MS``) waits the whole time
once more, and only then counts. It waits again only once, so it also fires in a loop that is always
late.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

#: If a timer is late by more than this, the process stood still.
LATE_MS: Final = 500


class Alarm:
    """Calls a function once, after a time; must be made on a running loop."""

    def __init__(self, delay_ms: int, call: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._delay_s = delay_ms / 1_000
        self._call = call
        self._due_s = self._loop.time() + self._delay_s
        self._timer = self._loop.call_at(self._due_s, self._strike)

    def cancel(self) -> None:
        """Do not call the function any more."""
        self._timer.cancel()

    def _strike(self) -> None:
        if self._loop.time() - self._due_s > LATE_MS / 1_000:
            self._timer = self._loop.call_later(self._delay_s, self._call)
        else:
            self._call()


@asynccontextmanager
async def timeout(delay_ms: int) -> AsyncIterator[None]:
    """Raise TimeoutError in the block, as ``asyncio.timeout`` does, when the time is over."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        alarm = Alarm(delay_ms, lambda: limit.reschedule(loop.time()))
        try:
            yield
        finally:
            alarm.cancel()
