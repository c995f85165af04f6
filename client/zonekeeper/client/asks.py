"""Several questions at once, and their answers one after the other, as they come.

Each question is a coroutine that gives its answer, or its failure, as a value. Who leaves early
cancels what is still under way, which is safe for everything that a link can be asked.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Generic, Self, TypeVar

Answer = TypeVar("Answer")


class Asks(Generic[Answer]):
    """Questions of one purpose; to be used in ``async with``."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.TimerHandle] = []
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    def ask(self, question: Coroutine[None, None, Answer]) -> None:
        """Start a question."""
        task = self._tasks.create_task(self._answer(question))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def later(self, delay_ms: int, answer: Answer) -> None:
        """Have an answer after a time."""
        when_s = self._loop.time() + delay_ms / 1_000
        self._timers.append(self._loop.call_at(when_s, self._answers.put_nowait, answer))

    async def next(self) -> Answer:
        """Wait for the next answer."""
        return await self._answers.get()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for timer in self._timers:
            timer.cancel()
        for task in self._running:
            task.cancel()

    async def _answer(self, question: Coroutine[None, None, Answer]) -> None:
        self._answers.put_nowait(await question)
