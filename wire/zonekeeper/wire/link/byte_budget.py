"""A budget of bytes that callers share; without room a caller waits, first come, first served.

``0 <= taken <= bytes_max``, with one exception: a caller that wants more than ``bytes_max`` gets it
when nothing else is taken. No caller overtakes another one: a small request waits behind a large
one. Otherwise a stream of small requests could keep a large one out for ever. So a caller gets its
bytes when all callers before it have given theirs back, or have gone, and each of them does one or
the other.
"""

import asyncio
from collections import deque


class ByteBudget:
    """The budget, and the callers that wait for a part of it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken = 0
        #: The callers that wait, the oldest first, and their bytes. A cancelled one is dropped when
        #: its turn comes; it never took its bytes.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, size_bytes: int) -> None:
        """Return when there is room for this many bytes; they are taken until they are given back.

        Returns without a pause if there is room already. A cancelled caller has taken nothing.
        """
        assert size_bytes >= 0
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size_bytes))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._let_in()  # the callers behind it may have room now
            else:
                self.give_back(size_bytes)  # it had its bytes, and was cancelled before it ran
            raise

    def give_back(self, size_bytes: int) -> None:
        """Return this many bytes to the budget."""
        self._taken -= size_bytes
        assert self._taken >= 0, "given back is what was taken"
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            turn, size_bytes = self._waiting[0]
            if not turn.cancelled():
                if self._taken and self._taken + size_bytes > self._bytes_max:
                    return
                self._taken += size_bytes
                turn.set_result(None)
            self._waiting.popleft()
