"""The background work of one client, which ends with the client.

Whoever still holds a reader or a stream then is told so by the next thing that it asks for.
"""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from zonekeeper.client.errors import ClientClosed

Result = TypeVar("Result")


class Tasks:
    """The tasks of a client's group."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def start(self, work: Coroutine[None, None, Result]) -> "asyncio.Task[Result]":
        """Begin work; what it raises is a bug, and ends the client. Raises ClientClosed."""
        try:
            return self._group.create_task(work)
        except RuntimeError as over:
            work.close()
            raise self.closed() from over

    async def result(self, task: "asyncio.Task[Result]") -> Result:
        """Wait for a task; that the client ended it is an error, and no cancellation of ours."""
        try:
            return await task
        except asyncio.CancelledError as over:
            waiting = asyncio.current_task()
            if waiting is not None and waiting.cancelling():
                raise
            raise self.closed() from over

    def closed(self) -> ClientClosed:
        """Say that the client is over."""
        return ClientClosed("the client was closed: connect again")
