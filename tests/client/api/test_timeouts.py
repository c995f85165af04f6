"""Calls with a timeout: what they say when it is over, and that the next call goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import pytest

from tests.client.api.test_writer import outcome
from tests.client.lab import Lab, played
from tests.client.recovery_world import data, written
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import TURN_BYTES, Writer
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import EntryId

SMALL = {"a": 1, "b": 1, "c": 1}
NARROW = ClientConfig(writer_budget_bytes=2_000)

Call = Callable[[float], Awaitable[object]]


def hold(lab: Lab, writer: Writer, *, holding: bool = True) -> None:
    """Keep the writer's bookies from acknowledging, or let them go on."""
    for who in writer.ensemble:
        if holding:
            lab.door(who).holding = True
        else:
            lab.door(who).release()


async def late(call: Call, after_s: float = 1.5) -> errors.WaitTimedOut:
    """Make a call whose timeout is over, and give its error."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    with pytest.raises(errors.WaitTimedOut) as over:
        await call(after_s)
    assert loop.time() - begun_s == pytest.approx(after_s, abs=1e-6), "in virtual time"
    assert isinstance(over.value, TimeoutError)
    assert over.value.retryable
    return over.value


@pytest.mark.parametrize("after_s", [0, 1.5])
@played(bookies_in=SMALL)
async def test_an_append_whose_timeout_is_over_has_appended_nothing(
    lab: Lab, after_s: float
) -> None:
    async with lab.client(config=NARROW) as client:
        writer = await client.create()
        hold(lab, writer)
        await writer.append(b"x" * 1_900, timeout=0)
        calls: list[Call] = [
            partial(writer.append, b"y" * 500),
            partial(writer.append_and_wait, b"y" * 500),
            partial(writer.append_many, [b"y" * 500] * 3),
        ]
        for call in calls:
            over = await late(call, after_s)
            assert not over.maybe_applied
            for word in ("ledger 0", "500 bytes", "was not appended", "entry 0", "flushed()"):
                assert word in str(over)
            assert writer.last_appended == 0
        hold(lab, writer, holding=False)
        assert await writer.append(b"y" * 500, timeout=60) == 1
        await writer.close(timeout=60)
        assert (await client.metadata(writer.ledger_id)).length == 2_400


@played(bookies_in=SMALL)
async def test_an_append_that_finds_room_does_not_time_out(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        for _ in range(5):  # after so many bytes it lets others have a turn
            await writer.append(bytes(TURN_BYTES), timeout=0)
        assert await writer.append_many([bytes(TURN_BYTES)] * 3, timeout=0) == 7
        await writer.flush(timeout=60)
        for call in (writer.flush, writer.force, partial(writer.flushed, EntryId(3))):
            await call(0)


@played(bookies_in=SMALL)
async def test_append_many_says_whether_some_were_appended_before_its_timeout(lab: Lab) -> None:
    async with lab.client(config=NARROW) as client:
        writer = await client.create()
        hold(lab, writer)
        over = await late(partial(writer.append_many, [b"y" * 500] * 9))
        assert over.maybe_applied
        assert "the last one that was is entry 2" in str(over)
        assert writer.last_appended == 2


@played(bookies_in=SMALL)
async def test_one_timeout_is_for_the_whole_of_a_call(lab: Lab) -> None:
    """There is room for one entry more each second."""
    async with lab.client(config=NARROW) as client:
        writer = await client.create()
        await writer.flush()
        hold(lab, writer)

        async def let_go() -> None:
            while True:
                await asyncio.sleep(1)
                hold(lab, writer, holding=False)
                hold(lab, writer)

        letting = lab.tasks.create_task(let_go())
        over = await late(partial(writer.append_many, [b"y" * 1_500] * 9), 3.5)
        assert over.maybe_applied
        assert writer.last_appended == 3
        over = await late(partial(writer.append_and_wait, b"y" * 1_500), 0.8)
        assert (over.maybe_applied, writer.last_appended) == (True, 4)
        letting.cancel()


@pytest.mark.parametrize("deferred", [False, True], ids=["synced", "deferred"])
@played(bookies_in=SMALL)
async def test_a_wait_for_an_acknowledgement_says_what_is_appended_and_may_be_made_again(
    lab: Lab, deferred: bool
) -> None:
    async with lab.client() as client:
        writer = await client.create(deferred_sync=deferred)
        await writer.append_and_wait(data(0))
        hold(lab, writer)
        over = await late(partial(writer.append_and_wait, data(1)))
        assert over.maybe_applied
        for word in ("ledger 0", "entry 1 was appended", "Do not append it again", "flushed(1)"):
            assert word in str(over)
        for call, word in (
            (partial(writer.flushed, EntryId(1)), "entry 1 is not acknowledged yet"),
            (writer.flush, "entry 1 is not acknowledged yet"),
            (writer.force, "not all entries up to 1 are on disk yet"),
        ):
            over = await late(call)
            assert over.maybe_applied
            assert f"ledger 0: {word}" in str(over)
        hold(lab, writer, holding=False)
        await writer.flushed(EntryId(1), 60)
        await writer.flush(60)
        await writer.force(60)
        assert writer.last_confirmed == 1


@played(bookies_in=SMALL)
async def test_tell_confirmed_whose_timeout_is_over_may_be_called_again(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(data(0))
        hold(lab, writer)
        over = await late(writer.tell_confirmed)
        assert over.maybe_applied
        assert "know the LAC, entry 0; some may know it" in str(over)
        hold(lab, writer, holding=False)
        await writer.tell_confirmed(60)


@played(bookies_in=SMALL)
async def test_a_close_whose_timeout_is_over_may_be_called_again_and_closes(lab: Lab) -> None:
    """Its timeout is over at each moment of it, also while the metadata is changed."""
    async with lab.client() as client:
        over_at: list[int] = []
        for step in range(40):
            writer = await client.create()
            await writer.append_many([data(0), data(1)])
            closed = await outcome(writer.close(step * 0.000_3))
            if closed is not None:
                over_at.append(step)
                assert isinstance(closed, errors.WaitTimedOut)
                assert closed.maybe_applied
                assert "may be closed or not" in str(closed)
                assert isinstance(await outcome(writer.append(data(2))), errors.WriterClosed)
                await writer.close(60)
            assert (await client.metadata(writer.ledger_id)).last_entry == 1
        assert over_at == list(range(len(over_at)))
        assert 3 < len(over_at) < 40


@played(bookies_in=SMALL)
async def test_a_question_of_a_reader_whose_timeout_is_over_may_be_asked_again(lab: Lab) -> None:
    async with lab.client("writer") as first, lab.client("reader") as second:
        writer = await written(first, 3, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        store = cast(MemoryStore, second.cluster.store)
        store.cut()
        for call, word in (
            (reader.refresh, "the metadata store has not answered"),
            (reader.read_last_confirmed, "which is entry 2 or a later one"),
        ):
            over = await late(call)
            assert not over.maybe_applied
            assert word in str(over)
        store.mend()
        assert await reader.refresh(60) is False
        assert await reader.read_last_confirmed(60) == 2


WAITS: dict[str, Callable[[Writer, Reader, float], Awaitable[object]]] = {
    "append": lambda writer, _, timeout: writer.append(b"late", timeout),
    "append_many": lambda writer, _, timeout: writer.append_many([b"late"], timeout),
    "append_and_wait": lambda writer, _, timeout: writer.append_and_wait(b"late", timeout),
    "flushed": lambda writer, _, timeout: writer.flushed(EntryId(0), timeout),
    "flush": lambda writer, _, timeout: writer.flush(timeout),
    "force": lambda writer, _, timeout: writer.force(timeout),
    "tell_confirmed": lambda writer, _, timeout: writer.tell_confirmed(timeout),
    "prepare": lambda writer, _, timeout: writer.prepare(timeout),
    "close": lambda writer, _, timeout: writer.close(timeout),
    "read_last_confirmed": lambda _, reader, timeout: reader.read_last_confirmed(timeout),
    "refresh": lambda _, reader, timeout: reader.refresh(timeout),
}


@played(bookies_in=SMALL)
async def test_what_is_no_timeout_is_refused_before_anything_begins(lab: Lab) -> None:
    wrong: list[tuple[object, type[Exception]]] = [
        (-0.001, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (10**400, ValueError),
        ("1", TypeError),
        (True, TypeError),
        (1j, TypeError),
    ]
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(data(0))
        reader = await client.open(writer.ledger_id, recover=False)
        for name, wait in WAITS.items():
            for timeout, kind in wrong:
                with pytest.raises(kind, match=r"^timeout is"):
                    await wait(writer, reader, cast(float, timeout))
            assert writer.last_appended == 0, name
        assert await writer.append_and_wait(data(1), 60) == 1


@played(bookies_in=SMALL)
async def test_calls_of_a_client_end_with_their_timeout_and_say_what_may_have_happened(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        writer = await written(client, 1)
        store = client.cluster.store
        assert isinstance(store, MemoryStore)
        store.cut()
        calls: dict[str, tuple[Call, bool]] = {
            "given up": (lambda after_s: client.create(timeout=after_s), False),
            "open it again": (
                lambda after_s: client.open(writer.ledger_id, recover=False, timeout=after_s),
                False,
            ),
            "may be fenced": (
                lambda after_s: client.open(writer.ledger_id, recover=True, timeout=after_s),
                True,
            ),
            "may be deleted or not": (
                lambda after_s: client.delete(writer.ledger_id, timeout=after_s),
                True,
            ),
            "call again": (
                lambda after_s: client.metadata(writer.ledger_id, timeout=after_s),
                False,
            ),
        }
        for says, (call, maybe_applied) in calls.items():
            over = await late(call)
            assert says in str(over)
            assert over.maybe_applied is maybe_applied
        store.mend()
        await asyncio.sleep(30)
        assert [one async for one in client.ledgers()] == [writer.ledger_id], "nothing was created"
        async with client.create(timeout=5) as other:
            await other.append(data(0))
        await client.delete(other.ledger_id, timeout=5)
        assert (await client.open(writer.ledger_id, recover=True, timeout=5)).last_confirmed == 0


@played(bookies_in=SMALL)
async def test_a_timeout_of_the_client_that_is_none_begins_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        wrong = cast("float", "1")
        for call in (
            lambda: client.create(timeout=-1),
            lambda: client.open(1, timeout=float("nan")),
        ):
            with pytest.raises(ValueError, match="timeout"):
                call()
        with pytest.raises(TypeError, match="timeout"):
            await client.delete(1, timeout=wrong)
        with pytest.raises(TypeError, match="timeout"):
            await client.metadata(1, timeout=wrong)
        assert [one async for one in client.ledgers()] == []
