"""Disks: an event loop gives blocking work to a disk's own thread, which does it in order.

There is one thread for each device, for two reasons. A device does one sync at a time. And work
that is done in the order in which it was given needs no lock. Reads that must not wait behind a
sync use another disk object.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Disk(Protocol):
    """Runs blocking work, in the order in which it was given."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and give its result; cancelling the wait does not undo the work."""
        ...

    async def close(self) -> None:
        """Return when all work that was given is done."""
        ...


class ThreadDisk:
    """A disk whose work a thread does; with ``threads > 1`` the order is not kept."""

    def __init__(self, name: str, *, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work in the thread."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._pool, work))

    async def close(self) -> None:
        """Return when all work that was given is done."""
        await asyncio.to_thread(self._pool.shutdown)


def piece_of(work: Callable[[], T]) -> tuple[Callable[[], None], "asyncio.Future[T]"]:
    """Make a piece of a twin's queue out of work, and a future of what the work gives or raises.

    The future may be cancelled; the piece can be done all the same.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def piece() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 the caller of ``run`` gets it
            if not done.cancelled():
                done.set_exception(error)
        else:
            if not done.cancelled():
                done.set_result(result)

    return piece, done


class InlineDisk:
    """The twin: the event loop itself does each piece of work, after a delay of ``delay_ms()``."""

    def __init__(self, delay_ms: Callable[[], int] = lambda: 0) -> None:
        self._delay_ms = delay_ms
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work when the pieces before it are done."""
        piece, done = piece_of(work)
        self._waiting.append(piece)
        self._idle.clear()
        if not self._busy:
            self._schedule()
        return await asyncio.shield(done)

    async def close(self) -> None:
        """Return when all work that was given is done."""
        await self._idle.wait()

    def stop(self) -> None:
        """Drop the work that has not begun, like a crash; its callers wait for ever."""
        self._waiting.clear()
        self._idle.set()

    def _schedule(self) -> None:
        self._busy = True
        asyncio.get_running_loop().call_later(self._delay_ms() / 1000, self._step)

    def _step(self) -> None:
        self._busy = False
        if self._waiting:
            self._waiting.popleft()()
        if self._waiting:
            self._schedule()
        else:
            self._idle.set()
