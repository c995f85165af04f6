"""A member that is alive and lags too far counts as missing (``downgrade_lag_ms``, ``_bytes``)."""

import asyncio

from tests.client.lab import Lab, played, policy
from tests.client.sessions.test_newcomers import of_client
from tests.log.api.test_downgrade import sizes_of
from tests.log.logging_lab import check_whole, create, message, record_of, writing
from zonekeeper.client.api.client import Client
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.log_figures import LogWriterFigures
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors as wire_errors

FOUR = {"a": 1, "b": 1, "c": 2}
FULL = Quorums(ensemble=3, write=3, ack=2)
MINIMUM = Quorums(ensemble=2, write=2, ack=1)
BOTH = Quorums(ensemble=2, write=2, ack=2)
LAG = LogRules(quorums=FULL, downgrade_lag_ms=2_000)
QUARANTINE_S = 31 * 60


async def present_members(lab: Lab, client: Client) -> tuple[BookieId, ...]:
    """Give the present members of the log's last ledger."""
    ledger = (await record_of(lab)).ledgers[-1].id
    return (await client.metadata(ledger)).last_fragment.ensemble


def stop(lab: Lab, bookie: BookieId) -> None:
    """Have a bookie take everything, and answer nothing: it is alive, and behind."""
    lab.door(bookie).holding = True


def answer_again(lab: Lab, bookie: BookieId) -> None:
    lab.door(bookie).holding = False
    lab.door(bookie).release()


async def for_a_while(writer: LogWriter, first: int, seconds: int) -> int:
    """Append a message a second, each stored before the next; give the next number."""
    for number in range(first, first + seconds):
        await writer.append_and_wait(message(number), stored=True)
        await asyncio.sleep(1)
    return first + seconds


@played(bookies_in=FOUR)
async def test_another_bookie_takes_the_place_of_a_laggard(lab: Lab) -> None:
    await create(lab, LAG)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        slow = (await present_members(lab, client))[0]
        stop(lab, slow)
        following = await for_a_while(writer, 1, 1)
        assert slow in await present_members(lab, client), "it does not lag so far yet"
        following = await for_a_while(writer, following, 10)
        assert slow not in await present_members(lab, client)
        assert len((await record_of(lab)).ledgers) == 1, "the running ledger goes on with others"
        assert not writer.is_downgraded
        answer_again(lab, slow)
    await check_whole(lab, following)


@played(bookies_in=FOUR)
async def test_a_member_that_answers_late_and_within_the_rule_stays(lab: Lab) -> None:
    await create(lab, LAG)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        before = await present_members(lab, client)
        for number in range(1, 10):
            stop(lab, before[0])
            await writer.append_and_wait(message(number), stored=True)
            await asyncio.sleep(1.5)
            answer_again(lab, before[0])
            await asyncio.sleep(3)
        assert await present_members(lab, client) == before
    await check_whole(lab, 10)


@played(bookies_in=FOUR)
async def test_a_member_that_is_behind_by_too_many_bytes_is_given_up(lab: Lab) -> None:
    await create(lab, LogRules(quorums=FULL, downgrade_lag_bytes=20_000))
    large = LogMessage(payload=bytes(3_000))
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(large)
        slow = (await present_members(lab, client))[1]
        stop(lab, slow)
        for _ in range(5):
            await writer.append_and_wait(large, stored=True)
            await asyncio.sleep(0.5)
        assert slow in await present_members(lab, client), "it is not so many bytes yet"
        for _ in range(5):
            await writer.append_and_wait(large, stored=True)
            await asyncio.sleep(0.5)
        assert slow not in await present_members(lab, client)
        answer_again(lab, slow)


@played(bookies_in={"a": 1, "b": 1, "c": 1}, rules=policy(strict=False))
async def test_where_no_other_bookie_is_left_the_log_is_downgraded_and_later_full_again(
    lab: Lab,
) -> None:
    await create(
        lab,
        LogRules(
            quorums=FULL,
            minimum=MINIMUM,
            downgrade_lag_ms=2_000,
            downgrade_after_ms=20_000,
            rotate_after_ms=10 * 60_000,
        ),
    )
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        slow = (await present_members(lab, client))[2]
        stop(lab, slow)
        following = await for_a_while(writer, 1, 15)
        assert not writer.is_downgraded, "full ones are missing for too short a time"
        following = await for_a_while(writer, following, 30)
        assert writer.is_downgraded
        assert await sizes_of(lab) == [3, 2]
        assert slow not in await present_members(lab, client)
        answer_again(lab, slow)
        await asyncio.sleep(QUARANTINE_S)
        following = await for_a_while(writer, following, 5)
        assert not writer.is_downgraded
        assert (await sizes_of(lab))[-1] == 3
    await check_whole(lab, following)


