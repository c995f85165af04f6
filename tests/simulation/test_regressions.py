"""What seeds have found, as directed tests."""

import asyncio
from contextlib import suppress
from random import Random

from tests.client.lab import THREE_BY_THREE, Lab, policy
from tests.simulation import loop
from tests.simulation.loop import SimulatedLoop


def test_a_tail_whose_bookies_are_gone_tries_again_with_pauses() -> None:
    async def follow(lab: Lab) -> None:
        async with lab.client() as client:
            writer = await client.create()
            writer.append_nowait(b"entry")
            await writer.close()
            reader = await client.open(writer.ledger_id)
            for zone in THREE_BY_THREE:
                await lab.crash_zone(zone)
            with suppress(TimeoutError):
                async with asyncio.timeout(10):
                    async for entry in reader.follow():
                        raise AssertionError(f"nobody is there who could give {entry}")

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            lab = Lab(tasks, 1)
            await lab.build(policy(), THREE_BY_THREE)
            await follow(lab)
            await lab.close()

    loop.run(SimulatedLoop(Random(1), steps_max=30_000), main())
