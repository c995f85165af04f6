"""The pause after a failure that may pass: it doubles, up to a limit."""

import asyncio
from typing import Final

PAUSE_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0


class GrowingPause:
    """The pauses of one step that is tried until it succeeds."""

    def __init__(self, first_s: float = PAUSE_S, max_s: float = PAUSE_MAX_S) -> None:
        #: The next pause.
        self.next_s = first_s
        self._max_s = max_s

    async def wait(self) -> None:
        """Wait for the next pause, which is twice as long as the one before."""
        pause_s, self.next_s = self.next_s, min(2 * self.next_s, self._max_s)
        await asyncio.sleep(pause_s)
