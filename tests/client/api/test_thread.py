"""One resource to one readable log: written, closed, read; left open, recovered, read."""

import asyncio
from functools import partial

import pytest

from tests.client.lab import Lab, played
from zonekeeper.client.base import errors
from zonekeeper.placement.base.quorums import Quorums

SHAPES = [
    Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
    Quorums(ensemble=6, write=3, ack=2, ack_zones=2),
]


def data(number: int) -> bytes:
    return b"entry %d" % number


@pytest.mark.parametrize("quorums", SHAPES, ids=str)
@played()
async def test_what_was_written_is_read_back(lab: Lab, quorums: Quorums) -> None:
    async with lab.client() as client:
        async with await client.create(quorums=quorums) as writer:
            for number in range(2_000):
                await writer.append(data(number))
        reader = await client.open(writer.ledger_id, recover=False)
        found = [entry async for entry in reader.read_entries()]
        assert [entry.entry_id for entry in found] == list(range(2_000))
        assert all(entry.payload == data(entry.entry_id) for entry in found)


@pytest.mark.parametrize("quorums", SHAPES, ids=str)
@played()
async def test_an_abandoned_ledger_is_recovered_with_all_that_was_acknowledged(
    lab: Lab, quorums: Quorums
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create(quorums=quorums)
        for number in range(500):
            await writer.append(data(number))
        await writer.flush()
        reader = await second.open(writer.ledger_id, recover=True)
        assert reader.last_confirmed == 499
        assert reader.metadata.length == sum(len(data(n)) for n in range(500))
        found = [entry.payload async for entry in reader.read_entries()]
        assert found == [data(number) for number in range(500)]
        with pytest.raises(errors.Fenced):
            await writer.append_and_wait(b"too late")


@pytest.mark.parametrize("quorums", SHAPES, ids=str)
@played()
async def test_a_tail_sees_each_entry_soon_and_ends_with_the_ledger(
    lab: Lab, quorums: Quorums
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create(quorums=quorums)
        reader = await second.open(writer.ledger_id, recover=False)
        seen: list[bytes] = []
        delays: list[float] = []
        loop = asyncio.get_running_loop()
        news = asyncio.Condition()

        def seen_more_than(number: int) -> bool:
            return len(seen) > number

        async def follow() -> None:
            async for entry in reader.follow():
                async with news:
                    seen.append(entry.payload)
                    news.notify_all()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow())
            await asyncio.sleep(1)
            for number in range(50):
                await writer.append_and_wait(data(number))
                acked_s = loop.time()
                async with news:
                    await news.wait_for(partial(seen_more_than, number))
                delays.append(loop.time() - acked_s)
            await writer.close()
        assert seen == [data(number) for number in range(50)]
        assert sorted(delays)[25] < 0.2, "of the loop's own time, which is simulated"
