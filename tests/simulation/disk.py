"""A disk that takes its time, and may lose power in the middle of something."""

import asyncio
import copy
import errno
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TypeVar

from zonekeeper.bookie.memory_files import MemoryFileSystem, no_troubles

T = TypeVar("T")


class SimulatedDisk:
    """A ``disks.Disk``: one piece of work after another, each done when its time is up."""

    def __init__(self, chance: Random, delay_ms: Callable[[], float]) -> None:
        self._chance = chance
        self._delay_ms = delay_ms
        self._waiting: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work when the pieces before it are done."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def piece() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 goes to whoever gave the work
                if not done.cancelled():
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(result)

        self._waiting.append(piece)
        self._idle.clear()
        if self._timer is None:
            self._schedule()
        return await done

    async def close(self) -> None:
        """Return when all work that was given is done."""
        await self._idle.wait()

    def crash(self, files: MemoryFileSystem) -> MemoryFileSystem:
        """Stop for ever, and give what the kernel then knows of the files.

        The piece in hand was not begun, had written but not synced, or was done and not answered.
        """
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        point = self._chance.choice(("not begun", "before the sync", "done"))
        if not waiting or point == "not begun":
            return files
        if point == "done":
            waiting[0]()
            return files
        at_the_sync: list[MemoryFileSystem] = []

        def stop_there(kind: str, name: str) -> None:
            if kind in ("sync", "sync_names"):
                files.troubles = no_troubles
                at_the_sync.append(copy.deepcopy(files))
                raise OSError(errno.EIO, "the power is gone", name)

        files.troubles = stop_there
        waiting[0]()
        return at_the_sync[0] if at_the_sync else files

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._delay_ms() / 1_000, self._step)

    def _step(self) -> None:
        self._timer = None
        self._waiting.popleft()()
        if self._waiting:
            self._schedule()
        else:
            self._idle.set()
