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


async def until_one_ends(*ways: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run all until one returns or fails, and cancel the others; raise the first wire error.

    Any other exception is a bug, and is raised before wire errors. A cancellation that comes at the
    same time as an end is not lost: code that connects again after an end must hear it.
    """
    running = {asyncio.get_running_loop().create_task(way()) for way in ways}
    ended: list[asyncio.Task[None]] = []
    for task in running:
        task.add_done_callback(ended.append)
    is_cancelled = False
    waits_for = asyncio.FIRST_COMPLETED
    while not all(task.done() for task in running):
        try:
            await asyncio.wait(running, return_when=waits_for)
        except asyncio.CancelledError:
            is_cancelled = True
        waits_for = asyncio.ALL_COMPLETED
        for task in running:
            task.cancel()
    if is_cancelled:
        raise asyncio.CancelledError
    failures = [task.exception() for task in ended if not task.cancelled()]
    told = [_told(failure) for failure in failures if failure is not None]
    for failure in sorted(told, key=lambda one: isinstance(one, errors.WireError)):
        raise failure


def _told(failure: BaseException) -> BaseException:
    """Give the wire error of a group that has nothing else."""
    while isinstance(failure, BaseExceptionGroup):
        of_the_wire, rest = failure.split(errors.WireError)
        if rest is not None or of_the_wire is None:
            break
        failure = of_the_wire.exceptions[0]
    return failure
