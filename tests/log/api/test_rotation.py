"""When a log's ledger is rotated: by bytes, by age, and never while it has no message."""

import asyncio

import pytest

from tests.client.lab import Lab, played
from tests.client.sessions.test_newcomers import of_client
from tests.log.logging_lab import (
    WallClock,
    append_each,
    check_whole,
    create,
    message,
    numbers,
    record_of,
    writing,
)
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.sessions import locating
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage
from zonekeeper.placement.base.ids import EntryId


async def messages_of(lab: Lab) -> list[int | None]:
    """Give the number of messages of each ledger; None: it has no end."""
    ends = [one.end for one in (await record_of(lab)).ledgers]
    return [None if end is None else end.messages for end in ends]


@played()
async def test_a_ledger_is_rotated_by_its_bytes(lab: Lab) -> None:
    await create(lab, LogRules(rotate_bytes=3_000))
    async with lab.client() as client, writing(client) as writer:
        many = [LogMessage(payload=bytes(1_000))] * 9
        await append_each(await lab.cluster(), writer, many, every=3)
    assert (await messages_of(lab))[:3] == [3, 3, 3]


@played()
async def test_a_ledger_is_rotated_by_its_age_though_nothing_comes(lab: Lab) -> None:
    await create(lab, LogRules(rotate_after_ms=60_000))
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        await asyncio.sleep(59)
        assert await messages_of(lab) == [None]
        await asyncio.sleep(2)
        assert await messages_of(lab) == [1, None]
        await writer.append_and_wait(message(1))
    await check_whole(lab, 2)


@played()
async def test_a_ledger_without_a_message_is_not_rotated(lab: Lab) -> None:
    await create(lab, LogRules(rotate_after_ms=1_000))
    async with lab.client() as client, writing(client) as writer:
        await asyncio.sleep(600)
        assert await messages_of(lab) == [None]
        await writer.append_and_wait(message(0))
    await check_whole(lab, 1)


@played()
async def test_a_log_of_many_short_ledgers_is_read_over_its_pages(lab: Lab) -> None:
    await create(lab, LogRules(rotate_messages=1))
    async with lab.client() as client, writing(client) as writer:
        await append_each(await lab.cluster(), writer, numbers(0, 70), every=1)
    assert (await record_of(lab)).next_page > 0
    await check_whole(lab, 70)


@played()
async def test_appends_go_on_while_a_ledger_is_rotated(lab: Lab) -> None:
    """What comes while the next ledger is made is taken at once, and keeps its order."""
    await create(lab, LogRules(rotate_messages=5))
    async with lab.client() as client, writing(client) as writer:
        begun_s = asyncio.get_running_loop().time()
        for number in range(100):
            assert await writer.append(message(number)) == number
        assert asyncio.get_running_loop().time() == begun_s, "no append has waited"
        await writer.stored(99)
    await check_whole(lab, 100)


@played()
@pytest.mark.parametrize("loss", [ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])
async def test_a_rotation_waits_for_minutes_until_the_store_is_back(
    lab: Lab, loss: ExchangeLoss
) -> None:
    await create(lab, LogRules(rotate_messages=5))
    async with lab.client() as client, writing(client) as writer:
        store = of_client(client)
        store.weather = lambda _: Passage(loss=loss)
        for number in range(12):
            await writer.append(message(number))
        await asyncio.sleep(180)
        store.weather = lambda _: Passage()
        await writer.stored(11)
    await check_whole(lab, 12)


@played()
async def test_the_end_that_a_writer_notes_is_the_ledgers_own(lab: Lab) -> None:
    await create(lab, LogRules(rotate_messages=5))
    wall = WallClock()
    async with lab.client() as client:
        async with writing(client, wall=wall) as writer:
            for number in range(12):
                wall.ms += 10
                await writer.append_and_wait(message(number), stored=True)
        for ledger in (await record_of(lab)).ledgers:
            reader = await client.open(ledger.id)
            assert ledger.end is not None
            assert ledger.end.last_entry == reader.metadata.last_entry
            assert ledger.end.size_bytes == reader.metadata.length
            first = await locating.batch_of(reader, EntryId(1))
            last = await locating.batch_of(reader, ledger.end.last_entry)
            assert (ledger.end.first_ms, ledger.end.last_ms) == (first.wall_ms, last.wall_ms)
            assert ledger.end.messages == last.place + len(last)


@played()
async def test_the_old_ledger_takes_writes_until_the_record_has_the_next_one(lab: Lab) -> None:
    """The store is away at the time of a rotation: appends go on, and are stored."""
    await create(lab, LogRules(rotate_messages=5))
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        store = of_client(client)
        store.weather = lambda _: Passage(loss=ExchangeLoss.REQUEST)
        for number in range(1, 20):
            await writer.append_and_wait(message(number), stored=True)
        assert await messages_of(lab) == [None]
        store.weather = lambda _: Passage()
    assert (await messages_of(lab))[0] == 20
    await check_whole(lab, 20)
