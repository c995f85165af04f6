"""Tasks that live as long as a block, and whose errors are raised without a group around them.

A task group raises every error in a group of exceptions, even an error of the block itself. Code
that follows a stream in such a block did not ask for tasks, and catches plain errors.

A task group also prefers an error to a cancellation that comes at the same time (until Python
3.13). Code that tries again after the error would then never end. Here a cancellation is never
lost: whoever cancels a task sees it end.

If several fail at once, the error that is raised has the others as notes, so a traceback shows all.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

Result = TypeVar("Result")


class TasksBeside:
    """The tasks beside a block. The first failure cancels the others, and the block."""

    def __init__(self, whole: asyncio.Task[object]) -> None:
        self._whole = whole
        self._cancelled_before = whole.cancelling()
        self._running: set[asyncio.Task[object]] = set()
        self._block_is_over = False
        #: Was the block cancelled because a task failed?
        self.is_interrupted = False
        #: In the order in which they came.
        self.failures: list[BaseException] = []

    def create_task(self, work: Coroutine[None, None, Result]) -> asyncio.Task[Result]:
        """Run something beside the block."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._has_ended)
        if self.failures:
            task.cancel()
        return task

    def cancel(self) -> None:
        """Cancel all that run."""
        for task in self._running:
            task.cancel()

    async def all_ended(self) -> None:
        """Wait for all that run; called once, behind the block. Raises only a cancellation."""
        self._block_is_over = True
        if self.is_interrupted:
            self._whole.uncancel()
        while self._running:
            try:
                await asyncio.wait(self._running)
            except asyncio.CancelledError:
                self.cancel()
        if self._whole.cancelling() > self._cancelled_before:
            raise asyncio.CancelledError

    def _has_ended(self, task: asyncio.Task[Result]) -> None:
        self._running.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is None:
            return
        self.failures.append(failure)
        self.cancel()
        if not self._block_is_over and not self.is_interrupted:
            self.is_interrupted = True
            self._whole.cancel()


@asynccontextmanager
async def alongside(*work: Coroutine[None, None, None]) -> AsyncIterator[TasksBeside]:
    """Run ``work`` beside a block, and cancel it after the block; a failure ends the block.

    More tasks may be made in what is given; the code that makes them must cancel them. An error of
    the block itself comes out before any of the tasks.
    """
    whole = asyncio.current_task()
    assert whole is not None, "a block runs in a task"
    beside = TasksBeside(whole)
    tasks = [beside.create_task(one) for one in work]
    try:
        yield beside
    except BaseException as error:
        beside.cancel()
        await beside.all_ended()
        if not (isinstance(error, asyncio.CancelledError) and beside.is_interrupted):
            _tell(error, beside.failures)
            raise
    else:
        for task in tasks:
            task.cancel()
        await beside.all_ended()
    if beside.failures:
        failure, *others = beside.failures
        _tell(failure, others)
        raise failure  # outside of the clause, which would replace the failure's own cause


def _tell(error: BaseException, others: Iterable[BaseException]) -> None:
    """Give the error that comes out the others as notes."""
    for other in others:
        if other is not error:
            text = "".join(traceback.format_exception(other))
            error.add_note(f"At the same time another task failed:\n{text}")


async def together(work: Iterable[Coroutine[None, None, Result]]) -> list[Result]:
    """Run all of ``work`` at the same time; give the results in order. A failure ends all."""
    async with alongside() as beside:
        tasks = [beside.create_task(one) for one in work]
    return [task.result() for task in tasks]
