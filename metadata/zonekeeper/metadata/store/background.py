"""Tasks that live as long as a block, and whose errors come out of it as they are.

A task group wraps what goes wrong in it in a group of exceptions, an error of the block itself
included. Who follows a stream inside such a block did not ask for tasks and catches plain errors.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

Result = TypeVar("Result")


@asynccontextmanager
async def alongside(*work: Coroutine[None, None, None]) -> AsyncIterator[asyncio.TaskGroup]:
    """Run ``work`` beside a block, and cancel it behind it; one that fails ends the block.

    More tasks may be made in the group that is given; who makes them cancels them.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
            try:
                yield group
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as errors:
        # The block's own error is the last of them; otherwise each is as good as another.
        raise errors.exceptions[-1] from None


async def together(work: Iterable[Coroutine[None, None, Result]]) -> list[Result]:
    """Run all of ``work`` at once; give what each gives, in order. One that fails ends all."""
    async with alongside() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
