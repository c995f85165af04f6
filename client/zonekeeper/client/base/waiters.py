"""Futures that wait until things with numbers have reached a state, woken in order of the numbers.

The numbers are the entries of a ledger, or the messages of a log. Only one that is waited for costs
a future. A cancelled future is dropped when its turn comes.
"""

import asyncio
import heapq


class Waiters:
    """Futures by number."""

    __slots__ = ("_heap", "_loop", "_made")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: The second number is unique, so that the heap never compares two futures.
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._made = 0

    def wait(self, number: int) -> "asyncio.Future[None]":
        """Give a future that is done once all up to this number have reached the state."""
        waiter = self._loop.create_future()
        self._made += 1
        heapq.heappush(self._heap, (number, self._made, waiter))
        return waiter

    def wake(self, last: int) -> None:
        """Wake the futures of numbers up to ``last``."""
        while self._heap and self._heap[0][0] <= last:
            _, _, waiter = heapq.heappop(self._heap)
            if not waiter.done():
                waiter.set_result(None)
