"""A limit of bytes a second, for all that moves bytes in one process.

Bytes that are taken are a debt, which is paid off at the present rate. A caller that comes while
there is a debt waits, in order, until it is paid. So in any time no more is moved than the rate
allows plus one piece, whatever its size. A new rate in the policy takes effect within a second.
"""

import asyncio
from collections.abc import Callable
from typing import Final

#: A caller that waits looks at the rate at least this often.
_LOOK_AGAIN_S: Final = 1.0
#: The shortest wait. The clock may not move in a shorter one, and then no debt is paid off.
_WAIT_MIN_S: Final = 0.001


class BytePace:
    """One limit. Its rate is asked for again before each wait; 0 is no limit."""

    def __init__(self, bytes_per_second: Callable[[], int]) -> None:
        self._rate = bytes_per_second
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._debt_bytes = 0.0
        self._paid_s = self._loop.time()

    async def take(self, size_bytes: int) -> None:
        """Wait until so many bytes may be moved."""
        async with self._turn:
            while (rate := self._rate()) > 0:
                self._pay(rate)
                if self._debt_bytes <= 0:
                    break
                wait_s = min(_LOOK_AGAIN_S, self._debt_bytes / rate)
                await asyncio.sleep(max(_WAIT_MIN_S, wait_s))
            else:
                self._debt_bytes = 0.0
            self._debt_bytes += size_bytes

    def _pay(self, rate: int) -> None:
        now_s = self._loop.time()
        self._debt_bytes = max(0.0, self._debt_bytes - (now_s - self._paid_s) * rate)
        self._paid_s = now_s
