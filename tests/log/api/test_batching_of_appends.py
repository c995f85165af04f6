"""How many batches are on their way, and what a list of messages becomes."""

import asyncio
from typing import Any, Final

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import check_whole, create, message, numbers, writing
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.log.sessions import log_writing
from zonekeeper.log.writing.unsent import BATCH_BYTES_AIM

LARGE = LogMessage(payload=bytes(BATCH_BYTES_AIM - 100))


async def sent(lab: Lab, many: list[LogMessage]) -> int:
    """Append one after another while bookies hold their answers; the batches on their way."""
    async with lab.client() as client, writing(client) as writer:
        doors = [machine.doorway for machine in lab.machines.values()]
        for door in doors:
            door.holding = True
        for one in many:
            await writer.append(one)
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        entries = writer._state.ledger.writer.last_appended
        for door in doors:
            door.holding = False
            door.release()
        await writer.stored(len(many) - 1)
    return entries


@played()
async def test_messages_wait_for_the_next_batch_while_some_are_on_their_way(lab: Lab) -> None:
    await create(lab)
    assert await sent(lab, list(numbers(0, 20))) == log_writing.IN_FLIGHT_MAX
    await check_whole(lab, 20)


@played()
async def test_more_batches_are_on_their_way_if_they_are_full(lab: Lab) -> None:
    await create(lab)
    assert await sent(lab, [LARGE] * 20) == log_writing.FULL_IN_FLIGHT_MAX


@played()
async def test_a_list_is_appended_as_its_messages_are(lab: Lab) -> None:
    """With keys and without, with headers, over portions and batches."""
    await create(lab)
    async with lab.client() as client, writing(client) as writer:
        assert await writer.append_many([]) == 0
        assert await writer.append_many(list(numbers(0, 700))) == 700
        assert await writer.append_many(tuple(numbers(700, 300))) == 1_000
        await writer.append(message(1_000))
    await check_whole(lab, 1_001)


@played()
async def test_a_list_with_a_message_that_breaks_a_limit_is_appended_up_to_it(lab: Lab) -> None:
    await create(lab)
    bad = LogMessage(payload=b"", headers=(("\ud800", b""),))
    async with lab.client() as client, writing(client) as writer:
        with pytest.raises(BadMessageError):
            await writer.append_many([*numbers(0, 300), bad, *numbers(300, 5)])
        assert writer.next_sequence == 300
    await check_whole(lab, 300)


#: What a program does that is not checked: a type checker would refuse what follows.
UNCHECKED: Final[Any] = LogMessage
#: A str where bytes belong is the mistake that is made; it fits everywhere but into a batch.
WRONG: Final = {
    "payload": UNCHECKED(payload="text"),
    "no payload": UNCHECKED(payload=None),
    "key": UNCHECKED(payload=b"", key="42"),
    "value of a header": UNCHECKED(payload=b"", headers=(("a", "b"),)),
    "name of a header": UNCHECKED(payload=b"", headers=((b"a", b"b"),)),
    "headers": UNCHECKED(payload=b"", headers={"a": b"b"}),
}


@pytest.mark.parametrize("wrong", WRONG)
@played()
async def test_a_message_of_wrong_kinds_is_refused_alone_and_the_writer_goes_on(
    lab: Lab, wrong: str
) -> None:
    await create(lab)
    async with lab.client() as client, writing(client) as writer:
        await writer.append(message(0))
        with pytest.raises(BadMessageError, match="give"):
            await writer.append(WRONG[wrong])
        with pytest.raises(BadMessageError, match="give"):
            await writer.append_many([message(1), WRONG[wrong], message(2)])
        with pytest.raises(BadMessageError, match="give"):
            await writer.append_many(iter([message(2), WRONG[wrong]]))
        await writer.append_and_wait(message(3))
    await check_whole(lab, 4)
