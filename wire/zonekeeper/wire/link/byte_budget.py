"""Bytes that those who come share; who finds no room waits, first come, first served.

What is taken is at most ``bytes_max``; only who wants more than that takes more, and then has it
all alone. Nobody overtakes: who wants little waits behind who wants much, for otherwise a stream of
the small would keep the large out for ever. So whoever waits gets in when those before it have
given back what they took, or have gone, and each of them does one or the other.
"""

import asyncio
from collections import deque


class ByteBudget:
    """The budget, and those who wait for some of it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken = 0
        #: Who waits, first first, and for how many bytes. One that was cancelled is forgotten when
        #: its turn comes; its bytes were never taken.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, size_bytes: int) -> None:
        """Return when there is room for so many bytes; they are taken then, until given back.

        Returns without a pause if there is room already. Who is cancelled has taken nothing.
        """
        assert size_bytes >= 0
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size_bytes))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._let_in()  # those behind it may have room
            else:
                self.give_back(size_bytes)  # it had been let in, and was cancelled before it ran
            raise

    def give_back(self, size_bytes: int) -> None:
        """Take so many bytes no longer."""
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
