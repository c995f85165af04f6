"""The errors of a client that has ended, by a close or by a fault."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.client.api.test_writer import outcome
from tests.client.lab import Lab, played
from tests.client.recovery_world import payloads, written
from tests.support import virtual_time
from zonekeeper.client.api import client as clients
from zonekeeper.client.base import errors
from zonekeeper.client.base.asks import Asks
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.bookies.link_pool import LOOK_UP_EVERY_MS, LinkPool
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.link.stream_link import StreamLink


async def listed(client: clients.Client) -> list[LedgerId]:
    return [ledger_id async for ledger_id in client.ledgers()]


@played()
async def test_after_its_block_a_client_begins_nothing(lab: Lab) -> None:
    async with lab.client() as client, await client.create() as writer:
        ledger_id = writer.ledger_id
    asked: list[Callable[[], Awaitable[object]]] = [
        client.create,
        lambda: client.open(ledger_id),
        lambda: client.metadata(ledger_id),
        lambda: client.delete(ledger_id),
        lambda: listed(client),
    ]
    for ask in asked:
        with pytest.raises(errors.ClientClosed, match="connect again") as refused:
            await ask()
        assert not refused.value.maybe_applied
    async with lab.client() as other:
        assert await listed(other) == [ledger_id]


@played()
async def test_a_ledger_that_is_created_when_its_client_has_ended_gets_no_writer(lab: Lab) -> None:
    async with lab.client() as client:
        await (await client.create()).close()  # the first one waits for the client's presence, too
        creating = asyncio.ensure_future(client.create())
        await asyncio.sleep(0)
    with pytest.raises(errors.ClientClosed, match="ledger 1 was created") as ended:
        await creating
    assert ended.value.maybe_applied
    async with lab.client() as other:
        assert await listed(other) == [LedgerId(0), LedgerId(1)]


@played()
async def test_a_client_that_ends_before_its_presence_is_there_creates_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        creating = asyncio.ensure_future(client.create())
        await asyncio.sleep(0)
    with pytest.raises(errors.ClientClosed) as ended:
        await creating
    assert not ended.value.maybe_applied
    async with lab.client() as other:
        assert await listed(other) == []


@played()
async def test_readers_of_a_client_that_was_closed_inside_its_block_are_told_so(lab: Lab) -> None:
    async with lab.client() as first, lab.client("other") as second:
        writer = await written(first, 3)
        reader = await second.open(writer.ledger_id, recover=True)
        live = await written(first, 1, told=True)
        tailed = await second.open(live.ledger_id, recover=False)
        tail = tailed.follow()
        assert (await anext(tail)).entry_id == 0
        following = asyncio.ensure_future(outcome(anext(tail)))
        await asyncio.sleep(1)
        await second.close()
        asked = [following, outcome(payloads(reader)), outcome(tailed.read_last_confirmed())]
        for ask in asked:
            assert isinstance(await ask, errors.ClientClosed)
        assert await payloads(await first.open(live.ledger_id, recover=True)) == [b"entry 0"]


@played()
async def test_who_asks_how_far_a_ledger_is_confirmed_as_its_client_is_closed_is_told_so(
    lab: Lab,
) -> None:
    async with lab.client() as first, lab.client("other") as second:
        writer = await written(first, 1, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        for who in writer.ensemble:
            lab.network.cut("other", who)
            lab.network.cut(who, "other")
        asking = asyncio.ensure_future(outcome(reader.read_last_confirmed()))
        await asyncio.sleep(1)
        assert not asking.done()
        await second.close()
        assert isinstance(await asking, errors.ClientClosed)


@pytest.mark.parametrize("step", ["read the tail", "write it back"])
@played()
async def test_a_recovery_whose_client_is_closed_says_so(lab: Lab, step: str) -> None:
    async with lab.client() as first, lab.client("other") as second:
        writer = await written(first, 3)
        writer.halt()
        for who in writer.ensemble:
            if step == "read the tail":
                lab.door(who).hold_reads = asyncio.Event()
            else:
                lab.door(who).holding = True
        recovering = asyncio.ensure_future(outcome(second.open(writer.ledger_id, recover=True)))
        await asyncio.sleep(1)
        assert not recovering.done()
        await second.close()
        ended = await recovering
        assert isinstance(ended, errors.ClientClosed)
        assert ended.maybe_applied


class _MovingLinks:
    """A ``link_pool.LinkFactory`` whose bookies are elsewhere from some moment on."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.address = "here"

    async def find(self, bookie_id: BookieId) -> str | None:
        del bookie_id
        return self.address

    def make(self, bookie_id: BookieId, address: str) -> StreamLink:
        return self._lab.network.link(address, bookie_id)


