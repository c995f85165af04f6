"""The event loop of a simulated world: virtual time, processes, and the seed's choice whose turn.

Time stands still while there is work, and jumps to the next timer when there is none. Every
callback belongs to a *process*, which it inherits from whoever scheduled it. The callbacks of one
process run in the order in which they were scheduled, as on a loop of its own; between processes,
and between timers of one moment, the seed chooses. That is all the freedom that real processes on
real networks have, and no more: what could not happen there does not happen here.

A process can be paused, as by SIGSTOP: its callbacks and timers wait, and the world goes on. There
are no threads, sockets or executors. One seed is one run: tasks are numbered, so that sets of tasks
have an order, and whoever runs a loop keeps the garbage collector from finishing what was forgotten
at moments of its own (see ``run``).
"""

import asyncio
import gc
import heapq
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import Context, ContextVar, copy_context
from itertools import count
from random import Random
from typing import Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: A world that takes more steps than this is going round in circles.
STEPS_MAX: Final = 2_000_000


class EndlessError(AssertionError):
    """The world does not come to an end: nobody has a timer, or everybody is always busy."""


class Process:
    """Callbacks that share one order; ``context`` is what its first task is to run in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[Handle] = deque()
        self.paused = False
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}>"


_PROCESS: ContextVar[Process] = ContextVar("process")


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


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs one world; ``failures`` is what nobody in it was there to handle."""

    def __init__(self, chance: Random, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self._steps_max = steps_max
        self._chance = chance
        self._now_s = 0.0
        self._timers: list[tuple[float, float, int, TimerHandle, Process]] = []
        self._timer_numbers = count()
        self._world = Process("world")
        #: Processes that have something to do, paused ones excluded.
        self._runnable: list[Process] = []
        self.steps = 0
        self.failures: list[str] = []
        numbers = count()

        def numbered(
            loop: asyncio.AbstractEventLoop,
            work: Coroutine[None, None, T] | Generator[None, None, T],
            context: Context | None = None,
        ) -> asyncio.Task[T]:
            assert asyncio.iscoroutine(work)
            return _NumberedTask(next(numbers), work, loop, context)

        self.set_task_factory(numbered)
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Handle:
        context = copy_context() if context is None else context
        handle = Handle(callback, args, self, context)
        self._enqueue(handle, context.get(_PROCESS, self._world))
        return handle

    #: There are no threads; asyncio itself calls this for generators that nobody finished.
    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        context = copy_context() if context is None else context
        timer = TimerHandle(when, callback, args, self, context)
        process = context.get(_PROCESS, self._world)
        turn = self._chance.random()
        heapq.heappush(self._timers, (when, turn, next(self._timer_numbers), timer, process))
        return timer

    def pause(self, process: Process) -> None:
        """Let a process stand still."""
        process.paused = True
        if process in self._runnable:
            self._runnable.remove(process)

    def go_on(self, process: Process) -> None:
        """Let a process that stood still go on."""
        process.paused = False
        if process.ready and process not in self._runnable:
            self._runnable.append(process)

    def _enqueue(self, handle: Handle, process: Process) -> None:
        if not process.ready and not process.paused:
            self._runnable.append(process)
        process.ready.append(handle)

    def _run_once(self) -> None:
        """Run one callback; called by ``run_forever``."""
        runnable = self._runnable
        while not runnable:
            self._pass_time()
        self.steps += 1
        if self.steps > self._steps_max:
            self._give_up(f"{self._steps_max} steps and no end")
        many = len(runnable)
        at = 0 if many == 1 else int(self._chance.random() * many)
        process = runnable[at]
        handle = process.ready.popleft()
        if not process.ready:
            runnable[at] = runnable[-1]
            runnable.pop()
        if not handle.cancelled():
            handle._run()

    def _pass_time(self) -> None:
        """Go to the next timer, and let everything come due that is due then."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if not timers:
            self._give_up("everybody waits for somebody else, and no timer is set")
        self._now_s = max(self._now_s, timers[0][0])
        while timers and timers[0][0] <= self._now_s:
            _, _, _, timer, process = heapq.heappop(timers)
            if not timer.cancelled():
                self._enqueue(timer, process)

    def _give_up(self, why: str) -> None:
        # The end has to run, too: whatever waits is cancelled by whoever catches this.
        self.steps = 0
        raise EndlessError(why)

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        del loop
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    # ── what asyncio wants of a loop, and this one has no use for ──

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _process_events(self, event_list: list[object]) -> None:
        raise AssertionError("there is no selector")

    def _write_to_self(self) -> None:
        """Nobody sleeps, so nobody is woken."""


def loop() -> SimulatedLoop:
    """Give the loop that runs."""
    running = asyncio.get_running_loop()
    assert isinstance(running, SimulatedLoop)
    return running


def run(world: SimulatedLoop, main: Coroutine[None, None, T]) -> T:
    """Run a world to its end.

    The garbage collector is off meanwhile: it closes forgotten generators at moments that depend
    on everything that ever ran in the interpreter.
    """
    collecting = gc.isenabled()
    gc.disable()
    asyncio.set_event_loop(world)
    try:
        return world.run_until_complete(main)
    finally:
        _cancel_all(world)
        world.run_until_complete(world.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        world.close()
        if collecting:
            gc.enable()


def _cancel_all(world: SimulatedLoop) -> None:
    tasks = sorted(asyncio.all_tasks(world), key=hash)
    for task in tasks:
        task.cancel()
    if tasks:
        world.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
