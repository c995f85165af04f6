"""An attempt gives each message once, whoever calls it at once, and whatever interrupts a call."""

import asyncio

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import (
    create,
    message,
)
from tests.log.publishing.query_lab import (
    batch,
    large,
    payloads,
    querying,
    written,
)
from zonekeeper.log.base.errors import LogEnded
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.publishing.attempt_writing import AttemptWriter
from zonekeeper.log.publishing.partitions import (
    IdlePartition,
)


@played()
async def test_what_two_append_to_an_attempt_at_once_comes_in_once(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        async with asyncio.TaskGroup() as tasks:
            for number in range(3):
                many = [large(100 * number + at) for at in range(40)]
                tasks.create_task(attempt.append_many(many))
        assert (await logs.publish([await attempt.finish()])).messages == 120
        found = [int(one.removesuffix(b"/")) for one in await payloads(logs.client)]
        assert sorted(found) == [100 * number + at for number in range(3) for at in range(40)]
        for number in range(3):
            mine = [one for one in found if one // 100 == number]
            assert mine == sorted(mine), "each caller's messages stay in order"


@played()
async def test_an_attempt_that_is_finished_under_a_call_says_so_to_the_call(lab: Lab) -> None:
    await create(lab)

    async def appended(attempt: AttemptWriter, many: list[LogMessage]) -> None:
        with pytest.raises(LogEnded):
            await attempt.append_many(many)

    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        await attempt.append_many([large(0)] * 8)
        async with asyncio.TaskGroup() as tasks:
            for machine in lab.machines.values():
                machine.doorway.holding = True
            tasks.create_task(appended(attempt, [large(1)] * 100))
            await asyncio.sleep(5)
            finishing = tasks.create_task(attempt.finish())
            await asyncio.sleep(5)
            for machine in lab.machines.values():
                machine.doorway.release()
        done = await logs.publish([finishing.result()])
        assert len(await payloads(logs.client)) == done.messages < 108

        attempt = logs.attempt(batch(1), 0)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(appended(attempt, [message(1)]))
            await asyncio.sleep(0)
            assert isinstance(await attempt.finish(), IdlePartition)


@played()
async def test_an_attempt_that_was_interrupted_while_it_wrote_is_over(lab: Lab) -> None:
    """Which of its batches are in the ledger is not known: none may be sent twice, or left out."""
    await create(lab)
    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        await attempt.append_many([large(0)] * 8)
        for machine in lab.machines.values():
            machine.doorway.holding = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await attempt.append_many([large(1)] * 100)
        for machine in lab.machines.values():
            machine.doorway.release()
        for again in (attempt.append(large(2)), attempt.append_many([large(2)]), attempt.finish()):
            with pytest.raises(LogEnded):
                await again
        await attempt.discard()
        await logs.publish([await written(logs, batch(0), 0, [large(3)])])
        assert await payloads(logs.client) == [b"3/"]


@played()
async def test_an_attempt_that_was_interrupted_before_it_wrote_goes_on(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(attempt.append(message(0)))
            await asyncio.sleep(0)
            taking.cancel()
        assert taking.cancelled()
        await attempt.append(message(1))
        await logs.publish([await attempt.finish()])
        assert await payloads(logs.client) == [b"message 1"]
