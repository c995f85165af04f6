"""The lab on a simulated loop, where a client can be a process of its own, and nothing spins for
ever."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from tests.client.lab import THREE_BY_THREE, Lab, policy
from tests.simulation.loop import SimulatedLoop
from tests.support import playing

#: Enough for what is played here, and soon over.
STEPS_MAX: Final = 200_000


def play_simulated(scenario: Callable[[Lab, SimulatedLoop], Awaitable[None]]) -> None:
    """Play a scenario on a new cluster; raises EndlessError where it does not come to an end."""
    loop = SimulatedLoop(random.Random(1), STEPS_MAX)

    async def staged() -> None:
        async with asyncio.timeout(3_600), asyncio.TaskGroup() as tasks:
            lab = Lab(tasks, seed=1)
            async with AsyncExitStack() as stack:
                stack.push_async_callback(lab.close)
                await lab.build(policy(), THREE_BY_THREE)
                await scenario(lab, loop)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(staged())
    assert loop.failures == []


played_simulated = playing.by(play_simulated, parts=2)
