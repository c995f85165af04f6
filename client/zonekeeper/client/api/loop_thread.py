"""A process's one event loop for code that cannot await, in a thread of its own.

``opened`` enters an async context on that loop. It gives the object that the context opened, and
``Calls``. With ``Calls`` any thread can run a coroutine on the loop and wait for its result. The
loop starts with the first block and ends with the last one. There is never more than one loop,
because gRPC serves one loop of a process well, and several badly.

A call ends with its block at the latest. If the calling thread is interrupted, its call is
cancelled.

Leaving a block waits until the opened object is closed. A block may also be *dropped*: a generator
that is suspended inside the block is closed or garbage-collected, or the interpreter ends. The
garbage collector runs in any thread, at any point, mostly in the loop's own thread. When the
interpreter ends, the loop's thread stands still. So the code that drops a block takes no lock and
waits for nothing; the loop ends the block. Code that the garbage collector runs may also begin a
call while another call begins. So calls take no lock.

Nothing here survives a fork. The child process has no such thread. gRPC aborts a process that uses
it on both sides of a fork, and its own threads outlive the last block by an unknown time. So a
child of a process that ever opened a block is refused, with an error, all it wants to open or call.
"""

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Final, Generic, TypeVar

from zonekeeper.client.base import errors
from zonekeeper.client.base.errors import ClientEnded, ForkedAfterUse

Made = TypeVar("Made")
Result = TypeVar("Result")
Key = TypeVar("Key")
Item = TypeVar("Item")

#: What ends on the loop within a limit has this long to tell it to another thread.
_ANSWERED_S: Final = 1.0
_ENDED: Final = "the client has ended: connect again; this call was not begun"


class Calls:
    """Runs calls from any thread on the loop, until the block has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: For each waiting call: the function that cancels it. Each use of this set is one step of
        #: the interpreter, so it needs no lock.
        self._running: set[Callable[[], bool]] = set()
        self._ended = False
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Is this a copy in a process that was forked?"""
        return os.getpid() != self._process

    def check(self) -> None:
        """Refuse a copy in a forked process, and a block that has ended."""
        if self.forked:
            raise ForkedAfterUse
        if self._ended:
            raise ClientEnded(_ENDED, maybe_applied=False)

    def now_s(self) -> float:
        """Give the loop's time; any thread may ask."""
        return self._loop.time()

    def do(self, work: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Run the coroutine that ``work`` makes on the loop, and wait for its result."""
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
                "the client ended while this call waited: the call may have had its effect",
                maybe_applied=True,
            ) from None
        except errors.ClientClosed as error:
            if not self._ended:
                raise
            raise ClientEnded(str(error), maybe_applied=error.maybe_applied) from error
        finally:
            answer.cancel()  # matters only if this thread was interrupted; else it is done
            # An error holds this frame, and the answer the error. In such a cycle the caller's
            # objects, such as a tail that was dropped, would live until garbage is collected.
            del answer

    def do_now(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop."""

        async def call() -> Result:
            return function()

        return self.do(call)

    def do_at_exit(
        self, work: Callable[[], Coroutine[None, None, dict[Key, Item]]], most_s: float
    ) -> dict[Key, Item]:
        """Run a coroutine as the process ends, and wait; empty if nobody can or it takes longer."""
        if self.forked:
            return {}
        try:
            return self._begin(work).result(timeout=most_s + _ANSWERED_S)
        except (TimeoutError, concurrent.futures.CancelledError, errors.ClientError):
            return {}

    def drop(self, function: Callable[[], object]) -> None:
        """Call a function on the loop without waiting: for a block or stream that is dropped."""
        if not self.forked:
            with suppress(RuntimeError):  # the loop has ended, and everything on it
                self._loop.call_soon_threadsafe(function)

    def end(self) -> None:
        """Cancel the calls that wait, and refuse new ones."""
        self._ended = True
        for cancel in list(self._running):
            cancel()

    def _begin(self, work: Callable[[], Coroutine[None, None, Result]]) -> Future[Result]:
        self.check()
        asked = work()
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, self._loop)
        except RuntimeError:  # the loop has ended meanwhile
            asked.close()
            raise ClientEnded(_ENDED, maybe_applied=False) from None
        self._running.add(answer.cancel)
        answer.add_done_callback(lambda done: self._running.discard(done.cancel))
        if self._ended:  # since the check above: ``end`` may have missed this call
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
    """One async context, and the task that stays in it; it counts as a user of the loop."""

    def __init__(self, context: AbstractAsyncContextManager[Made]) -> None:
        self._loop = _PROCESS.enter()
        self.calls = Calls(self._loop)
        self._leave = asyncio.Event()
        self._there: list[Made] = []
        self._settled = threading.Event()
        self._staying = asyncio.run_coroutine_threadsafe(self._stay(context), self._loop)
        self._staying.add_done_callback(lambda _: self._settled.set())

    def entered(self) -> Made:
        """Wait until the context is entered, and give its object; raises the error of entering."""
        self._settled.wait()
        if not self._there:
            self._staying.result()
        return self._there[0]

    def give_up(self) -> None:
        """End the block before the context is entered."""
        self._staying.cancel()
        _PROCESS.leave()

    def leave(self) -> None:
        """Leave the context, and wait until it is left; raises the error of leaving."""
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
        """Make the loop leave the context, without waiting for it."""
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
    """Say whether this thread would wait for ever if it waited for the loop."""
    try:
        return sys.is_finalizing() or asyncio.get_running_loop() is loop
    except RuntimeError:
        return False  # no loop runs in this thread


class _LoopThread:
    """A thread that runs an event loop until it is stopped."""

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
        """End the loop. A caller in another thread waits until the loop has ended."""
        self.loop.call_soon_threadsafe(self._stopped.set)
        if threading.current_thread() is not self._thread:
            self.join()

    def join(self) -> None:
        self._thread.join()


class _Process:
    """The users of this process's loop, and the loop's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        #: ``_users > 0``: the thread runs. ``_users == 0``: it has ended or is ending.
        self._thread: _LoopThread | None = None
        self._refuses = False

    def enter(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._refuses:
                raise ForkedAfterUse
            if self._thread is None or self._users == 0:
                if self._thread is not None:  # there are never two loops
                    self._thread.join()
                self._thread = _LoopThread()
            self._users += 1
            return self._thread.loop

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                assert self._thread is not None, "a block that leaves has entered"
                self._thread.stop()

    def forked(self) -> None:
        """Set up the forked child: it has no loop thread, and the lock may have been held."""
        self._lock = threading.Lock()
        self._refuses = self._thread is not None


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.forked)
