"""The pause after a failure that may pass: it doubles, up to a limit."""

import asyncio
from typing import Final

PAUSE_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0


class GrowingPause:
    """The pauses of one step that is tried until it succeeds."""

    def __init__(self) -> None:
        self._next_s = PAUSE_S

    async def wait(self) -> None:
        """Wait for the next pause, which is twice as long as the one before."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, PAUSE_MAX_S)
        await asyncio.sleep(pause_s)
