"""The event loop of a simulated world: virtual time, processes, and the seed's choice whose turn.

Time stands still while there is work, and jumps to the next timer when there is none. Every
callback belongs to a *process*, which it inherits from the code that scheduled it. The callbacks of
one process run in the order in which they were scheduled, as on a loop of its own; between
processes, and between timers of one moment, the seed chooses. That is all the freedom that real
processes on real networks have, and no more: what could not happen there does not happen here.

Each process has a clock of its own: it began at another moment, and runs a little fast or slow.
``time`` is the clock of the process that asks. What is between processes has the world's time, as
``world_time`` gives it.

A process can be paused, as by SIGSTOP: its callbacks and timers wait, and the world goes on.
The caller of ``run`` keeps the garbage collector from ending forgotten tasks at moments of its own.
"""

import asyncio
import gc
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from heapq import heappush
from random import Random
from typing import Final, TypeVar, TypeVarTuple

from tests.simulation.patching import Patch, patched
from tests.support.virtual_time import EndlessError, Timer, Turn, VirtualTimeLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: A world that takes more steps than this is going round in circles.
STEPS_MAX: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """What a process takes for the time: where it began, and how fast it runs."""

    began_s: float = 0.0
    rate: float = 1.0


_TRUE: Final = Clock()


class Process:
    """Callbacks that share one order; ``context`` is what its first task is to run in."""

    def __init__(self, name: str, clock: Clock = _TRUE) -> None:
        self.name = name
        self.clock = clock
        self.ready: deque[Turn] = deque()
        self.paused = False
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}>"


_PROCESS: ContextVar[Process] = ContextVar("process")


class SimulatedLoop(VirtualTimeLoop):
    """Runs one world; ``failures`` has the errors that no task in it handled."""

    def __init__(self, chance: Random, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self._steps_max = steps_max
        self._chance = chance
        #: What is not of any process: the network, the metadata service, the disks.
        self._world = Process("world")
        #: Processes that have something to do, paused ones excluded.
        self._runnable: list[Process] = []
        self.steps = 0
        self.failures: list[str] = []
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        clock = _PROCESS.get(self._world).clock
        return clock.began_s + clock.rate * self._now_s

    def world_time(self) -> float:
        """Give the time that no process sees."""
        return self._now_s

    def world_time_of(self, time_s: float) -> float:
        """Give the world's time at a moment of the clock of the process that asks."""
        clock = _PROCESS.get(self._world).clock
        return (time_s - clock.began_s) / clock.rate

    def call_at_world(self, when: float, callback: Callable[[], object]) -> None:
        """Call something of no process at a time of the world."""
        self._set_timer(when, Timer(when, callback, (), self, self._world.context))

    def as_world(self, call: Callable[[*Ts], T], *args: *Ts) -> T:
        """Call something that is of no process, whatever process has its turn."""
        return self._world.context.copy().run(call, *args)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Handle:
        if context is None:
            context = copy_context()
        handle = Turn(callback, args, self, context)
        process = context.get(_PROCESS, self._world)
        if not process.ready and not process.paused:
            self._runnable.append(process)
        process.ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        if context is None:
            context = copy_context()
        timer = Timer(when, callback, args, self, context)
        # The moment was reckoned by the clock of the process that asks.
        self._set_timer(self.world_time_of(when), timer)
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

    def _set_timer(self, at_s: float, timer: Timer) -> None:
        heappush(self._timers, (at_s, self._chance.random(), next(self._timer_numbers), timer))

    def _come_due(self, timer: Timer) -> None:
        process = timer.context.get(_PROCESS, self._world)
        if not process.ready and not process.paused:
            self._runnable.append(process)
        process.ready.append(timer)

    def _run_once(self) -> None:
        """Run callbacks until the loop is to stop; called by ``run_forever``."""
        runnable, chance = self._runnable, self._chance.random
        while not self._stopping:
            while not runnable:
                self._pass_time()
            self.steps += 1
            if self.steps > self._steps_max:
                # The end has to run, too: the code that catches this cancels all tasks.
                self.steps = 0
                raise EndlessError(f"{self._steps_max} steps and no end")
            many = len(runnable)
            at = 0 if many == 1 else int(chance() * many)
            process = runnable[at]
            handle = process.ready.popleft()
            if not process.ready:
                runnable[at] = runnable[-1]
                runnable.pop()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 as asyncio does: the loop goes on
                    self.call_exception_handler(
                        {"message": "a callback failed", "exception": error}
                    )

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        del loop
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


class Between:
    """The time between processes, as the network in memory wants it."""

    def __init__(self, world: SimulatedLoop) -> None:
        self.time = world.world_time
        self.call_at = world.call_at_world


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
        with patched(_known(world)):
            return world.run_until_complete(main)
    finally:
        _cancel_all(world)
        world.run_until_complete(world.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        world.close()
        if collecting:
            gc.enable()


def _known(world: SimulatedLoop) -> list[Patch]:
    """Let all code know the loop that runs.

    asyncio compares the id of this operating system process at each question, which is a call into
    the kernel: it is asked ten thousand times a seed.
    """

    def running() -> SimulatedLoop:
        return world

    return [(asyncio, "get_running_loop", running), (asyncio.events, "get_running_loop", running)]


def _cancel_all(world: SimulatedLoop) -> None:
    tasks = sorted(asyncio.all_tasks(world), key=hash)
    for task in tasks:
        task.cancel()
    if tasks:
        world.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
