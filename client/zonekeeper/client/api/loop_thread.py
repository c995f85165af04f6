"""A process's one event loop for those who cannot await, in a thread of its own.

``opened`` enters an async context on that loop, and gives what it opened together with ``Calls``:
the way for any thread to have a coroutine run there and to wait for its answer. The loop starts
with the first block and ends with the last one. There is never more than one, because gRPC serves
one loop of a process well, and several badly.

A call ends with its block at the latest. One whose thread is interrupted is cancelled.

Who leaves a block waits until what it opened is closed. A block may also be *dropped*: a generator
that stands in it is closed, or collected, or the interpreter ends. Collectors run in any thread, in
the middle of anything, mostly in the loop's own thread; and the loop's thread stands still when the
interpreter is ending. So what drops a block takes no lock and waits for nothing: the loop ends it.
What a collector runs may also begin a call, in the middle of one that begins: calls take no lock.

Nothing here survives a fork: the child has no such thread, and gRPC, whose own threads outlive the
last block by an unknown time, aborts a process that uses it on both sides of a fork. So a child of
a process that ever opened something here is refused, in words, whatever it wants to open or call.
"""

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Generic, TypeVar

from zonekeeper.client.base import errors

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
        #: How to cancel each call that waits. One step of the interpreter adds, takes or lists.
        self._running: set[Callable[[], bool]] = set()
        self._ended = False
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Is this a copy in a process that was forked?"""
        return os.getpid() != self._process

    def do(self, work: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Run what ``work`` gives on the loop, and wait for its result."""
        if _waits_in_vain(self._loop):
            raise ClientEnded(
                "the interpreter is ending, or collects garbage in the client's own thread, where "
                "a call would wait for ever; this call was not begun",
                maybe_applied=False,
            )
        answer = self._begin(work)
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            raise ClientEnded(
                "the client ended while this call waited: what was asked for may have happened",
                maybe_applied=True,
            ) from None
        except errors.ClientClosed as error:
            if not self._ended:
                raise
            raise ClientEnded(str(error), maybe_applied=error.maybe_applied) from error
        finally:
            answer.cancel()  # of a thread that was interrupted; else it is done

    def do_now(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop."""

        async def call() -> Result:
            return function()

        return self.do(call)

    def drop(self, function: Callable[[], object]) -> None:
        """Have a function called on the loop, and wait for nothing: for what is dropped."""
        if not self.forked:
            with suppress(RuntimeError):  # the loop has ended, and all with it
                self._loop.call_soon_threadsafe(function)

    def end(self) -> None:
        """Cancel the calls that wait, and refuse others from now on."""
        self._ended = True
        for cancel in list(self._running):
            cancel()

    def _begin(self, work: Callable[[], Coroutine[None, None, Result]]) -> Future[Result]:
        if self.forked:
            raise ForkedAfterUse
        ended = "the client has ended: connect again; this call was not begun"
        if self._ended:
            raise ClientEnded(ended, maybe_applied=False)
        asked = work()
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, self._loop)
        except RuntimeError:  # the loop has ended meanwhile
            asked.close()
            raise ClientEnded(ended, maybe_applied=False) from None
        self._running.add(answer.cancel)
        answer.add_done_callback(lambda _: self._running.discard(answer.cancel))
        if self._ended:  # meanwhile: it may have been added after all that run were cancelled
            answer.cancel()
        return answer


@contextmanager
def opened(context: AbstractAsyncContextManager[Made]) -> Iterator[tuple[Made, Calls]]:
    """Enter an async context on the loop until the block ends; one task enters and leaves it."""
    block = _Block(context)
    try:
        made = block.entered()
    except BaseException:
        block.give_up()
        raise
    end = block.leave
    try:
        yield made, block.calls
    except GeneratorExit:
        end = block.drop
        raise
    finally:
        end()


class _Block(Generic[Made]):
    """One context and the task that stays in it, which is one more user of the process's loop."""

    def __init__(self, context: AbstractAsyncContextManager[Made]) -> None:
        self._loop = _PROCESS.enter()
        self.calls = Calls(self._loop)
        self._leave = asyncio.Event()
        self._there: list[Made] = []
        self._settled = threading.Event()
        self._staying = asyncio.run_coroutine_threadsafe(self._stay(context), self._loop)
        self._staying.add_done_callback(lambda _: self._settled.set())

    def entered(self) -> Made:
        """Wait until the context is entered, and give what it opened; raises why it is not."""
        self._settled.wait()
        if not self._there:
            self._staying.result()
        return self._there[0]

    def give_up(self) -> None:
        """End before the context is entered."""
        self._staying.cancel()
        _PROCESS.leave()

    def leave(self) -> None:
        """Leave the context, and wait until that is done; raises what fails there."""
        if self.calls.forked:
            return
        if _waits_in_vain(self._loop):
            self.drop()
            return
        try:
            self.calls.end()
            self._loop.call_soon_threadsafe(self._leave.set)
            self._staying.result()
        finally:
            _PROCESS.leave()

    def drop(self) -> None:
        """Have the context left by the loop."""
        self.calls.drop(self._drop)

    def _drop(self) -> None:
        self._leave.set()
        self._staying.add_done_callback(lambda _: _PROCESS.leave())

    async def _stay(self, context: AbstractAsyncContextManager[Made]) -> None:
        try:
            async with context as made:
                self._there.append(made)
                self._settled.set()
                await self._leave.wait()
        finally:
            self.calls.end()


def _waits_in_vain(loop: asyncio.AbstractEventLoop) -> bool:
    """Say whether who waits here for the loop waits for ever."""
    try:
        return sys.is_finalizing() or asyncio.get_running_loop() is loop
    except RuntimeError:
        return False  # no loop turns in this thread


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
        """End the loop; who is not in its thread waits until it has ended."""
        self.loop.call_soon_threadsafe(self._stopped.set)
        if threading.current_thread() is not self._thread:
            self.join()

    def join(self) -> None:
        self._thread.join()


class _Process:
    """Who uses this process's loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        #: With users it turns; without, it has ended or is ending.
        self._thread: _LoopThread | None = None
        self._refuses = False

    def enter(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._refuses:
                raise ForkedAfterUse
            if self._thread is None or self._users == 0:
                if self._thread is not None:  # there are never two
                    self._thread.join()
                self._thread = _LoopThread()
            self._users += 1
            return self._thread.loop

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                assert self._thread is not None, "who leaves has entered"
                self._thread.stop()

    def forked(self) -> None:
        """Be the child: the thread is not here, and somebody may have held the lock."""
        self._lock = threading.Lock()
        self._refuses = self._thread is not None


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.forked)
