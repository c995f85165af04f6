"""A process's one event loop for those who cannot await, in a thread of its own.

``opened`` enters an async context on that loop, and gives what it opened together with ``Calls``:
the way for any thread to have a coroutine run there and to wait for its answer. The loop starts
with the first block and ends with the last one. There is never more than one, because gRPC serves
one loop of a process well, and several badly.

A call ends with its block at the latest. One whose thread is interrupted is cancelled.

Nothing here survives a fork: the child has no such thread, and gRPC, whose own threads outlive the
last block by an unknown time, aborts a process that uses it on both sides of a fork. So a child of
a process that ever opened something here is refused, in words, whatever it wants to open or call.
"""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

from zonekeeper.client import errors

Made = TypeVar("Made")
Result = TypeVar("Result")


class ClientEnded(errors.ClientError):
    """The block that the client lived in has ended."""

    def __init__(self, message: str, *, maybe_applied: bool) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied


class ForkedAfterUse(errors.ClientError):
    """This process was forked from one that had used a client, and cannot use one."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked from one that had connected a blocking client, and cannot "
            "reach bookies: fork before connecting, or start processes by 'spawn'; nothing was done"
        )


class Calls:
    """Calls to what one block has opened, from any thread, until it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        #: How to cancel each call that waits.
        self._running: set[Callable[[], bool]] = set()
        self._ended = False
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Is this a copy in a process that was forked?"""
        return os.getpid() != self._process

    def do(self, work: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Run what ``work`` gives on the loop, and wait for its result."""
        answer = self._begin(work)
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            raise ClientEnded(
                "the client ended while this call waited: what was asked for may have happened",
                maybe_applied=True,
            ) from None
        finally:
            answer.cancel()  # of a thread that was interrupted; else it is done

    def do_now(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop."""

        async def call() -> Result:
            return function()

        return self.do(call)

    def end(self) -> None:
        """Cancel the calls that wait, and refuse others from now on."""
        with self._lock:
            self._ended = True
            running = list(self._running)
        for cancel in running:
            cancel()

    def _begin(self, work: Callable[[], Coroutine[None, None, Result]]) -> Future[Result]:
        if self.forked:
            raise ForkedAfterUse
        with self._lock:
            if self._ended:
                raise ClientEnded(
                    "the client has ended: connect again; this call was not begun",
                    maybe_applied=False,
                )
            answer = asyncio.run_coroutine_threadsafe(work(), self._loop)
            self._running.add(answer.cancel)
        answer.add_done_callback(self._forget)
        return answer

    def _forget(self, answer: Future[Result]) -> None:
        with self._lock:
            self._running.discard(answer.cancel)


@contextmanager
def opened(context: AbstractAsyncContextManager[Made]) -> Iterator[tuple[Made, Calls]]:
    """Enter an async context on the loop until the block ends; one task enters and leaves it."""
    with _turning() as loop:
        calls, leave = Calls(loop), asyncio.Event()
        there, settled = list[Made](), threading.Event()

        async def stay() -> None:
            try:
                async with context as made:
                    there.append(made)
                    settled.set()
                    await leave.wait()
            finally:
                calls.end()

        staying = asyncio.run_coroutine_threadsafe(stay(), loop)
        staying.add_done_callback(lambda _: settled.set())
        try:
            settled.wait()
        except BaseException:
            staying.cancel()
            raise
        if not there:
            staying.result()  # raises why
        try:
            yield there[0], calls
        finally:
            if not calls.forked:
                calls.end()
                loop.call_soon_threadsafe(leave.set)
                staying.result()


@contextmanager
def _turning() -> Iterator[asyncio.AbstractEventLoop]:
    """Give the process's loop, and let go of it again; not in a child that leaves the block."""
    process = os.getpid()
    loop = _PROCESS.enter()
    try:
        yield loop
    finally:
        if os.getpid() == process:
            _PROCESS.leave()


class _LoopThread:
    """A loop that turns until it is stopped."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        # A daemon, so that a block that was never left does not keep the process from ending.
        self._thread = threading.Thread(target=self._turn, name="zonekeeper-client", daemon=True)
        self._thread.start()

    def _turn(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()


class _Process:
    """Who uses this process's loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: _LoopThread | None = None
        self._used = False
        self._refuses = False

    def enter(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._refuses:
                raise ForkedAfterUse
            self._used = True
            if self._thread is None:
                self._thread = _LoopThread()
            self._users += 1
            return self._thread.loop

    def leave(self) -> None:
        with self._lock:  # until it has stopped: there are never two
            self._users -= 1
            if self._users == 0 and self._thread is not None:
                thread, self._thread = self._thread, None
                thread.stop()

    def forked(self) -> None:
        """Be the child: the thread is not here, and somebody may have held the lock."""
        self._lock = threading.Lock()
        self._refuses = self._used


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.forked)
