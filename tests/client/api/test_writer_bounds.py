"""What a writer takes, and what it holds: budgets, sizes, and calls that are cancelled."""

import asyncio
import contextlib
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, cast

import pytest

from tests.client.api.test_writer import contents, data, holds
from tests.client.lab import Lab, played
from tests.support import figures
from zonekeeper.client.api.entry_data import Data
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.formats.ledger_metadata import LedgerState
from zonekeeper.wire.formats import entries


@played()
async def test_append_nowait_refuses_beyond_the_budget_and_append_waits(lab: Lab) -> None:
    config = ClientConfig(writer_budget_bytes=10_000)
    async with lab.client(config=config) as client:
        writer = await client.create()
        for _ in range(9):
            writer.append_nowait(b"x" * 1_000)
        with pytest.raises(errors.BudgetSpent) as refused:
            writer.append_nowait(b"x" * 1_000)
        assert (refused.value.retryable, refused.value.maybe_applied) == (True, False)
        taken = writer.last_appended
        assert 0 < writer.used_bytes <= 10_000
        assert await writer.append(b"x" * 1_000) == taken + 1
        await writer.close()
        assert (await client.metadata(writer.ledger_id)).last_entry == taken + 1


@played()
async def test_an_append_that_is_cancelled_while_it_waits_has_appended_nothing(lab: Lab) -> None:
    config = ClientConfig(writer_budget_bytes=2_000)
    async with lab.client(config=config) as client:
        writer = await client.create()
        writer.append_nowait(b"x" * 1_900)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await writer.append(b"y" * 1_000)
        await writer.close()
        assert await contents(client, writer.ledger_id) == [b"x" * 1_900]


@played()
async def test_an_append_that_waits_while_its_writer_is_halted_is_refused(lab: Lab) -> None:
    async def refused(writer: Writer) -> None:
        with pytest.raises(errors.WriterClosed):
            await writer.append(b"y" * 1_000)

    async with lab.client(config=ClientConfig(writer_budget_bytes=2_000)) as client:
        writer = await client.create()
        for who in lab.machines.values():
            who.doorway.holding = True
        writer.append_nowait(b"x" * 1_900)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(refused(writer))
            await asyncio.sleep(0.1)
            writer.halt()
        assert waiting.done()


