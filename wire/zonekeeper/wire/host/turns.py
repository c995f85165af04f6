"""A gate before work that is large: in one turn of the event loop so many bytes pass, and no more.

An event loop does everything that is ready before it looks for news. Were the answers to fifty
readers ready at once, an acknowledgement that comes meanwhile would wait for fifty times a MiB to
be packed and sent. Behind the gate it waits for ``bytes_max``, or for one piece of work that is
larger, however many readers there are. Who waits passes in the order of coming, so nobody starves:
who has one piece of work in the gate at a time waits for one of each of the others.

This bounds what the loop does in a row. It is no limit of a rate: a loop that has nothing else to
do gives one turn after the other.
"""

import asyncio
from collections import deque


class Turns:
    """The gate of one event loop."""

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self._bytes_max = bytes_max
        #: Who waits, first first, and with how many bytes.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._begun = False

    async def mine(self, size_bytes: int) -> None:
        """Return in a turn in which so many bytes may be handled, which then must be at once."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append((turn, size_bytes))
        if not self._begun:
            self._begun = True
            loop.call_soon(self._let_pass)
        await turn

    def _let_pass(self) -> None:
        """Choose who passes in the next turn, and come again if there are others."""
        passed = passed_bytes = 0
        while self._waiting:
            turn, size_bytes = self._waiting[0]
            if not turn.cancelled():
                if passed and passed_bytes + size_bytes > self._bytes_max:
                    break
                passed += 1
                passed_bytes += size_bytes
                turn.set_result(None)
            self._waiting.popleft()
        self._begun = bool(self._waiting)
        if self._begun:
            asyncio.get_running_loop().call_soon(self._let_pass)
