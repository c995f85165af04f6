"""The bytes of answers to readers that all streams of a host share."""

import asyncio


class ReplyBudget:
    """Bytes that all streams share. At the limit newcomers wait; the last one may pass over it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        #: The bytes of answers that have not left.
        self.taken = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def room(self) -> None:
        """Wait until there is room."""
        while self.taken >= self._bytes_max:
            await self._has_room.wait()

    def take(self, size_bytes: int) -> None:
        """Count bytes of answers; a negative number gives bytes back."""
        self.taken += size_bytes
        if self.taken < self._bytes_max:
            self._has_room.set()
        else:
            self._has_room.clear()
