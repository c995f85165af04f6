"""An event loop whose time stands still while there is work, and jumps when there is none.

Waiting costs nothing, and what is due when is the same in every run. It is for code that lives on
the loop alone: threads and sockets would be waited for in vain.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

Answer = TypeVar("Answer")


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for the next timer, it sets the clock to it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else, and no timer is set")
        self.now += max(0.0, timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[None, None, Answer]) -> Answer:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
