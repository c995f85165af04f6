"""An event loop whose clock jumps to the next timer instead of waiting for it.

There are no threads, sockets or executors: nothing but the program decides what happens next, so
the same program takes the same steps in every run. Timers of one moment fire in the order in which
they were set. ``tests.simulation.loop`` builds on it, and lets a seed choose where this one keeps
to an order.

Task groups keep their tasks in sets, and cancel them in the set's order. A task's hash is its
address, another one in each run; here it is the task's number.
"""

import asyncio
import functools
import heapq
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from itertools import count
from typing import ParamSpec, TypeVar, TypeVarTuple

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class EndlessError(AssertionError):
    """The program does not come to an end: there is no timer, or there is always work."""


class _NumberedTask(asyncio.Task[T]):
    """A task whose place in a set does not depend on its address."""

    def __init__(
        self,
        number: int,
        work: Coroutine[None, None, T],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._number = number  # first: making a task hashes it
        super().__init__(work, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number

    __eq__ = object.__eq__


def _nothing() -> None:
    """Stand where a callback was that is not wanted any more."""


class Turn(Handle):
    """Something that runs as soon as it can; made by the hundred thousand, so it is made lean."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[object],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = _nothing, ()


class Timer(Turn, TimerHandle):
    """A turn that has its time, and says in which context it runs."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[object],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        Turn.__init__(self, callback, args, loop, context)
        self._when = when
        self._scheduled = False

    @property
    def context(self) -> Context:
        return self._context


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """The same program takes the same time in every run: none of the machine's, all of its own."""

    #: asyncio's own: ``stop`` was called.
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._queue: deque[Handle] = deque()
        #: When, what comes first of one moment, and the timer.
        self._timers: list[tuple[float, float, int, Timer]] = []
        self._timer_numbers = count()
        numbers = count()

        def numbered(
            loop: asyncio.AbstractEventLoop,
            work: Coroutine[None, None, T] | Generator[None, None, T],
            context: Context | None = None,
        ) -> asyncio.Task[T]:
            assert asyncio.iscoroutine(work)
            return _NumberedTask(next(numbers), work, loop, context)

        self.set_task_factory(numbered)

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Handle:
        handle = Turn(callback, args, self, copy_context() if context is None else context)
        self._queue.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Handle:
        # There are no threads; asyncio itself calls this for generators that were not finished.
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        timer = Timer(when, callback, args, self, copy_context() if context is None else context)
        self._set_timer(when, timer)
        return timer

    def _set_timer(self, at_s: float, timer: Timer) -> None:
        entry = (at_s, self._place(), next(self._timer_numbers), timer)
        heapq.heappush(self._timers, entry)

    def _place(self) -> float:
        """Say where a timer stands among those of its moment."""
        return 0.0

    def _come_due(self, timer: Timer) -> None:
        """Take in a timer that is to run as soon as it can."""
        self._queue.append(timer)

    def _run_once(self) -> None:
        """Run callbacks until the loop is to stop; called by ``run_forever``."""
        queue = self._queue
        while not self._stopping:
            while not queue:
                self._pass_time()
            handle = queue.popleft()
            if not handle._cancelled:
                handle._run()

    def _pass_time(self) -> None:
        """Go to the next timer, and let everything come due that is due then."""
        timers = self._timers
        while timers and timers[0][3]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise EndlessError("everybody waits for somebody else, and no timer is set")
        now_s = self._now_s = max(self._now_s, timers[0][0])
        while timers and timers[0][0] <= now_s:
            timer = heapq.heappop(timers)[3]
            if not timer._cancelled:
                self._come_due(timer)

    # ── what asyncio wants of a loop, and this one has no use for ──

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _process_events(self, event_list: list[object]) -> None:
        raise AssertionError("there is no selector")

    def _write_to_self(self) -> None:
        """No thread sleeps, so none is woken."""


def run(main: Coroutine[None, None, T]) -> T:
    """Run to the end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def played(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Let a test play in virtual time; its fixtures must not be asynchronous."""

    @functools.wraps(test)
    def play(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return play
