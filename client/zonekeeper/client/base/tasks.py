"""The background tasks of one client. They end with the client.

A reader or a stream may be held longer than its client. Its next call raises ``ClientClosed``.
"""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from zonekeeper.client.base.errors import ClientClosed, ForkedAfterUse
from zonekeeper.client.base.forks import Home

Result = TypeVar("Result")


class Tasks:
    """The tasks of a client's group."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        #: The error that ended the client, if an error did.
        self._fault: BaseException | None = None
        #: Was the client closed? The block that it lives in may still run.
        self.over = False
        self.home = Home()

    def start(self, work: Coroutine[None, None, Result]) -> "asyncio.Task[Result]":
        """Begin work. An error that the work raises is a bug and ends the client.

        Raises ClientClosed, or ForkedAfterUse.
        """
        if self.home.forked:
            work.close()
            raise ForkedAfterUse
        if self.over:
            work.close()
            raise self.closed()
        try:
            task = self._group.create_task(work)
        except RuntimeError:
            work.close()
            raise self.closed() from self._fault
        task.add_done_callback(self._ended)
        return task

    async def result(self, task: "asyncio.Task[Result]") -> Result:
        """Wait for a task. If the client's end cancelled the task, raise ClientClosed.

        Only a cancellation of the waiting task itself is passed on as CancelledError.
        """
        try:
            return await task
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if waiting is not None and waiting.cancelling():
                raise
            raise self.closed() from self._fault

    def end(self) -> None:
        """Begin nothing more."""
        self.over = True

    @property
    def failed(self) -> bool:
        """Did a fault end the client?"""
        return self._fault is not None

    def closed(self, *, maybe_applied: bool = False) -> ClientClosed:
        """Give the error that says that the client has ended, and by which fault, if by one."""
        why = "was closed"
        if self._fault is not None:
            why = f"ended by a fault, {type(self._fault).__name__}: {self._fault}"
        closed = ClientClosed(f"the client {why}: connect again", maybe_applied=maybe_applied)
        closed.__cause__ = self._fault
        return closed

    def _ended(self, task: "asyncio.Task[Result]") -> None:
        if self._fault is None and not task.cancelled():
            self._fault = task.exception()
