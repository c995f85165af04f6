"""A limit for large work: in one turn of the event loop only so many bytes are handled.

An event loop runs everything that is ready before it looks for new events. If the answers to fifty
readers were ready at once, an acknowledgement that comes meanwhile would wait until fifty times a
MiB was packed and sent. With this limit it waits for ``bytes_max``, or for one larger piece of
work, however many readers there are. Pieces of work pass in the order of coming, so none waits for
ever: a stream that has one piece waiting at a time waits for one piece of each other stream.

This bounds the work of one turn. It does not limit a rate: a loop with nothing else to do runs one
turn after the other.
"""

import asyncio
from collections import deque


class Turns:
    """The limit of one event loop."""

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self._bytes_max = bytes_max
        #: The pieces of work that wait, the oldest first, and their sizes.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._begun = False

    async def mine(self, size_bytes: int) -> None:
        """Return in a turn in which this many bytes may be handled; handle them without a pause."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append((turn, size_bytes))
        if not self._begun:
            self._begun = True
            loop.call_soon(self._let_pass)
        await turn

    def _let_pass(self) -> None:
        """Choose the pieces of work for the next turn, and run again if others wait."""
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
