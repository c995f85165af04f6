"""The next ledger of a log is open at its bookies before the change of ledgers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.client.lab import Lab, played
from tests.client.late_openings import late_openings
from tests.client.sessions.test_newcomers import of_client
from tests.log.logging_lab import (
    NAME,
    check_whole,
    create,
    message,
    record_of,
    until_begins,
    writing,
)
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind, calm
from zonekeeper.placement.base.ids import LedgerId

FOUR = {"a": 1, "b": 1, "c": 2}
#: Every ledger is on all of them.
THREE = {"a": 1, "b": 1, "c": 1}
RULES = LogRules(rotate_messages=5)


async def slowest_s(writer: LogWriter, first: int, count: int) -> float:
    """Append messages one by one, and give how long the slowest one took, in virtual time."""
    now_s, slowest = asyncio.get_running_loop().time, 0.0
    for number in range(first, first + count):
        begun_s = now_s()
        await writer.append_and_wait(message(number), stored=True)
        slowest = max(slowest, now_s() - begun_s)
        await asyncio.sleep(0.02)
    return slowest


async def until_added(lab: Lab) -> None:
    """Wait until the record has a second ledger without an end."""
    async with logs.watch(await lab.cluster(), NAME) as records:
        async for record in records:
            if record is not None and len(record.unended) == 2:
                return


@played(bookies_in=FOUR)
async def test_no_message_waits_until_the_next_ledger_is_open(lab: Lab) -> None:
    await create(lab, RULES)
    async with lab.client() as client, writing(client) as writer:
        with late_openings(lab, 0.5):
            assert await slowest_s(writer, 0, 80) < 0.25
        assert len((await record_of(lab)).ledgers) > 3
    await check_whole(lab, 80)


def openings_at(lab: Lab) -> list[LedgerId]:
    """Give the ledgers that bookies were asked to open, once for each time."""
    return [one.ledger_id for who in lab.machines for one in lab.door(who).openings]


async def until_opened(lab: Lab, beside: LedgerId) -> LedgerId:
    """Wait until three bookies have opened another ledger, and give it."""
    while True:
        openings = openings_at(lab)
        for ledger in sorted(set(openings) - {beside}):
            if openings.count(ledger) == 3:
                return ledger
        await asyncio.sleep(0.01)


def appended_to(lab: Lab, ledger: LedgerId) -> bool:
    """Was an entry of a ledger ever sent to a bookie?"""
    sent = (one.frame.ledger_id for who in lab.machines for one in lab.door(who).appended)
    return ledger in sent


@played(bookies_in=FOUR)
async def test_it_is_opened_while_the_record_gets_it_and_has_no_entry(lab: Lab) -> None:
    await create(lab, RULES)
    async with lab.client() as client, writing(client) as writer:
        for number in range(4):
            await writer.append_and_wait(message(number))
        (present,) = (await record_of(lab)).unended
        of_client(client).weather = slow_writes
        await writer.append_and_wait(message(4), stored=True)
        ahead = await until_opened(lab, beside=present.id)
        assert (await record_of(lab)).unended == (present,)
        assert appended_to(lab, present.id)
        assert not appended_to(lab, ahead)
        of_client(client).weather = calm
        await until_begins(await lab.cluster(), 5)
        assert [one.id for one in (await record_of(lab)).unended] == [ahead]
    await check_whole(lab, 5)


def slow_writes(kind: RequestKind) -> Passage:
    return Passage(there_ms=2_000 if kind is RequestKind.WRITE else 0)


@pytest.mark.parametrize("loss", [ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])
@played(bookies_in=FOUR)
async def test_an_opened_ledger_that_may_be_in_the_record_is_not_written(
    lab: Lab, loss: ExchangeLoss
) -> None:
    """If the record has it, it is dropped and deleted. If not, it is an orphan without an entry."""
    await create(lab, RULES)
    async with lab.client() as client:
        async with writing(client) as writer:
            for number in range(4):
                await writer.append_and_wait(message(number))
            (present,) = (await record_of(lab)).unended
            of_client(client).weather = lambda _: Passage(there_ms=2_000)
            await writer.append_and_wait(message(4), stored=True)
            ahead = await until_opened(lab, beside=present.id)
            of_client(client).weather = lambda _: Passage(loss=loss)
            await asyncio.sleep(60)
            of_client(client).weather = calm
            await until_begins(await lab.cluster(), 5)
            await writer.append_and_wait(message(5))
            assert repr(client).endswith(" 1 writers>"), "that ledger's writer gave up its lanes"
        in_record = [one.id for one in (await record_of(lab)).ledgers]
        assert ahead not in in_record
        orphans = [one async for one in client.ledgers() if one not in in_record]
    assert orphans == ([ahead] if loss is ExchangeLoss.REQUEST else [])
    assert not appended_to(lab, ahead)
    await check_whole(lab, 6)


@played(bookies_in=THREE)
async def test_a_bookie_that_does_not_open_the_next_ledger_holds_up_no_message(lab: Lab) -> None:
    """A rotation waits for it for a second, and then goes on with the others."""
    await create(lab, RULES)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0), stored=True)
        with late_openings(lab, 5.0, only=sorted(lab.machines)[2:]):
            assert await slowest_s(writer, 1, 70) < 0.25
        assert (await record_of(lab)).ledgers[0].end is not None
    await check_whole(lab, 71)


async def closes(writer: LogWriter) -> None:
    await writer.close()


async def is_cancelled(_: LogWriter) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("ends", [closes, is_cancelled])
@played(bookies_in=FOUR)
async def test_a_writer_may_end_while_the_next_ledger_is_prepared(
    lab: Lab, ends: Callable[[LogWriter], Awaitable[None]]
) -> None:
    await create(lab, RULES)
    async with lab.client() as client:
        with late_openings(lab, 0.5):
            try:
                async with writing(client) as writer:
                    for number in range(5):
                        await writer.append_and_wait(message(number), stored=True)
                    await until_added(lab)
                    ahead = (await record_of(lab)).unended[1].id
                    assert ahead not in openings_at(lab), "the record did not wait for its bookies"
                    await ends(writer)
            except asyncio.CancelledError:
                pass
        async with writing(client, "second") as writer:
            await writer.append_and_wait(message(5))
    await check_whole(lab, 6)
    assert len((await record_of(lab)).ledgers) <= 3
