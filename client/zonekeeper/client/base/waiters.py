"""Futures that wait until a ledger's entries have reached a state, woken in order of the entries.

Only an entry that is waited for costs a future. A cancelled future is dropped when its turn comes.
"""

import asyncio
import heapq

from zonekeeper.placement.base.ids import EntryId


class Waiters:
    """Futures by entry."""

    __slots__ = ("_heap", "_loop", "_number")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: The number is unique, so that the heap never compares two futures.
        self._heap: list[tuple[EntryId, int, asyncio.Future[None]]] = []
        self._number = 0

    def wait(self, entry_id: EntryId) -> "asyncio.Future[None]":
        """Give a future that is done once the entries up to this one have reached the state."""
        waiter = self._loop.create_future()
        self._number += 1
        heapq.heappush(self._heap, (entry_id, self._number, waiter))
        return waiter

    def wake(self, last: EntryId) -> None:
        """Wake the futures of entries up to ``last``."""
        while self._heap and self._heap[0][0] <= last:
            _, _, waiter = heapq.heappop(self._heap)
            if not waiter.done():
                waiter.set_result(None)
