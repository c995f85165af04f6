"""A swap whose request is on its way for a while: what the gates say when it arrives decides.

Numbers are those of docs/scenarios.md.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.replication.repair.test_respreading import written_without_zone_b
from tests.replication.repair_lab import Bench, lost_one, played, troubles
from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind, calm
from zonekeeper.replication.repair.repair_metrics import RepairTrouble

WAY_MS = 2_000


def slow_swap(bench: Bench, meanwhile: Callable[[], Awaitable[None]]) -> list[int]:
    """Let the first swap travel for a while, and something happen meanwhile; give its times."""
    store = bench.cluster.store
    assert isinstance(store, MemoryStore)
    swaps: list[int] = []

    def weather(kind: RequestKind) -> Passage:
        if kind is not RequestKind.WRITE or not bench.metrics.all_bytes_moved:
            return Passage()
        swaps.append(WAY_MS)
        store.weather = calm
        bench.tasks.create_task(_run(meanwhile))
        return Passage(there_ms=WAY_MS)

    store.weather = weather
    return swaps


async def _run(meanwhile: Callable[[], Awaitable[None]]) -> None:
    await meanwhile()


@pytest.mark.parametrize("held", ["of the copy that leaves", "of the whole cluster"])
@pytest.mark.parametrize("late", [False, True], ids=["", "and the view hears of it later"])
@played()
async def test_s118_a_hold_that_overtakes_the_swap_stops_it(
    bench: Bench, held: str, late: bool
) -> None:
    writer, lost = await lost_one(bench)
    bench.gates.written_by(await bench.lab.cluster())
    zone = "-" if held == "of the whole cluster" else bench.zone(lost)

    async def hold() -> None:
        if late:
            bench.see_nothing_new()
        await bench.gates.hold_alone(zone)

    swaps = slow_swap(bench, hold)
    attempt = await bench.attempt(writer.ledger_id, lost)
    assert swaps == [WAY_MS]
    assert troubles(attempt) == [RepairTrouble.HELD]
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    assert await bench.marked(writer.ledger_id) == (lost,)
    if late:
        return
    await bench.gates.open(zone)
    await asyncio.sleep(10)
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_record_that_only_moved_on_lets_the_swap_through(bench: Bench) -> None:
    """An evaluation writes the record every few seconds; that is no reason to stop."""
    writer, lost = await lost_one(bench)
    bench.gates.written_by(await bench.lab.cluster())
    swaps = slow_swap(bench, lambda: bench.gates.open("nowhere"))
    assert (await bench.attempt(writer.ledger_id, lost)).done
    assert swaps == [WAY_MS]
    assert lost not in await bench.ensemble(writer.ledger_id)


@played()
async def test_a_hold_elsewhere_does_not_stop_the_swap(bench: Bench) -> None:
    writer, lost = await lost_one(bench)
    bench.gates.written_by(await bench.lab.cluster())
    elsewhere = next(zone for zone in "abc" if zone != bench.zone(lost))
    slow_swap(bench, lambda: bench.gates.hold(elsewhere))
    assert (await bench.attempt(writer.ledger_id, lost)).done


@played()
async def test_a_switch_that_is_off_before_the_swap_is_sent_stops_it(bench: Bench) -> None:
    """The view may hear of it later; the swap asks the store itself."""
    writer, lost = await lost_one(bench)
    bench.gates.written_by(await bench.lab.cluster())
    other = await bench.lab.cluster()

    async def switch_off() -> None:
        bench.see_nothing_new()
        await repair_controls.set_enabled(other, enabled=False)
        await bench.gates.open("nowhere")  # so that the swap is refused, and asked for once more

    slow_swap(bench, switch_off)
    attempt = await bench.attempt(writer.ledger_id, lost)
    assert troubles(attempt) == [RepairTrouble.HELD]
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble


@played()
async def test_a_hold_anywhere_stops_the_swap_of_what_is_only_spread_anew(bench: Bench) -> None:
    writer = await written_without_zone_b(bench)
    before = await bench.ensemble(writer.ledger_id)
    bench.gates.written_by(await bench.lab.cluster())
    unused = next(zone for zone in "abc" if zone not in map(bench.zone, before))

    async def hold() -> None:
        bench.see_nothing_new()
        await bench.gates.hold_alone(unused)

    slow_swap(bench, hold)
    await bench.mark(writer.ledger_id)
    assert not (await bench.repairer.attempt(writer.ledger_id, respread=True)).done
    assert await bench.ensemble(writer.ledger_id) == before
