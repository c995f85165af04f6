"""A log with a minimum of quorums goes on with less, and is full again at the next rotation."""

import asyncio

from tests.client.lab import Lab, played, policy
from tests.log.logging_lab import check_whole, create, message, record_of, writing
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base.quorums import Quorums

FULL = Quorums(ensemble=3, write=3, ack=2)
MINIMUM = Quorums(ensemble=2, write=2, ack=1)
RULES = LogRules(rotate_messages=3, quorums=FULL, minimum=MINIMUM, downgrade_after_ms=30_000)


async def sizes_of(lab: Lab) -> list[int]:
    """Give the ensemble sizes of the log's ledgers."""
    async with lab.client("auditor") as client:
        ledgers = (await record_of(lab)).ledgers
        return [(await client.metadata(one.id)).ensemble_size for one in ledgers]


@played(bookies_in={"a": 1, "b": 1, "c": 1}, rules=policy(strict=False))
async def test_a_log_is_downgraded_after_its_time_and_full_again_at_a_rotation(lab: Lab) -> None:
    await create(lab, RULES)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0), stored=True)
        victim = next(one for one in lab.machines.values() if one.location.zone == "c")
        await victim.crash()
        await asyncio.sleep(20)
        await writer.append_many(map(message, range(1, 4)))
        await writer.stored(3)
        assert not writer.is_downgraded
        assert await sizes_of(lab) == [3], "the old ledger goes on with an ack quorum"
        await asyncio.sleep(60)
        assert writer.is_downgraded
        assert await sizes_of(lab) == [3, 2]
        await writer.append_and_wait(message(4), stored=True)
        await victim.start()
        await asyncio.sleep(5)
        await writer.append_many(map(message, range(5, 9)))
        await writer.stored(8)
        await asyncio.sleep(5)
        assert not writer.is_downgraded
        assert (await sizes_of(lab))[-1] == 3
    await check_whole(lab, 9)


async def waits_for_full_quorums(lab: Lab, rules: LogRules) -> None:
    """Hold that a log waits for the bookie of a zone, and that its writer does not end."""
    await create(lab, rules)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0), stored=True)
        victim = next(one for one in lab.machines.values() if one.location.zone == "c")
        await victim.crash()
        await asyncio.sleep(20)
        await writer.append_many(map(message, range(1, 6)))
        await asyncio.sleep(600)
        assert await sizes_of(lab) == [3]
        assert not writer.is_downgraded
        await victim.start()
        await writer.stored(5)
    await check_whole(lab, 6)


@played(bookies_in={"a": 1, "b": 1, "c": 1}, rules=policy(strict=False))
async def test_without_a_minimum_the_log_is_never_downgraded(lab: Lab) -> None:
    await waits_for_full_quorums(lab, LogRules(rotate_messages=3, quorums=FULL))


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_a_minimum_that_placement_refuses_is_passed_over(lab: Lab) -> None:
    await waits_for_full_quorums(lab, RULES)