@played()
async def test_a_link_that_was_given_up_is_closed_with_the_others_though_who_did_that_was_cancelled(
    lab: Lab,
) -> None:
    who = BookieId("bk-a-0")
    links = _MovingLinks(lab)
    pool = LinkPool(links, ClientCounters())
    old = await pool.current(who)
    nothing = service.ReadRequest(
        ledger_id=LedgerId(1),
        first_entry_id=EntryId(0),
        last_entry_id=EntryId(0),
        bytes_max=1,
    )
    with pytest.raises(wire_errors.NoSuchLedger):
        await old.read(nothing)
    await asyncio.sleep(LOOK_UP_EVERY_MS / 1_000)
    links.address = "there"
    moving = asyncio.ensure_future(pool.moved(who, old))
    await asyncio.sleep(0)
    assert await pool.current(who) is not old, "it is being closed"
    moving.cancel()
    await asyncio.wait([moving])
    assert moving.cancelled()
    await pool.close()
    with pytest.raises(wire_errors.NotConnected, match="the link was closed"):
        await old.info()


class _FaultyLinks:
    """A ``link_pool.LinkFactory`` that may have a bug."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.faulty = False

    async def find(self, bookie_id: BookieId) -> str | None:
        if self.faulty:
            raise KeyError("a bug")
        return bookie_id

    def make(self, bookie_id: BookieId, address: str) -> StreamLink:
        return self._lab.network.link("faulty", bookie_id, LinkSettings())


@contextlib.asynccontextmanager
async def failing(lab: Lab) -> AsyncIterator[tuple[clients.Client, Callable[[], Awaitable[None]]]]:
    """Give a client, and how to have its background work fail of a bug, which comes out here.

    What else is raised in the block does not: look at what came of it behind the block.
    """
    links, came_out = _FaultyLinks(lab), False
    try:
        async with clients.on(await lab.cluster(), lambda _: links) as client:

            async def fail() -> None:
                links.faulty = True
                writers = [await client.create() for _ in range(20)]
                for writer in writers:  # one of them needs a link that is not there yet
                    writer.append_nowait(b"")
                await asyncio.Event().wait()

            yield client, fail
    except* KeyError:
        came_out = True
    assert came_out


def heard_of_the_fault(error: errors.ClientError | None) -> bool:
    assert isinstance(error, errors.ClientClosed)
    assert "ended by a fault, KeyError: 'a bug'" in str(error)
    return error.maybe_applied


@played()
async def test_who_waits_for_a_writer_hears_of_the_fault_that_ended_its_client(lab: Lab) -> None:
    async with asyncio.TaskGroup() as tasks:
        async with failing(lab) as (client, fail):
            writer = await client.create()
            await writer.append_and_wait(b"one")
            for who in writer.ensemble:
                lab.door(who).holding = True
            waiting = tasks.create_task(outcome(writer.append_and_wait(b"two")))
            await asyncio.sleep(0.1)
            await fail()
        assert heard_of_the_fault(await waiting)
    assert not heard_of_the_fault(await outcome(writer.append(b"three")))


@played()
async def test_a_writer_that_needs_a_lane_of_a_client_that_has_failed_says_so_and_does_not_hang(
    lab: Lab,
) -> None:
    async with failing(lab) as (client, fail):
        writer = await client.create()
        with contextlib.suppress(asyncio.CancelledError):
            await fail()
        assert not heard_of_the_fault(await outcome(client.create()))
        heard = [await outcome(writer.append_and_wait(b"late"))]
        heard.append(await outcome(writer.append(b"later")))
    assert [heard_of_the_fault(error) for error in heard] == [True, False]


@virtual_time.played
async def test_who_waits_for_an_answer_hears_of_a_fault_in_the_only_question_that_is_left() -> None:
    async def faulty() -> int:
        raise KeyError("a bug")

    async with asyncio.TaskGroup() as others:

        async def ask(tasks: Tasks) -> None:
            async with Asks[int](tasks) as asks:
                asks.ask(faulty())
                await asks.next()

        with contextlib.suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                waiting = others.create_task(outcome(ask(Tasks(group))))
                await asyncio.Event().wait()
        heard_of_the_fault(await waiting)
