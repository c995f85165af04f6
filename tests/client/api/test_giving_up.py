"""A member that owes answers is known, and can be given up."""

import asyncio

from tests.client.lab import Lab, played

FOUR = {"a": 1, "b": 1, "c": 2}


@played(bookies_in=FOUR)
async def test_a_member_that_owes_answers_is_behind_until_it_gives_them(lab: Lab) -> None:
    async with lab.client() as client, client.create() as writer:
        assert writer.behind == {}
        await writer.append_and_wait(b"0")
        await asyncio.sleep(1)
        assert writer.behind == {}
        slow = writer.ensemble[1]
        lab.door(slow).holding = True
        for number in range(1, 4):
            await writer.append_and_wait(b"%d" % number)
        assert writer.behind == {slow: 1}
        lab.door(slow).holding = False
        lab.door(slow).release()
        await asyncio.sleep(1)
        assert writer.behind == {}


@played(bookies_in=FOUR)
async def test_another_bookie_takes_the_place_of_a_member_that_is_given_up(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(b"0")
        before = writer.ensemble
        outside = next(one for one in sorted(lab.machines) if one not in before)
        writer.give_up(outside, "it is no member")
        writer.give_up(before[2], "it lags")
        writer.give_up(before[2], "it lags, again")
        assert before[2] not in writer.behind
        await writer.append_and_wait(b"1")
        await asyncio.sleep(1)
        await writer.append_and_wait(b"2")
        assert before[2] not in writer.ensemble
        assert before[:2] == writer.ensemble[:2]
        await writer.close()
        reader = await client.open(writer.ledger_id)
        found = [bytes(one.payload) async for one in reader.read_entries(0, 2)]
        assert found == [b"0", b"1", b"2"]
