"""Tasks that live as long as a block, and whose errors are raised without a group around them.

A task group raises every error in a group of exceptions, even an error of the block itself. Code
that follows a stream in such a block did not ask for tasks, and catches plain errors.

If several fail at once, the error that is raised has the others as notes, so a traceback shows all.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

Result = TypeVar("Result")


@asynccontextmanager
async def alongside(*work: Coroutine[None, None, None]) -> AsyncIterator[asyncio.TaskGroup]:
    """Run ``work`` beside a block, and cancel it after the block; a failure ends the block.

    More tasks may be made in the given group; the code that makes them must cancel them.
    """
    failed: Sequence[BaseException] = ()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
            try:
                yield group
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as errors:
        failed = errors.exceptions
    if failed:
        raise _told(failed)  # outside of the clause, which would replace the error's own cause


def _told(failed: Sequence[BaseException]) -> BaseException:
    """Give one of several errors, with the others as notes."""
    # The block's own error is the last one. Without it, any of the errors will do.
    *others, error = failed
    for other in others:
        if other is not error:
            text = "".join(traceback.format_exception(other))
            error.add_note(f"At the same time another task failed:\n{text}")
    return error


async def together(work: Iterable[Coroutine[None, None, Result]]) -> list[Result]:
    """Run all of ``work`` at the same time; give the results in order. A failure ends all."""
    async with alongside() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
