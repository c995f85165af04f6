"""An attempt gives each message once: calls may come at once, and a call may be interrupted."""

import asyncio
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.batching import columns
from tests.log.logging_lab import create, message
from tests.log.publishing.query_lab import (
    batch,
    large,
    payloads,
    querying,
    written,
)
from zonekeeper.log.base.errors import LogEnded
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.log.publishing.attempt_writing import AttemptWriter
from zonekeeper.log.publishing.partitions import AttemptEnd, IdlePartition


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


@played()
async def test_columns_and_messages_come_in_their_order_also_in_a_ledger(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        for number, count in enumerate((1, 4)):  # a small partition, and one of a ledger
            attempt = logs.attempt(batch(number), 0)
            await attempt.append(message(100))
            await attempt.append_columns(columns([message(101), message(102)]))
            await attempt.append_columns(columns([large(one) for one in range(count)]))
            await attempt.append(message(103))
            part = await attempt.finish()
            assert isinstance(part, AttemptEnd)
            assert part.messages == 4 + count
            await logs.publish([part])
        small = logs.attempt(batch(2), 0)
        await small.append_columns(columns([message(7), message(8)]))
        await logs.publish([await small.finish()])
        again = logs.attempt(batch(2, run="r2"), 0)
        await again.append_columns(columns([message(9)]))
        assert await again.finish() == IdlePartition(
            of=batch(2, run="r2"), partition=0, is_known=True
        )

        plain = [bytes(message(one).payload) for one in (100, 101, 102, 103, 7, 8)]
        assert await payloads(logs.client) == [
            *plain[:3],
            b"0/",
            plain[3],
            *plain[:3],
            *(b"%d/" % one for one in range(4)),
            *plain[3:],
        ]


@played()
async def test_a_header_that_no_reader_takes_is_refused_before_it_is_kept(lab: Lab) -> None:
    await create(lab)
    bad = columns([LogMessage(payload=b"", headers=(("ok", b""),))])
    assert bad.headers is not None
    names = replace(bad.headers.names, data=memoryview(b"\xff\xff"))
    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        with pytest.raises(BadMessageError, match="not UTF-8"):
            await attempt.append_columns(replace(bad, headers=replace(bad.headers, names=names)))
        assert isinstance(await attempt.finish(), IdlePartition)
