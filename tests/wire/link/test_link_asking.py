"""A reply that does not fit its question proves nothing."""

import asyncio

import pytest

from tests.support import virtual_time
from tests.wire.link.worlds import Writer
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.link.asking import Asking

FIVE_TO_NINE = service.ReadRequest(
    ledger_id=LedgerId(7), first_entry_id=EntryId(5), last_entry_id=EntryId(9), bytes_max=1_000
)


def reply(following: int, *frames: Frame, number: int = 0) -> carriers.ReadAnswer:
    return carriers.ReadAnswer(
        number=number, next_entry=EntryId(following), last_add_confirmed=None, frames=frames
    )


def answered(item: carriers.Item) -> service.ReadReply:
    """Ask, and let the bookie answer with this."""

    async def main() -> service.ReadReply:
        asking = Asking(on_pending=lambda: None)
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(asking.ask(FIVE_TO_NINE))
            await asyncio.sleep(0)
            assert asking.next_carrier() is not None
            assert asking.next_carrier() is None
            asking.received([item])
        return asked.result()

    return virtual_time.run(main())


def test_a_reply_that_fits_is_passed_on() -> None:
    frame = Writer(7, first=5).frame(b"five", b"six")
    assert answered(reply(7, frame)).frames == (frame,)
    assert answered(reply(10)).frames == ()


@pytest.mark.parametrize(
    "item",
    [
        reply(5),
        reply(7, Writer(8, first=5).frame(b"another ledger's")),
        reply(7, Writer(7, first=4).frame(b"before", b"five")),
        reply(11, Writer(7, first=9).frame(b"nine", b"behind")),
    ],
    ids=["no progress", "another ledger", "too early", "too late"],
)
def test_a_reply_that_does_not_fit_is_no_answer(item: carriers.Item) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        answered(item)
    assert caught.group_contains(errors.BadRequest)
    assert not caught.group_contains(errors.Negative)


def test_a_reply_that_nobody_waits_for_is_dropped() -> None:
    asking = Asking(on_pending=lambda: None)
    asking.received([reply(7, number=99)])


@virtual_time.played
async def test_a_read_that_was_given_up_before_it_could_leave_is_not_sent() -> None:
    asking = Asking(on_pending=lambda: None)
    async with asyncio.TaskGroup() as tasks:
        given_up = tasks.create_task(asking.ask(FIVE_TO_NINE))
        kept = tasks.create_task(asking.ask(FIVE_TO_NINE))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        carrier = asking.next_carrier()
        assert carrier is not None
        (item,) = carriers.parse(carrier)
        assert isinstance(item, carriers.Read)
        assert item.number == 1
        asking.received([reply(10, number=1)])
    assert kept.result().frames == ()
    async with asyncio.TaskGroup() as tasks:
        gone = tasks.create_task(asking.ask(FIVE_TO_NINE))
        await asyncio.sleep(0)
        gone.cancel()
    assert asking.next_carrier() is None


def test_an_item_that_has_no_business_here_is_a_broken_bookie() -> None:
    asking = Asking(on_pending=lambda: None)
    with pytest.raises(errors.BadRequest):
        asking.received([carriers.Acked(number=0, last=0)])


@pytest.mark.parametrize("given_up", [True, False])
@virtual_time.played
async def test_a_stream_that_is_left_ends_with_its_last_read(given_up: bool) -> None:
    asking, ended = Asking(on_pending=lambda: None), list[bool]()
    asking.on_left = lambda: ended.append(True)
    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(asking.ask(FIVE_TO_NINE))
        await asyncio.sleep(0)
        asking.next_carrier()
        asking.leave()
        assert asking.alive
        assert ended == []
        if given_up:
            asked.cancel()
        else:
            asking.received([reply(10)])
    assert ended == [True]
    with pytest.raises(errors.NotConnected):
        await asking.ask(FIVE_TO_NINE)


def test_a_stream_on_which_nothing_is_asked_ends_when_it_is_left() -> None:
    asking, ended = Asking(on_pending=lambda: None), list[bool]()
    asking.on_left = lambda: ended.append(True)
    asking.leave()
    asking.lost(errors.ConnectionLost("gone"))
    assert ended == [True]
