"""An event loop whose clock jumps to the next timer instead of waiting for it.

Task groups keep their tasks in sets, and cancel them in the set's order. A task's hash is its
address, another one in each run; here it is the task's number, so that one seed is one run.
"""

import asyncio
import selectors
from collections.abc import Coroutine, Generator
from contextvars import Context
from itertools import count
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


class _NumberedTask(asyncio.Task[T]):
    def __init__(
        self,
        number: int,
        work: Coroutine[None, None, T],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._number = number  # first: making a task hashes it
        super().__init__(work, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number

    __eq__ = object.__eq__


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The same program takes the same time in every run: none of the machine's, all of its own."""

    def __init__(self) -> None:
        self._never_waits = _NeverWaits()
        super().__init__(self._never_waits)
        numbers = count()

        def numbered(
            loop: asyncio.AbstractEventLoop,
            work: Coroutine[None, None, T] | Generator[None, None, T],
            context: Context | None = None,
        ) -> asyncio.Task[T]:
            assert asyncio.iscoroutine(work)
            return _NumberedTask(next(numbers), work, loop, context)

        self.set_task_factory(numbered)

    def time(self) -> float:
        return self._never_waits.now_s


def run(main: Coroutine[None, None, T]) -> T:
    """Run to the end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
