"""What the demonstration writes and reads back: a missing or changed entry does not pass."""

import asyncio

import pytest

from tests.client.lab import Lab, played
from zonekeeper.client.api.client import Client
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.shell.demo import demo_load
from zonekeeper.shell.demo.demo_load import Load


async def written(client: Client, *contents: bytes) -> LedgerId:
    async with await client.create() as writer:
        await writer.append_many(contents)
    return writer.ledger_id


@played()
async def test_what_was_written_while_a_zone_went_is_all_there(lab: Lab) -> None:
    told: list[str] = []
    async with lab.client() as client, asyncio.TaskGroup() as tasks:
        load = Load(client, told.append, "calm")
        writing = tasks.create_task(load.run())
        await asyncio.sleep(0.2)
        load.part("without a zone")
        await lab.crash_zone("b")
        await asyncio.sleep(4.6)
        load.end()
        await writing
        assert len(load.acked) == 2
        assert load.entries_acked == sum(timing.entries for timing in load.timings)
        assert load.entries_acked >= 4_500 * demo_load.ENTRIES_EACH // demo_load.EVERY_MS
        for ledger_id, last in load.acked.items():
            assert last > 0
            found = await demo_load.check(client, ledger_id, last)
            assert found.whole
            assert found.same == last + 1
    assert any("ensemble change: bk-b-" in line for line in told)


@played()
async def test_a_writer_that_is_stopped_goes_on_in_a_new_ledger(lab: Lab) -> None:
    told: list[str] = []
    async with lab.client() as client, asyncio.TaskGroup() as tasks:
        load = Load(client, told.append, "calm")
        writing = tasks.create_task(load.run())
        await asyncio.sleep(0.2)
        first = next(iter(load.acked))
        await client.open(first, recover=True)  # recovers it, and so fences its writer
        await asyncio.sleep(0.2)
        load.end()
        await writing
        assert len(load.acked) == 2
        for ledger_id, last in load.acked.items():
            assert (await demo_load.check(client, ledger_id, last)).whole


@played()
async def test_entries_that_are_missing_or_changed_are_seen(lab: Lab) -> None:
    async with lab.client() as client:
        ledger_id = await written(client, *(demo_load.payload(LedgerId(0), n) for n in range(3)))
        assert ledger_id == 0
        short = await demo_load.check(client, ledger_id, EntryId(4))
        assert (short.acked, short.same, short.reason) == (5, 3, "it ends at entry 2")
        other = await written(client, demo_load.payload(LedgerId(1), 0), b"something else")
        changed = await demo_load.check(client, other, EntryId(1))
        assert (changed.acked, changed.same) == (2, 1)
        assert changed.reason == "entry 1 has another content"
        gone = await demo_load.check(client, LedgerId(99), EntryId(0))
        assert (gone.same, gone.whole) == (0, False)
        assert "there is no ledger 99" in gone.reason


@pytest.mark.parametrize(("share", "latency"), [(0, 1.0), (0.5, 51.0), (0.99, 100.0), (1, 100.0)])
def test_a_quantile_is_a_latency_that_was_seen(share: float, latency: float) -> None:
    timing = demo_load.AckTiming("calm", latencies_ms=[float(n) for n in range(100, 0, -1)])

    assert timing.quantile_ms(share) == latency
    assert demo_load.AckTiming("nothing").quantile_ms(share) == 0
