"""What goes on while a bookie and the writer are away: E = W = 3, A = 2, four bookies.

Each row of the table of availability is a test. A writer that is away is one that died with its
ledger open. All in virtual time: what waits, waits until the bookie is back.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress

import pytest

from tests.client.lab import Lab, Machine, played, policy
from tests.client.sessions.test_newcomers import of_client
from tests.log.api.test_downgrade_lag import (
    MINIMUM,
    answer_again,
    for_a_while,
    present_members,
    stop,
)
from tests.log.logging_lab import (
    SHORT,
    check_whole,
    create,
    message,
    numbers,
    read_all,
    record_of,
    writing,
)
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.formats.log_record import LogRules, LogTaken
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.quorums import Quorums

FOUR = {"a": 1, "b": 1, "c": 2}
BOTH = Quorums(ensemble=2, write=2, ack=2)


class Dies(Exception):
    """What ends a writer here, as a kill would."""


async def abandon(lab: Lab, first: int, count: int) -> Sequence[BookieId]:
    """Write messages as a writer that dies when they are stored; give the last ensemble."""

    async def write(client: Client) -> None:
        async with writing(client, "dies") as writer:
            for number in range(first, first + count):
                await writer.append_and_wait(message(number), stored=True)
            raise Dies

    async with lab.client("dies") as client:
        with suppress(Dies):
            await write(client)
        ledger = (await record_of(lab)).ledgers[-1]
        return (await client.metadata(ledger.id)).last_fragment.ensemble


def outside(lab: Lab, ensemble: Sequence[BookieId]) -> BookieId:
    """Give a bookie that is not in an ensemble."""
    return next(one for one in sorted(lab.machines) if one not in ensemble)


async def restarted(machine: Machine, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await machine.start()


async def go_on(lab: Lab, first: int) -> None:
    """Open the log as the next writer, append, rotate twice, and read all of it."""
    async with lab.client("next") as client, writing(client, "next") as writer:
        for number in range(first, first + 25):
            await writer.append_and_wait(message(number))
    await check_whole(lab, first + 25)


@played(bookies_in=FOUR)
async def test_a_log_is_created_with_a_bookie_down(lab: Lab) -> None:
    await lab.machines[BookieId("bk-c-0")].crash()
    await create(lab, SHORT)
    await go_on(lab, 0)


@played(bookies_in=FOUR)
@pytest.mark.parametrize("down", ["bk-a-0", "bk-c-0"])
async def test_a_new_log_is_opened_with_a_bookie_and_its_writer_down(lab: Lab, down: str) -> None:
    """No writer ever appended: there is a ledger with its opening, or none."""
    await create(lab, SHORT)
    await abandon(lab, 0, 1)
    await lab.machines[BookieId(down)].crash()
    await go_on(lab, 1)


@played(bookies_in=FOUR)
@pytest.mark.parametrize("position", range(3))
async def test_an_old_log_is_opened_with_a_member_and_its_writer_down(
    lab: Lab, position: int
) -> None:
    await create(lab, SHORT)
    members = await abandon(lab, 0, 35)
    await lab.machines[members[position]].crash()
    await go_on(lab, 35)


@played(bookies_in=FOUR)
async def test_an_old_log_waits_with_two_members_silent_and_opens_when_one_is_back(
    lab: Lab,
) -> None:
    await create(lab, SHORT)
    members = await abandon(lab, 0, 35)
    silent = [lab.machines[member] for member in members[1:]]
    for machine in silent:
        await machine.crash()
    opened: list[float] = []
    loop = asyncio.get_running_loop()

    async def open_again(client: Client) -> None:
        while True:
            try:
                async with writing(client, f"next {loop.time()}") as writer:
                    opened.append(loop.time())
                    await writer.append_and_wait(message(35))
                    return
            except Exception as error:
                if not getattr(error, "retryable", False):
                    raise
                await asyncio.sleep(1)

    began = loop.time()
    async with lab.client("next") as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(open_again(client))
        tasks.create_task(restarted(silent[0], 120))
    assert opened[0] >= began + 120, "nothing was denied that could be acknowledged"
    await check_whole(lab, 36)


@played(bookies_in=FOUR)
@pytest.mark.parametrize("position", range(3))
async def test_appends_go_on_with_a_member_down(lab: Lab, position: int) -> None:
    await create(lab)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        ledger = (await record_of(lab)).ledgers[-1]
        members = (await client.metadata(ledger.id)).last_fragment.ensemble
        await lab.machines[members[position]].crash()
        for number in range(1, 31):
            await writer.append_and_wait(message(number))
            await asyncio.sleep(1)
    await check_whole(lab, 31)


@played(bookies_in=FOUR)
@pytest.mark.parametrize("position", range(3))
async def test_all_is_read_with_a_member_and_the_writer_down(lab: Lab, position: int) -> None:
    """Ended ledgers to their ends, the open one as far as bookies know that it is confirmed."""
    await create(lab, SHORT)
    members = await abandon(lab, 0, 35)
    await asyncio.sleep(60)
    await lab.machines[members[position]].crash()
    async with lab.client("reader") as client:
        found = [one.sequence for one in await read_all(client)]
        assert found == list(range(len(found)))
        assert len(found) >= 30


@played(bookies_in=FOUR)
@pytest.mark.parametrize("down", ["bk-a-0", "bk-b-0", "bk-c-0"])
async def test_a_log_is_rotated_with_a_bookie_down(lab: Lab, down: str) -> None:
    await create(lab, SHORT)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        await lab.machines[BookieId(down)].crash()
        for number in range(1, 40):
            await writer.append_and_wait(message(number))
    await check_whole(lab, 40)
    assert len((await record_of(lab)).ledgers) >= 4


@played(bookies_in=FOUR)
async def test_a_quiet_writer_whose_bookie_died_goes_on(lab: Lab) -> None:
    """The replicator recovers its open ledger; the record still names the writer."""
    await create(lab)
    async with (
        lab.client() as client,
        lab.client("replicator") as replicator,
        writing(client) as writer,
    ):
        await writer.append_and_wait(message(0))
        ledger = (await record_of(lab)).ledgers[-1]
        members = (await client.metadata(ledger.id)).last_fragment.ensemble
        await lab.machines[members[0]].crash()
        await asyncio.sleep(600)
        await replicator.open(ledger.id, recover=True)
        await writer.append_and_wait(message(1))
        assert (await record_of(lab)).epoch == 1
    await check_whole(lab, 2)


def cut_off(client: Client) -> None:
    of_client(client).weather = lambda _: Passage(loss=ExchangeLoss.REQUEST)


@played(bookies_in=FOUR)
async def test_a_writer_that_is_cut_off_from_the_store_alone_writes_until_it_is_taken_over(
    lab: Lab,
) -> None:
    """Its appends go on. The next writer fences it, and it acknowledges nothing more."""
    await create(lab)
    async with lab.client("cut off") as client:
        with pytest.raises(LogTaken):
            await _cut_off(lab, client)
    await check_whole(lab, 30)


async def _cut_off(lab: Lab, client: Client) -> None:
    async with writing(client, "first") as first:
        await first.append_and_wait(message(0))
        cut_off(client)
        for number in range(1, 10):
            await first.append_and_wait(message(number))
            await asyncio.sleep(1)
        async with lab.client("second") as other, writing(other, "second") as second:
            await second.append_many(numbers(10, 20))
            await second.flushed(29)
            lost = asyncio.ensure_future(first.append_and_wait(message(1_000)))
            await asyncio.sleep(60)
            assert not lost.done(), "it acknowledges nothing, and does not know why yet"
            of_client(client).weather = lambda _: Passage()
            await lost


@played(bookies_in=FOUR)
async def test_a_writer_that_is_cut_off_from_bookies_alone_goes_on_when_it_reaches_them(
    lab: Lab,
) -> None:
    await create(lab)
    async with lab.client("cut off") as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        for bookie in lab.machines:
            lab.network.cut("cut off", bookie)
        await writer.append_many(numbers(1, 9))
        await asyncio.sleep(300)
        for bookie in lab.machines:
            lab.network.heal("cut off", bookie)
        await writer.flushed(9)
    await check_whole(lab, 10)
    assert (await record_of(lab)).epoch == 1


@played(bookies_in=FOUR)
@pytest.mark.parametrize("before", range(8, 13))
async def test_a_takeover_in_the_middle_of_a_rotation_loses_nothing(lab: Lab, before: int) -> None:
    """A rotation comes every ten messages; the old writer is alive, and is taken over at each."""
    await create(lab, SHORT)
    enough = asyncio.Event()

    async def first() -> None:
        async with lab.client("first") as client, writing(client, "first") as writer:
            for number in range(1_000):
                await writer.append_and_wait(message(number), stored=True)
                if number + 1 == before:
                    enough.set()

    async with asyncio.TaskGroup() as tasks:
        taken = tasks.create_task(_until_taken(first()))
        await enough.wait()
        async with lab.client("second") as client, writing(client, "second") as writer:
            await taken
            assert writer.next_sequence >= before
            start = writer.next_sequence
            await writer.append_many(numbers(start, 15))
    await check_whole(lab, start + 15)


async def _until_taken(work: Coroutine[None, None, None]) -> None:
    with pytest.raises(LogTaken):
        await work


@played(bookies_in=FOUR, rules=policy(strict=False))
async def test_a_log_is_shrunk_to_its_minimum_with_two_bookies_and_its_writer_down(
    lab: Lab,
) -> None:
    """With one bookie down three are left, and nothing is shrunk; with two there are too few."""
    await create(lab, LogRules(rotate_messages=5, minimum=MINIMUM, downgrade_after_ms=20_000))
    await abandon(lab, 0, 3)
    await lab.machines[BookieId("bk-c-0")].crash()
    await asyncio.sleep(20)
    async with lab.client("next") as client, writing(client, "next") as writer:
        following = await for_a_while(writer, 3, 30)
        assert not writer.is_downgraded
        await lab.machines[BookieId("bk-c-1")].crash()
        following = await for_a_while(writer, following, 60)
        assert writer.is_downgraded
        await lab.machines[BookieId("bk-c-0")].start()
        following = await for_a_while(writer, following, 60)
        assert not writer.is_downgraded
    await check_whole(lab, following)


async def with_one_of_two_stopped(lab: Lab, rules: LogRules, travel_ms: int) -> tuple[float, int]:
    """Stop one of two bookies, both of which must acknowledge; how long an append then takes."""
    await create(lab, rules)
    loop = asyncio.get_running_loop()
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        await writer.append_many(numbers(1, 4))
        await writer.flushed(4)
        slow = (await present_members(lab, client))[1]
        stop(lab, slow)
        of_client(client).weather = lambda _: Passage(there_ms=travel_ms, back_ms=travel_ms)
        began_s = loop.time()
        await writer.append_many(numbers(5, 5))
        waiting = lab.tasks.create_task(writer.stored(9))
        await asyncio.wait([waiting], timeout=600)
        took_s = loop.time() - began_s
        answer_again(lab, slow)
        await waiting
        following = await for_a_while(writer, 10, 5)
    await check_whole(lab, following)
    return took_s, len((await record_of(lab)).ledgers)


@played(bookies_in={"a": 1, "b": 1}, rules=policy(BOTH, strict=False))
@pytest.mark.parametrize("travel_ms", [0, 50])
async def test_with_one_of_two_bookies_stopped_a_log_with_a_minimum_goes_on(
    lab: Lab, travel_ms: int
) -> None:
    """After the lag and the time of the downgrade, and not after an add's timeout of a minute.

    The store may be slow: the ledger that lost its quorum is closed all the same.
    """
    took_s, ledgers = await with_one_of_two_stopped(
        lab,
        LogRules(quorums=BOTH, minimum=MINIMUM, downgrade_lag_ms=2_000, downgrade_after_ms=5_000),
        travel_ms,
    )
    assert 7 <= took_s < 30
    assert ledgers == 2
