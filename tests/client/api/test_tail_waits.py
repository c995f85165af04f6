"""The waits of a tail: they are polled, cancelled and ended at any moment, and no entry is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import pytest

from tests.client.lab import Lab, played
from tests.client.recovery_world import data, written
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.tail import Tail
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.formats.entries import Entry

SMALL = {"a": 1, "b": 1, "c": 1}
POLL_S = 0.2
MANY = 1 << 20

#: Gives some entries, or None at the end; raises TimeoutError if nothing has come.
Poll = Callable[[Tail], Awaitable[Sequence[Entry] | None]]


async def _iterated(tail: Tail) -> Sequence[Entry] | None:
    try:
        return [await asyncio.wait_for(anext(tail), POLL_S)]
    except StopAsyncIteration:
        return None


async def _next_under_a_limit(tail: Tail) -> Sequence[Entry] | None:
    async with asyncio.timeout(POLL_S):
        entry = await tail.next()
    return None if entry is None else [entry]


async def _next(tail: Tail) -> Sequence[Entry] | None:
    entry = await tail.next(timeout=POLL_S)
    return None if entry is None else [entry]


async def _many(tail: Tail) -> Sequence[Entry] | None:
    return await tail.read_many(3, POLL_S) or None


async def _many_under_a_limit(tail: Tail) -> Sequence[Entry] | None:
    return await asyncio.wait_for(tail.read_many(MANY), POLL_S) or None


async def _now_and_then(tail: Tail) -> Sequence[Entry] | None:
    await asyncio.sleep(POLL_S)
    return await tail.read_many(MANY, timeout=0) or None


async def polled(tail: Tail, poll: Poll, found: list[Entry]) -> None:
    while True:
        try:
            entries = await poll(tail)
        except TimeoutError:
            continue
        if entries is None:
            return
        found += entries


def ids(entries: Sequence[Entry]) -> list[EntryId]:
    return [entry.entry_id for entry in entries]


async def warm(client: clients.Client, writer: Writer) -> Reader:
    """A reader whose client has all connections that a tail may want."""
    reader = await client.open(writer.ledger_id, recover=False)
    for first in (0, 3):
        async with reader.follow(first) as tail:
            with suppress(errors.WaitTimedOut):
                await tail.read_many(1, timeout=1)
    await asyncio.sleep(1)
    return reader


def background() -> set["asyncio.Task[object]"]:
    return cast("set[asyncio.Task[object]]", asyncio.all_tasks())


@pytest.mark.parametrize(
    "poll",
    [_iterated, _next_under_a_limit, _next, _many, _many_under_a_limit, _now_and_then],
    ids=lambda poll: poll.__name__,
)
@played(bookies_in=SMALL)
async def test_s146_a_tail_that_is_polled_gives_every_entry_and_then_the_end(
    lab: Lab, poll: Poll
) -> None:
    async with lab.client("writer") as first, lab.client("reader") as second:
        for every_s in (0, 0.05, 0.2, 0.7):
            writer = await first.create()
            tail = (await second.open(writer.ledger_id, recover=False)).follow()
            found: list[Entry] = []
            polling = asyncio.ensure_future(polled(tail, poll, found))
            for number in range(20):
                await writer.append_and_wait(data(number))
                await asyncio.sleep(every_s)
            await asyncio.sleep(3 * POLL_S)
            assert not polling.done()
            await writer.close()
            await polling
            assert [entry.payload for entry in found] == [data(number) for number in range(20)]
            assert ids(found) == list(range(20))
            assert (await tail.next(), await tail.read_many(5, 0), tail.position) == (None, [], 20)


@played(bookies_in=SMALL)
async def test_s146_a_wait_that_is_cancelled_at_any_moment_loses_nothing(lab: Lab) -> None:
    async with lab.client("writer") as first, lab.client("reader") as second:
        writer = await first.create()
        tail = (await second.open(writer.ledger_id, recover=False)).follow()
        found: list[EntryId] = []
        for number in range(200):
            waiting = asyncio.ensure_future(tail.next())
            await asyncio.sleep(0)
            await writer.append(data(number))
            await asyncio.sleep(number * 0.000_1)
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                found.append(cast(Entry, await waiting).entry_id)
            assert tail.position == len(found)
        await writer.close()
        before = len(found)
        found += [entry.entry_id async for entry in tail]
        assert 0 < before < 200, "some waits are cancelled, and some are over before"
        assert found == list(range(200))


def cancelled_later(waiting: "asyncio.Future[None]", turns: int, _: object = None) -> None:
    """Cancel a call in so many turns of the loop."""
    if turns == 0:
        waiting.cancel()
    else:
        asyncio.get_running_loop().call_soon(cancelled_later, waiting, turns - 1)


@pytest.mark.parametrize("many", [False, True], ids=["next", "read_many"])
@played(bookies_in=SMALL)
async def test_s146_a_wait_that_is_cancelled_as_the_entries_come_loses_nothing(
    lab: Lab, many: bool
) -> None:
    """It is cancelled so many turns of the loop after its step was done."""
    async with lab.client() as client:
        writer = await client.create()
        tail, found = (await client.open(writer.ledger_id, recover=False)).follow(), list[Entry]()
        cancelled = 0
        for turns in range(6):

            async def take() -> None:
                if many:
                    found.extend(await tail.read_many(MANY))
                else:
                    found.append(cast(Entry, await tail.next()))

            waiting = asyncio.ensure_future(take())
            cancel = partial(cancelled_later, waiting, turns)
            await asyncio.sleep(0.1)
            step = tail.fetched._step
            assert step is not None
            step.add_done_callback(cancel)
            await writer.append_and_wait(data(turns))
            with suppress(asyncio.CancelledError):
                await waiting
            cancelled += waiting.cancelled()
            if waiting.cancelled():
                assert tail.position == turns
                await take()
        assert 0 < cancelled < 6
        assert [entry.payload for entry in found] == [data(number) for number in range(6)]


@played(bookies_in=SMALL)
async def test_a_wait_ends_at_its_timeout_and_says_that_nothing_is_lost(lab: Lab) -> None:
    loop = asyncio.get_running_loop()
    async with lab.client() as client:
        writer = await written(client, 3, told=True)
        reader = await client.open(writer.ledger_id, recover=False)
        tail = reader.follow(3)
        calls: list[Callable[[float], Awaitable[object]]] = [
            tail.next,
            lambda timeout: tail.read_many(9, timeout),
        ]
        for call in calls:
            begun_s = loop.time()
            with pytest.raises(errors.WaitTimedOut, match="ledger 0: entry 3 has not") as over:
                await call(1.5)
            assert loop.time() - begun_s == pytest.approx(1.5, abs=1e-6)
            assert isinstance(over.value, TimeoutError | errors.ClientError)
            assert (over.value.retryable, over.value.maybe_applied) == (True, False)
        await writer.append_and_wait(data(3))
        entry = await tail.next(timeout=5)
        assert entry is not None
        assert entry.payload == data(3)


@played(bookies_in=SMALL)
async def test_a_timeout_of_zero_gives_what_has_arrived(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await written(client, 3, told=True)
        tail = (await client.open(writer.ledger_id, recover=False)).follow()
        with pytest.raises(errors.WaitTimedOut):
            await tail.next(timeout=0)
        await asyncio.sleep(1)
        for number in range(3):
            entry = await tail.next(timeout=0)
            assert entry is not None
            assert entry.payload == data(number)


@played(bookies_in=SMALL)
async def test_read_many_gives_at_most_as_many_as_asked_for_and_waits_for_no_more_than_one(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        writer = await written(client, 10, told=True)
        tail = (await client.open(writer.ledger_id, recover=False)).follow()
        assert ids(await tail.read_many(1)) == [0]
        assert ids(await tail.read_many(4)) == [1, 2, 3, 4]
        assert ids(await tail.read_many(MANY)) == [5, 6, 7, 8, 9]
        assert tail.position == 10
        assert repr(tail) == "<Tail of ledger 0: following, next entry 10>"
        waiting = asyncio.ensure_future(tail.read_many(2))
        await writer.append_and_wait(data(10))
        assert ids(await waiting) == [10]
        await writer.close()
        assert [await tail.read_many(2) for _ in range(3)] == [[], [], []]


@played(bookies_in=SMALL)
async def test_another_tail_goes_on_at_the_position_of_one_that_was_left(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await written(client, 10, told=True)
        reader = await client.open(writer.ledger_id, recover=False)
        async with reader.follow(2) as tail:
            async for entry in tail:
                if entry.entry_id == 5:
                    break
            assert (tail.position, ids(await tail.read_many(1))) == (6, [6])
        await writer.close()
        assert [entry.entry_id async for entry in reader.follow(tail.position)] == [7, 8, 9]


@pytest.mark.parametrize("wrong", [True, "1", b"1", [1]], ids=repr)
@played(bookies_in=SMALL)
async def test_a_timeout_that_is_no_number_is_refused_before_anything_begins(
    lab: Lab, wrong: object
) -> None:
    async with lab.client() as client:
        writer = await written(client, 3, told=True)
        tail = (await client.open(writer.ledger_id, recover=False)).follow()
        for call in (tail.next, lambda timeout: tail.read_many(2, timeout)):
            for timeout, kind in (
                (wrong, TypeError),
                (-0.1, ValueError),
                (float("nan"), ValueError),
            ):
                with pytest.raises(kind, match="timeout is"):
                    await call(cast(float, timeout))
        assert tail.fetched._step is None
        for most, kind in ((0, ValueError), (-1, ValueError), (True, TypeError), (1.0, TypeError)):
            with pytest.raises(kind, match="max_entries is"):
                await tail.read_many(cast(int, most))
        for first in (-1, "0"):
            with pytest.raises((ValueError, TypeError)):
                (await client.open(writer.ledger_id, recover=False)).follow(cast(int, first))
        assert ids(await tail.read_many(MANY)) == [0, 1, 2]


@played(bookies_in=SMALL)
async def test_of_two_waits_on_one_tail_the_second_is_refused_and_takes_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await written(client, 1, told=True)
        tail = (await client.open(writer.ledger_id, recover=False)).follow(1)
        first = asyncio.ensure_future(tail.next())
        await asyncio.sleep(0.1)
        calls: list[Callable[[], Awaitable[object]]] = [
            tail.next,
            lambda: tail.read_many(2, 1),
            lambda: anext(tail),
        ]
        for call in calls:
            with pytest.raises(errors.TailBusy, match=r"waits for entry 1; .* each task") as busy:
                await call()
            assert (busy.value.retryable, busy.value.maybe_applied) == (True, False)
        await writer.append_many([data(1), data(2)])
        await writer.flush()
        entry = await first
        assert entry is not None
        assert (entry.entry_id, ids(await tail.read_many(MANY, 1))) == (1, [2])


@played(bookies_in=SMALL)
async def test_a_tail_that_is_closed_ends_its_wait_and_leaves_nothing_behind(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await written(client, 3, told=True)
        reader = await warm(client, writer)
        before = background()
        for first in (0, 3):
            tail = reader.follow(first)
            waiting = asyncio.ensure_future(tail.next())
            if first == 0:
                assert cast(Entry, await waiting).entry_id == 0  # and two more have arrived
                waiting = asyncio.ensure_future(asyncio.sleep(0))
            else:
                await asyncio.sleep(0.1)
            await tail.close()
            await tail.close()
            if first == 3:
                with pytest.raises(errors.TailClosed):
                    await waiting
            calls: list[Callable[[], Awaitable[object]]] = [
                tail.next,
                partial(tail.read_many, 2),
                partial(anext, tail),
            ]
            for call in calls:
                with pytest.raises(errors.TailClosed, match=r"ledger 0: .* follow\(\) again"):
                    await call()
            assert tail.position == (1 if first == 0 else 3)
            await asyncio.sleep(0.1)
            assert background() == before


@pytest.mark.parametrize("pause_s", [0, 0.1, 5], ids="after {} s".format)
@pytest.mark.parametrize("first", [0, 3], ids="at {}".format)
@played(bookies_in=SMALL)
async def test_s146_a_tail_that_is_dropped_leaves_nothing_behind(
    lab: Lab, first: int, pause_s: float
) -> None:
    """Its step is under way, or done and not taken."""

    async def drop_one(reader: Reader) -> None:
        tail = reader.follow(first)
        with suppress(errors.WaitTimedOut):
            await tail.next(timeout=0)
        await asyncio.sleep(pause_s)

    async with lab.client() as client:
        writer = await written(client, 3, told=True)
        reader = await warm(client, writer)
        before = background()
        await drop_one(reader)
        await asyncio.sleep(0.01)
        assert background() == before


@played(bookies_in=SMALL)
async def test_a_tail_whose_ledger_is_deleted_says_so_every_time_and_never_that_it_ended(
    lab: Lab,
) -> None:
    async with lab.client("writer") as first, lab.client("reader") as second:
        writer = await written(first, 3, told=True)
        tail = (await second.open(writer.ledger_id, recover=False)).follow()
        assert len(await tail.read_many(MANY)) == 3
        await first.delete(writer.ledger_id)
        for _ in range(3):
            with pytest.raises(errors.NoSuchLedger):
                await tail.next(timeout=60)
        assert tail.position == 3


@played(bookies_in=SMALL)
async def test_a_tail_goes_on_behind_an_entry_that_every_replica_denied_for_a_while(
    lab: Lab,
) -> None:
    async with lab.client("writer") as first, lab.client("reader") as second:
        writer = await written(first, 5)
        await writer.close()
        tail = (await second.open(writer.ledger_id)).follow()
        doors = [lab.door(who) for who in writer.ensemble]
        for door in doors:
            door.read_error = wire_errors.NoSuchEntry("no such entry")
        for _ in range(2):
            with pytest.raises(errors.EntryLost):
                await tail.next()
        for door in doors:
            door.read_error = None
        assert [entry.entry_id async for entry in tail] == [0, 1, 2, 3, 4]


@played(bookies_in=SMALL)
async def test_a_tail_of_a_client_that_has_ended_says_so_and_not_that_it_ended(lab: Lab) -> None:
    async with lab.client("writer") as first:
        async with lab.client("reader") as second:
            writer = await written(first, 3, told=True)
            tail = (await second.open(writer.ledger_id, recover=False)).follow(3)
            with pytest.raises(errors.WaitTimedOut):
                await tail.next(timeout=1)
        for _ in range(2):
            with pytest.raises(errors.ClientClosed):
                await tail.next(timeout=1)
        await tail.close()
