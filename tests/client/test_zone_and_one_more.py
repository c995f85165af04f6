"""A zone is lost under load, and one more bookie with the quorums that allow it: the whole story.

Every acknowledged entry is read, by the clients that write and by others. A ledger whose writer
died is recovered meanwhile. Writing goes on, in the open ledgers and in new ones.
"""

import asyncio
from dataclasses import dataclass

import pytest

from tests.client.api.test_writer import data, fill, holds
from tests.client.lab import Lab, played, policy
from tests.support.playing import from_pytest
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.placement.base.quorums import Quorums


@dataclass(frozen=True)
class Shape:
    quorums: Quorums
    bookies_a_zone: int
    #: Lost with the zone, in another one.
    one_more: bool


SHAPES = [
    Shape(Quorums(ensemble=3, write=3, ack=2, ack_zones=2), 3, one_more=False),
    Shape(Quorums(ensemble=6, write=6, ack=4, ack_zones=2), 4, one_more=True),
]


async def write_until(writer: Writer, ended: asyncio.Event) -> None:
    while not ended.is_set():
        await writer.append(data(writer.last_appended + 1))
        if writer.last_appended % 7 == 0:
            await asyncio.sleep(0.001)


async def reads_all(client: Client, writer: Writer, count: int) -> None:
    """A client that does not disturb the writer reads the entries that were acknowledged."""
    reader = await client.open(writer.ledger_id, recover=False)
    found = [entry.payload async for entry in reader.read_entries(0, count - 1)]
    assert found == [data(number) for number in range(count)]


@pytest.mark.parametrize("zone", ["a", "b"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.quorums))
@played(
    rules=from_pytest(lambda shape: policy(shape.quorums)),
    bookies_in=from_pytest(lambda shape: dict.fromkeys("abc", shape.bookies_a_zone)),
)
async def test_a_zone_and_what_the_quorums_allow_besides_is_lost_under_load(
    lab: Lab, shape: Shape, zone: str
) -> None:
    ended = asyncio.Event()
    async with lab.client() as client, lab.client("other") as other:
        writer, abandoned = await client.create(), await client.create()
        await fill(abandoned, 60)
        await abandoned.flush()
        left = abandoned.last_confirmed
        abandoned.halt()
        async with asyncio.TaskGroup() as load:
            load.create_task(write_until(writer, ended))
            await asyncio.sleep(0.2)
            before = writer.last_confirmed
            assert before > 100
            await lab.crash_zone(zone)
            if shape.one_more:
                victim = next(who for who in writer.ensemble if f"-{zone}-" not in who)
                await lab.machines[victim].crash()
            await writer.flushed(writer.last_appended)
            await writer.tell_confirmed()

            await reads_all(other, writer, before + 1)
            taken = await other.open(abandoned.ledger_id, recover=True)
            assert taken.metadata.last_entry >= left
            async with await other.create() as fresh:
                await fill(fresh, 50)
            await asyncio.sleep(0.2)
            ended.set()
        await writer.close()
        assert writer.last_confirmed > before + 100
        assert not any(lab.machines[who].door is None for who in writer.ensemble)
        await holds(other, writer.ledger_id, writer.last_confirmed + 1)
        await holds(other, abandoned.ledger_id, left + 1)
        await holds(other, fresh.ledger_id, 50)