@played()
async def test_closing_a_writer_that_was_halted_does_not_say_that_its_ledger_is_closed(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(data(0))
        writer.halt()
        for _ in range(2):
            with pytest.raises(errors.WriterClosed, match="is not closed"):
                await writer.close()
        assert (await client.metadata(writer.ledger_id)).state is LedgerState.OPEN
        closed = await client.create()
        await closed.close()
        closed.halt()
        await closed.close()


@played()
async def test_a_wait_that_is_cancelled_breaks_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        for number in range(20):
            await writer.append(data(number))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await writer.flush()
        await writer.close()
        await holds(client, writer.ledger_id, 20)


@played()
async def test_s10_largest_and_empty_entries_are_taken_and_larger_ones_refused(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        largest = bytes(entries.PAYLOAD_BYTES_MAX)
        await writer.append(largest)
        await writer.append(b"")
        with pytest.raises(errors.TooLarge):
            await writer.append(largest + b"x")
        await writer.append(bytearray(b"after"))
        await writer.close()
        assert await contents(client, writer.ledger_id) == [largest, b"", b"after"]


NO_BYTES: Final[list[object]] = [5, True, "text", None, [1, 2], {}]


@played()
async def test_what_is_no_bytes_is_refused_and_not_appended(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        appends: list[Callable[[Data], Awaitable[object]]] = [
            writer.append,
            writer.append_and_wait,
            lambda data: writer.append_many([data]),
        ]
        for value in NO_BYTES:
            for append in appends:
                with pytest.raises(TypeError, match=f"bytes.*not {type(value).__name__}"):
                    await append(cast(Data, value))
            with pytest.raises(TypeError, match=f"bytes.*not {type(value).__name__}"):
                writer.append_nowait(cast(Data, value))
        assert writer.last_appended == -1
        await writer.append_many([b"bytes", bytearray(b"array"), memoryview(b"view")[1:]])
        await writer.close()
        assert await contents(client, writer.ledger_id) == [b"bytes", b"array", b"iew"]


@played()
async def test_append_many_says_whether_some_of_the_entries_were_appended(lab: Lab) -> None:
    async with lab.client() as client, await client.create() as writer:
        too_large = bytes(entries.PAYLOAD_BYTES_MAX + 1)
        for many, some in (([too_large], False), ([b"", too_large], True)):
            with pytest.raises(errors.TooLarge) as refused:
                await writer.append_many(many)
            assert refused.value.maybe_applied is some
            assert writer.last_appended == (0 if some else -1)


@played()
async def test_the_bytes_of_one_entry_are_not_taken_for_many(lab: Lab) -> None:
    async with lab.client() as client, await client.create() as writer:
        for one in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
            with pytest.raises(TypeError, match="use append"):
                await writer.append_many(cast(Iterable[Data], one))
        assert writer.last_appended == -1


#: A message takes up to 0.5 ms in the lab, and its disks no time.
WAY_AND_BACK_S: Final = 0.001


@played()
async def test_an_append_alone_waits_for_no_timer(lab: Lab) -> None:
    loop = asyncio.get_running_loop()
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(data(0))
        for number in range(1, 20):
            await asyncio.sleep(0.007 * number)  # also after the LAC was told, at 20 ms
            began_s = loop.time()
            await writer.append_and_wait(data(number))
            assert loop.time() - began_s <= WAY_AND_BACK_S, "of simulated time"
        await writer.close()


@played()
async def test_a_batch_that_may_grow_waits_for_acknowledgements_and_a_full_one_does_not(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        for payload, batches in ((b"small", 3), (bytes(1 << 20), 12)):
            writer = await client.create()
            await writer.append_and_wait(b"opens the ledger")
            sent = client.counters.frames_sent
            for who in lab.machines.values():
                who.doorway.holding = True
            for _ in range(30):
                await writer.append(payload)
                await asyncio.sleep(0.01)
            assert client.counters.frames_sent - sent == batches * len(writer.ensemble)
            for who in lab.machines.values():
                who.doorway.release()
            await writer.close()


@played()
async def test_a_hundred_thousand_entries_outstanding_take_bounded_memory(
    lab: Lab, record_property: Callable[[str, object], None]
) -> None:
    """No object of ours for each: payloads in lists, and the frames under way."""
    count, payload_bytes = 100_000, 100
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(b"opens the ledger")
        await asyncio.sleep(10)  # the bookies fill their first files
        for who in lab.machines.values():
            who.doorway.holding = True
        began_s = time.process_time()
        gc.collect()
        objects = len(gc.get_objects())
        with traced() as held:
            for _ in range(count):
                await writer.append(bytes(payload_bytes))
            await asyncio.sleep(0.1)
            held_bytes, peak_bytes = held()
        gc.collect()
        counts = {
            "adds outstanding": count,
            "bytes of the writer's budget": writer.used_bytes,
            "bytes held": held_bytes,
            "bytes held at most": peak_bytes,
            "objects": len(gc.get_objects()) - objects,
        }
        figures.record(record_property, "a flood of adds", counts, time.process_time() - began_s)
        assert counts["objects"] < 1_000
        assert writer.last_confirmed == 0
        assert writer.used_bytes == count * (payload_bytes + 64)
        # What waits, and what is under way: once here, and at each of three bookies.
        assert peak_bytes < 4 * writer.used_bytes
        for who in lab.machines.values():
            who.doorway.release()
        await writer.close()
        assert writer.used_bytes == 0
        assert (await client.metadata(writer.ledger_id)).last_entry == count


@contextlib.contextmanager
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """Count the bytes that are allocated in the block: held now, and at most."""
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()
