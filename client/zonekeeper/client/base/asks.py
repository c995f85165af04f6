"""Several questions asked at once; their answers are given one by one, in the order they arrive.

Each question is a coroutine that returns its answer or its failure as a value. Leaving the
``async with`` block cancels the questions still under way. That is safe for every request of a
link.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

from zonekeeper.client.base.tasks import Tasks
from zonekeeper.wire.link.patience import Alarm

Answer = TypeVar("Answer")


class Asks(Generic[Answer]):
    """Questions that belong together; to be used in ``async with``."""

    def __init__(self, group: Tasks) -> None:
        self._tasks = group
        self._running: set[asyncio.Task[Answer]] = set()
        self._timers: list[Alarm] = []
        #: Each answer in a tuple. None: a question ended without an answer, and the client is over.
        #: Either the client was closed, or this question's fault ends it. Then no other question
        #: may be left that answers, so ``next`` must be woken by this None.
        self._answers: asyncio.Queue[tuple[Answer] | None] = asyncio.Queue()

    def ask(self, question: Coroutine[None, None, Answer]) -> None:
        """Start a question."""
        task = self._tasks.start(question)
        self._running.add(task)
        task.add_done_callback(self._answered)

    def later(self, delay_ms: int, answer: Answer) -> None:
        """Put a given answer into the queue after a delay."""
        self._timers.append(Alarm(delay_ms, partial(self._answers.put_nowait, (answer,))))

    async def next(self) -> Answer:
        """Wait for the next answer; raises ClientClosed."""
        answer = await self._answers.get()
        if answer is None:
            raise self._tasks.closed()
        return answer[0]

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

    def _answered(self, task: "asyncio.Task[Answer]") -> None:
        """Pass an answer on. A task that was cancelled before it began is handled here, too."""
        self._running.discard(task)
        ended = task.cancelled() or task.exception() is not None
        self._answers.put_nowait(None if ended else (task.result(),))
