"""Those who wait until a ledger's entries have got somewhere, woken in the order of the entries.

Only who waits costs a future. One that was cancelled is forgotten when its turn comes.
"""

import asyncio
import heapq

from zonekeeper.placement.base.ids import EntryId


class Waiters:
    """Futures by entry."""

    __slots__ = ("_heap", "_loop", "_number")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: The number keeps futures from being compared.
        self._heap: list[tuple[EntryId, int, asyncio.Future[None]]] = []
        self._number = 0

    def wait(self, entry_id: EntryId) -> "asyncio.Future[None]":
        """Give what is done when entries up to this one are reached."""
        waiter = self._loop.create_future()
        self._number += 1
        heapq.heappush(self._heap, (entry_id, self._number, waiter))
        return waiter

    def wake(self, last: EntryId) -> None:
        """Wake those who wait for entries up to this one."""
        while self._heap and self._heap[0][0] <= last:
            _, _, waiter = heapq.heappop(self._heap)
            if not waiter.done():
                waiter.set_result(None)
