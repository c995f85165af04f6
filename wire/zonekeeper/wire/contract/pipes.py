"""Streams of messages, as a link and a bookie's host use them.

Every failure is raised as an error of ``wire.formats.errors``, and never as another exception.
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine
from typing import Protocol

from zonekeeper.wire.formats import errors


class StreamKind(enum.Enum):
    """The two raw streams, by their names in the ``.proto``."""

    APPEND = "Append"
    READ = "Read"


class Pipe(Protocol):
    """One end of a stream of messages: in order, each at most once, none after a lost one."""

    async def send(self, message: bytes) -> None:
        """Send a message; waits while the network has no room. Raises if the stream is gone."""
        ...

    async def receive(self) -> bytes | bytearray | None:
        """Wait for a message; None if the peer ended the stream without an error."""
        ...


class _OneEndedError(Exception):
    """Cancels the other tasks in a task group."""


async def until_one_ends(*ways: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run all until one returns or fails, and cancel the others; raise the first wire error.

    Any other exception is a bug. It is raised in the task group's exception group.
    """

    async def run(way: Callable[[], Coroutine[None, None, None]]) -> None:
        await way()
        raise _OneEndedError

    failures: list[errors.WireError] = []

    def note(group: BaseExceptionGroup[errors.WireError]) -> None:
        for failure in group.exceptions:
            if isinstance(failure, BaseExceptionGroup):
                note(failure)
            else:
                failures.append(failure)

    try:
        async with asyncio.TaskGroup() as group:
            for way in ways:
                group.create_task(run(way))
    except* _OneEndedError:
        pass
    except* errors.WireError as failed:
        note(failed)
    if failures:
        raise failures[0]