@played(bookies_in={"a": 1, "b": 1, "c": 1}, rules=policy(strict=False))
async def test_without_a_minimum_the_log_goes_on_without_its_laggard(lab: Lab) -> None:
    """The ack quorum is there, and no ledger is made again and again.

    The client tries the bookie again and again, and it counts once.
    """
    await create(lab, LAG)
    figures = LogWriterFigures()
    async with lab.client() as client, writing(client, figures=figures) as writer:
        await writer.append_and_wait(message(0))
        stop(lab, (await present_members(lab, client))[2])
        following = await for_a_while(writer, 1, 300)
        assert not writer.is_downgraded
        assert figures.laggards_total == 1
        assert await sizes_of(lab) == [3]
        answer_again(lab, (await present_members(lab, client))[2])
    await check_whole(lab, following)


@played(bookies_in=FOUR)
async def test_a_member_that_lost_the_ledger_is_no_laggard(lab: Lab) -> None:
    """The store is away, so nobody knows if the ledger was deleted; the member waits for that."""
    await create(lab, LAG)
    figures = LogWriterFigures()
    async with lab.client() as client, writing(client, figures=figures) as writer:
        await writer.append_and_wait(message(0))
        doubted = (await present_members(lab, client))[0]
        of_client(client).cut()
        lab.door(doubted).append_error = wire_errors.LedgerDeleted("it has no such ledger")
        following = await for_a_while(writer, 1, 30)
        assert figures.laggards_total == 0
        assert client.bookies.suspects == set()
        of_client(client).mend()
        following = await for_a_while(writer, following, 5)
        assert doubted not in await present_members(lab, client), "it has lost the ledger"
        lab.door(doubted).append_error = None
    await check_whole(lab, following)


@played(bookies_in={"a": 1, "b": 1}, rules=policy(BOTH, strict=False))
async def test_without_a_minimum_a_log_waits_no_longer_than_for_the_laggard(lab: Lab) -> None:
    """No other bookie can take its place, and the log does not wait for half an hour."""
    await create(lab, LogRules(quorums=BOTH, downgrade_lag_ms=2_000))
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        slow = (await present_members(lab, client))[0]
        stop(lab, slow)
        await writer.append(message(1))
        await asyncio.sleep(4)
        assert client.bookies.suspects == set(), "it is not given up"
        await asyncio.sleep(16)  # an add's own time is over meanwhile
        answer_again(lab, slow)
        async with asyncio.timeout(10):
            await writer.flushed(1)
    await check_whole(lab, 2)


@played(bookies_in={"a": 1, "b": 1, "c": 1}, rules=policy(strict=False))
async def test_without_a_minimum_the_next_ledger_has_the_laggard_if_there_is_no_other(
    lab: Lab,
) -> None:
    rules = LogRules(quorums=FULL, downgrade_lag_ms=2_000, rotate_messages=30)
    await create(lab, rules)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        slow = (await present_members(lab, client))[2]
        stop(lab, slow)
        following = await for_a_while(writer, 1, 10)
        assert client.bookies.suspects == {slow}, "the others are enough"
        following = await for_a_while(writer, following, 40)
        assert await sizes_of(lab) == [3, 3]
        answer_again(lab, slow)
    await check_whole(lab, following)


@played(bookies_in=FOUR)
async def test_a_rule_about_lags_does_not_hold_up_the_end_of_a_writer(lab: Lab) -> None:
    """Bookies answer, and the next look at them is far away."""
    await create(lab, LogRules(downgrade_lag_ms=3_600_000))
    loop = asyncio.get_running_loop()
    async with lab.client() as client:
        async with writing(client) as writer:
            await writer.append(message(0))
            began_s = loop.time()
        assert loop.time() - began_s < 0.5
    await check_whole(lab, 1)


@played(bookies_in={"a": 3, "b": 3}, rules=policy(BOTH, strict=False))
async def test_a_newcomer_has_the_time_of_the_rule_for_what_the_laggard_left_behind(
    lab: Lab,
) -> None:
    """Each answers within a second: none but the one that answers nothing is given up."""
    await create(lab, LogRules(quorums=BOTH, downgrade_lag_ms=2_000))
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        before = await present_members(lab, client)
        others = [one for one in lab.machines if one not in before]
        for one in (before[0], *others):
            stop(lab, one)
        await writer.append(message(1))
        for _ in range(10):
            await asyncio.sleep(1)
            for one in others:
                answer_again(lab, one)
                stop(lab, one)
        assert writer.first_unstored == 2
        assert before[0] not in await present_members(lab, client)
        assert client.bookies.suspects == {before[0]}
        for one in (before[0], *others):
            answer_again(lab, one)
    await check_whole(lab, 2)
