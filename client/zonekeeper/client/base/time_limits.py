"""The time that a caller gives a call: its ``timeout``.

A call whose time is over is cancelled where it waits, and raises ``WaitTimedOut``. So a call with a
timeout must be one that may be cancelled. A call that need not wait succeeds whatever its timeout
is: with 0 a call only looks.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

from zonekeeper.client.base import arguments, errors

Result = TypeVar("Result")


class TimeLimit:
    """The end of a call's time."""

    def __init__(self, timeout: float | None, now_s: Callable[[], float]) -> None:
        """Begin the time; raises TypeError or ValueError if ``timeout`` is no such thing."""
        arguments.check_timeout(timeout)
        self._now_s = now_s
        self._end_s = None if timeout is None else now_s() + timeout

    @property
    def left_s(self) -> float | None:
        """The seconds that are left; None: there is no limit."""
        return None if self._end_s is None else max(0.0, self._end_s - self._now_s())

    async def hold(
        self,
        work: Coroutine[None, None, Result],
        over: Callable[[], errors.WaitTimedOut],
    ) -> Result:
        """Do the work, or cancel it when the time is over, and raise the error that ``over`` gives.

        ``over`` is called after the work was cancelled.
        """
        if self._end_s is None:
            return await work
        limit = asyncio.timeout(self.left_s)
        try:
            async with limit:
                return await work
        except TimeoutError as error:
            if isinstance(error, errors.WaitTimedOut) or not limit.expired():
                raise
            raise over() from None


_NO_LIMIT: Final = TimeLimit(None, lambda: 0.0)


def of(timeout: float | None) -> TimeLimit:
    """Begin the time of a call on the running loop; None: it has no limit."""
    if timeout is None:
        return _NO_LIMIT
    return TimeLimit(timeout, asyncio.get_running_loop().time)
