"""Time as an event loop has it: by its turns."""

import asyncio


class Turned:
    """Counts the turns of the event loop, for so long as it is asked to."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._next)

    def _next(self) -> None:
        self.count += 1
        self._handle = self._loop.call_soon(self._next)

    def stop(self) -> None:
        self._handle.cancel()
