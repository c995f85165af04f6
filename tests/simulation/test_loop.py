import asyncio
import random

import pytest

from tests.simulation import loop
from tests.simulation.loop import Clock, Process, SimulatedLoop
from tests.support.virtual_time import EndlessError


def play(seed: int) -> list[tuple[str, int]]:
    """Let three processes take turns, and give the order."""

    async def work(name: str, seen: list[tuple[str, int]]) -> None:
        for turn in range(3):
            await asyncio.sleep(0)
            seen.append((name, turn))

    async def main() -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        async with asyncio.TaskGroup() as tasks:
            for name in "abc":
                tasks.create_task(work(name, seen), context=Process(name).context)
        return seen

    return loop.run(SimulatedLoop(random.Random(seed)), main())


def test_one_seed_is_one_order() -> None:
    assert play(1) == play(1)


def test_seeds_choose_whose_turn_it_is() -> None:
    assert len({tuple(play(seed)) for seed in range(20)}) > 10


def test_callbacks_of_one_process_keep_their_order() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        for number in range(50):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(0)
        return seen

    assert loop.run(SimulatedLoop(random.Random(1)), main()) == list(range(50))


def test_time_passes_only_when_nobody_has_anything_to_do() -> None:
    async def main() -> list[float]:
        running = asyncio.get_running_loop()
        times = []
        for delay_s in (3_600, 0, 0.5):
            await asyncio.sleep(delay_s)
            times.append(running.time())
        return times

    assert loop.run(SimulatedLoop(random.Random(1)), main()) == [3_600, 3_600, 3_600.5]


def test_a_paused_process_stands_still_while_others_go_on() -> None:
    async def tick(seen: list[float]) -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.loop().time())

    async def main() -> tuple[list[float], list[float]]:
        still: list[float] = []
        moving: list[float] = []
        process = Process("still")
        async with asyncio.TaskGroup() as tasks:
            ticking = [
                tasks.create_task(tick(still), context=process.context),
                tasks.create_task(tick(moving)),
            ]
            await asyncio.sleep(1.5)
            loop.loop().pause(process)
            await asyncio.sleep(4)
            loop.loop().go_on(process)
            await asyncio.sleep(1.25)
            for task in ticking:
                task.cancel()
        return still, moving

    still, moving = loop.run(SimulatedLoop(random.Random(1)), main())
    assert (still, moving) == ([1, 5.5, 6.5], [1, 2, 3, 4, 5, 6])


def test_a_world_in_which_everybody_waits_is_said_to_be_endless() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(EndlessError, match="no timer"):
        loop.run(SimulatedLoop(random.Random(1)), main())


def test_what_nobody_handles_is_kept() -> None:
    def fail() -> None:
        raise ValueError("nobody expects this")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(1)

    world = SimulatedLoop(random.Random(1))
    loop.run(world, main())
    assert ["nobody expects this" in failure for failure in world.failures] == [True]


def test_each_process_has_its_own_clock_and_waits_by_it() -> None:
    async def wait() -> tuple[float, float, float]:
        running = loop.loop()
        began_s = running.time()
        await asyncio.sleep(10)
        return began_s, running.time(), running.world_time()

    async def main() -> tuple[float, float, float]:
        fast = Process("fast", Clock(began_s=500, rate=2))
        return await asyncio.get_running_loop().create_task(wait(), context=fast.context)

    assert loop.run(SimulatedLoop(random.Random(1)), main()) == (500, 510, 5)


def test_what_is_of_no_process_has_the_worlds_time() -> None:
    async def ask() -> tuple[float, float]:
        return loop.loop().as_world(loop.loop().time), loop.loop().world_time_of(600)

    async def main() -> tuple[float, float]:
        fast = Process("fast", Clock(began_s=500, rate=2))
        return await asyncio.get_running_loop().create_task(ask(), context=fast.context)

    assert loop.run(SimulatedLoop(random.Random(1)), main()) == (0, 50)
