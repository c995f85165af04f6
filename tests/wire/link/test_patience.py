"""Deadlines of a process that stands still at times."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from tests.simulation.loop import Process, SimulatedLoop
from zonekeeper.wire.link import patience


@pytest.mark.parametrize(
    ("pauses", "ended_s"),
    [
        ([], 10),
        ([(9.8, 10.2)], 10.2),
        ([(5, 15)], 25),
        ([(5, 15), (24, 40)], 40),
        ([(2, 4)], 10),
    ],
    ids=["never", "hardly late", "late", "late again", "in time"],
)
def test_a_deadline_that_strikes_much_too_late_waits_its_whole_time_once_more(
    pauses: Sequence[tuple[float, float]], ended_s: float
) -> None:
    loop = SimulatedLoop(random.Random(1), steps_max=1_000)

    async def waits() -> float:
        with pytest.raises(TimeoutError):
            async with patience.timeout(10_000):
                await asyncio.Event().wait()
        return loop.time()

    async def played() -> float:
        process = Process("waits")
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(waits(), context=process.context)
            for from_s, to_s in pauses:
                await asyncio.sleep(from_s - loop.time())
                loop.pause(process)
                await asyncio.sleep(to_s - loop.time())
                loop.go_on(process)
        return waiting.result()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(played()) == pytest.approx(ended_s)


async def test_what_ends_in_time_is_not_disturbed() -> None:
    async with patience.timeout(1):
        pass
    with pytest.raises(ValueError, match="its own"):
        async with patience.timeout(60_000):
            raise ValueError("its own")
