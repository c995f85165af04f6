"""An event loop whose clock jumps to the next timer instead of waiting for it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


class _NeverWaits(selectors.SelectSelector):
    """Selects what is ready now, and tells the clock how long it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everybody waits, and no timer is set: this never ends")
            self.now_s += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The same program takes the same time in every run: none of the machine's, all of its own."""

    def __init__(self) -> None:
        self._never_waits = _NeverWaits()
        super().__init__(self._never_waits)

    def time(self) -> float:
        return self._never_waits.now_s


def run(main: Coroutine[None, None, T]) -> T:
    """Run to the end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
