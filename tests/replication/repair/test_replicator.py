"""The replicator of a process: it walks the list of marked ledgers for ever."""

import asyncio
import dataclasses
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.replication.repair_lab import Bench, bench, payload, played, rules
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.underreplication_format import Underreplicated
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.replicator import Replicator
from zonekeeper.wire.formats import errors

#: Ledgers that do not exist, marked for a bookie that may be held.
MARKS, HELD = 100, BookieId("bk-b-0")


@asynccontextmanager
async def replicating(
    at: Bench, name: str = "worker", workers: int = 4
) -> AsyncIterator[Replicator]:
    """Run a replicator beside the block; at its end the process is told to stop."""
    replicator = Replicator(
        at.client, at.view, name=BookieId(name), chance=random.Random(3), workers=workers
    )
    running = at.tasks.create_task(replicator.run())
    try:
        yield replicator
    finally:
        running.cancel()
        await asyncio.wait([running])


async def written_and_lost(at: Bench, count: int) -> tuple[list[Writer], BookieId]:
    """So many ledgers that one bookie is a member of, which is lost then and marked for them."""
    lost = BookieId("bk-b-0")
    of_lost: list[Writer] = []
    while len(of_lost) < count:
        writer = await at.written(5)
        if lost in writer.ensemble:
            of_lost.append(writer)
    await at.lose(lost)
    for writer in of_lost:
        await at.mark(writer.ledger_id, lost)
    return of_lost, lost


@played()
async def test_everything_that_is_marked_is_repaired_and_what_is_marked_later_too(
    at: Bench,
) -> None:
    writers, _ = await written_and_lost(at, 4)
    late = writers.pop()
    async with replicating(at) as replicator:
        await at.until(lambda: replicator.metrics.ledgers_repaired == len(writers) + 1)
        for writer in (*writers, late):
            assert await at.marked(writer.ledger_id) is None
            assert await at.lacks(writer.ledger_id) == []
        again = await at.written(5)
        gone = again.ensemble[0]
        await at.lose(gone)
        await at.mark(again.ledger_id, gone)
        await at.until(lambda: replicator.metrics.ledgers_repaired == len(writers) + 2)
        assert await at.lacks(again.ledger_id) == []


@played()
async def test_two_processes_share_the_list_and_no_ledger_is_repaired_twice(one: Bench) -> None:
    async with bench(one.lab, "other", zone="b") as two:
        writers, lost = await written_and_lost(one, 6)
        await two.until(lambda: lost in two.view.missing)
        async with replicating(one) as first, replicating(two, "other") as second:
            metrics = (first.metrics, second.metrics)
            await one.until(lambda: sum(m.ledgers_repaired for m in metrics) == len(writers))
            assert sum(m.fragments_swapped for m in metrics) == len(writers)
        for writer in writers:
            assert await one.lacks(writer.ledger_id) == []


@played()
async def test_a_ledger_that_cannot_be_repaired_stops_nobody_and_is_counted_while_it_waits(
    at: Bench,
) -> None:
    writers, lost = await written_and_lost(at, 4)
    stuck = writers[0]
    for bookie in stuck.ensemble:
        if bookie != lost:
            await at.lose(bookie)
    async with replicating(at) as replicator:
        await asyncio.sleep(60)
        assert replicator.metrics.waiting_now[RepairTrouble.NO_SOURCE] >= 1
        repaired = [w for w in writers if await at.marked(w.ledger_id) is None]
        assert repaired
        assert await at.marked(stuck.ledger_id) == (lost,)


@played()
async def test_s89_what_fails_again_and_again_is_tried_less_and_less(at: Bench) -> None:
    writer = await at.written(5)
    await at.lose(*writer.ensemble)
    await at.mark(writer.ledger_id, writer.ensemble[0])
    async with replicating(at) as replicator:
        await asyncio.sleep(120)
        tries = replicator.metrics.failed[RepairTrouble.NO_SOURCE]
        assert 4 <= tries <= 9
        await asyncio.sleep(120)
        assert replicator.metrics.failed[RepairTrouble.NO_SOURCE] <= tries + 2


@played()
async def test_s84_what_is_held_moves_nothing_and_goes_on_soon_after_it_is_not(at: Bench) -> None:
    writers, _ = await written_and_lost(at, 4)
    await at.hold("b")
    async with replicating(at) as replicator:
        await asyncio.sleep(120)
        assert replicator.metrics.all_bytes_moved == 0
        assert replicator.metrics.failed == {}
        assert replicator.metrics.waiting_now == {RepairTrouble.HELD: len(writers)}
        assert await at.claimed() == []
        await at.open("b")
        await asyncio.sleep(10)
        assert replicator.metrics.ledgers_repaired == len(writers)


@played()
async def test_apaches_switch_stops_everything_and_starts_it_again(at: Bench) -> None:
    await repair_controls.set_enabled(at.cluster, enabled=False)
    await at.until(lambda: not at.view.replication_enabled)
    writers, _ = await written_and_lost(at, 3)
    async with replicating(at) as replicator:
        await asyncio.sleep(60)
        assert replicator.metrics.all_bytes_moved == 0
        await repair_controls.set_enabled(at.cluster, enabled=True)
        await at.until(lambda: replicator.metrics.ledgers_repaired == len(writers))


class MarksRead:
    """Counts whose mark is read, and passes it on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._read = underreplication.read
        patch.setattr(underreplication, "read", self)

    async def __call__(self, cluster: Cluster, ledger_id: LedgerId) -> Underreplicated | None:
        self.count += 1
        return await self._read(cluster, ledger_id)


@pytest.fixture
def marks_read(monkeypatch: pytest.MonkeyPatch) -> MarksRead:
    return MarksRead(monkeypatch)


async def held_marks(at: Bench) -> None:
    for number in range(1_000, 1_000 + MARKS):
        await at.mark(LedgerId(number), HELD)


@played()
async def test_while_everything_is_held_no_mark_is_read(at: Bench, marks_read: MarksRead) -> None:
    await held_marks(at)
    await repair_controls.set_enabled(at.cluster, enabled=False)
    await at.until(lambda: not at.view.replication_enabled)
    async with replicating(at) as replicator:
        await asyncio.sleep(300)
        assert marks_read.count == 0
        assert replicator.metrics.waiting_now == {RepairTrouble.HELD: MARKS}


@played()
async def test_what_stays_held_is_looked_at_less_and_less_and_at_once_when_its_gate_opens(
    at: Bench, marks_read: MarksRead
) -> None:
    writers, lost = await written_and_lost(at, 1)
    await held_marks(at)
    await at.hold(at.zone(lost))
    async with replicating(at) as replicator:
        await asyncio.sleep(300)
        before = marks_read.count
        await asyncio.sleep(95)
        assert MARKS <= marks_read.count - before < 4 * MARKS
        assert replicator.metrics.waiting_now == {RepairTrouble.HELD: MARKS + len(writers)}
        await at.open(at.zone(lost))
        await asyncio.sleep(5)
        assert replicator.metrics.ledgers_repaired == len(writers)


#: A ledger of ten large entries takes 16 s.
BUSY = RepairRules(bytes_per_second=64 * 1024, respread_bytes_per_second=0)


async def large_and_lost(at: Bench, count: int, zone: str) -> None:
    """So many large ledgers with one lost member in a zone, all marked."""
    lost, marked = BookieId(f"bk-{zone}-0"), list[LedgerId]()
    while len(marked) < count:
        writer = await at.written(10, size=100_000)
        if lost in writer.ensemble:
            marked.append(writer.ledger_id)
    await at.lose(lost)
    for ledger_id in marked:
        await at.mark(ledger_id, lost)


@played(given=rules(repair=BUSY))
async def test_after_a_walk_that_waited_for_its_workers_there_is_no_long_rest(at: Bench) -> None:
    small = await at.written(3)
    await large_and_lost(at, 6, "b")
    async with replicating(at, workers=1) as replicator:
        await at.until(lambda: replicator.metrics.all_bytes_moved > 0)
        await at.mark(small.ledger_id, small.ensemble[0])
        await asyncio.sleep(60)
        await at.until(lambda: replicator.metrics.under_way_now == 0)
        await asyncio.sleep(5)
        assert await at.marked(small.ledger_id) is None


@played(given=rules(repair=BUSY))
async def test_what_is_free_while_a_walk_waits_for_its_workers_need_not_wait_for_its_end(
    at: Bench,
) -> None:
    small = await at.written(3)
    await large_and_lost(at, 6, "a")
    await at.mark(small.ledger_id, next(one for one in small.ensemble if at.zone(one) == "b"))
    await at.hold("b")
    async with replicating(at, workers=1) as replicator:
        await at.until(lambda: replicator.metrics.all_bytes_moved > 0)
        await asyncio.sleep(20)
        assert await at.marked(small.ledger_id) is not None
        await at.open("b")
        await asyncio.sleep(30)
        assert await at.marked(small.ledger_id) is None
        assert replicator.metrics.under_way_now == 1, "others are not done yet"
        await asyncio.sleep(60)
        assert [one async for one in underreplication.ids(at.cluster)] == []


LATE = dataclasses.replace(rules().repair, bookie_recovery_delay_ms=40_000)


@played(given=dataclasses.replace(rules(), repair=LATE))
async def test_what_a_lost_bookie_had_is_repaired_soon_after_its_delay(at: Bench) -> None:
    writer = await at.written(5)
    gone = writer.ensemble[0]
    async with replicating(at) as replicator:
        await at.miss(gone)
        await at.mark(writer.ledger_id, gone)
        await at.until(lambda: at.view.what_holds_anew(gone) is None)
        await asyncio.sleep(5)
        assert replicator.metrics.ledgers_repaired == 1


@played(given=rules(repair=RepairRules(bytes_per_second=1 << 20)))
async def test_who_is_told_to_stop_gives_back_his_claims_and_another_process_goes_on(
    at: Bench,
) -> None:
    writer = await at.written(60, size=100_000)
    lost = writer.ensemble[0]
    await at.lose(lost)
    await at.mark(writer.ledger_id, lost)
    async with replicating(at) as replicator:
        await at.until(lambda: replicator.metrics.all_bytes_moved > 0)
        assert await at.claimed() == [writer.ledger_id]
    assert await at.claimed() == []
    moved = replicator.metrics.all_bytes_moved
    await asyncio.sleep(10)
    assert replicator.metrics.all_bytes_moved == moved
    async with replicating(at, "next") as second:
        await at.until(lambda: second.metrics.ledgers_repaired == 1)
    assert await at.lacks(writer.ledger_id, size=100_000) == []


@played(given=rules(repair=RepairRules(bytes_per_second=1 << 20)))
async def test_the_rate_is_for_all_workers_of_a_process_together(at: Bench) -> None:
    writers = [await at.written(10, size=100_000) for _ in range(6)]
    lost = BookieId("bk-b-0")
    of_lost = [writer for writer in writers if lost in writer.ensemble]
    await at.lose(lost)
    for writer in of_lost:
        await at.mark(writer.ledger_id, lost)
    began_s = asyncio.get_running_loop().time()
    async with replicating(at) as replicator:
        await at.until(lambda: replicator.metrics.ledgers_repaired == len(of_lost))
    took_s = asyncio.get_running_loop().time() - began_s
    moved = replicator.metrics.all_bytes_moved
    assert moved <= (1 << 20) * (took_s + 1)


@played()
async def test_an_open_ledger_is_looked_at_again_when_its_grace_is_over(at: Bench) -> None:
    writer = await at.written(5, closed=False)
    lost = writer.ensemble[0]
    await at.lose(lost)
    await at.mark(writer.ledger_id, lost)
    async with replicating(at) as replicator:
        await asyncio.sleep(25)
        assert replicator.metrics.ledgers_recovered == 0
        await asyncio.sleep(15)
        assert replicator.metrics.ledgers_recovered == 1
        assert replicator.metrics.failed == {}
    assert await at.lacks(writer.ledger_id) == []


@played()
async def test_s79_a_target_that_dies_after_the_swap_is_a_loss_like_any_other(at: Bench) -> None:
    writer = await at.written(10)
    lost = writer.ensemble[0]
    await at.lose(lost)
    await at.mark(writer.ledger_id, lost)
    async with replicating(at) as replicator:
        await at.until(lambda: replicator.metrics.ledgers_repaired == 1)
        target = (await at.ensemble(writer.ledger_id))[0]
        await at.lose(target)
        await at.mark(writer.ledger_id, target)
        await at.until(lambda: replicator.metrics.ledgers_repaired == 2)
    assert await at.lacks(writer.ledger_id) == []


@played()
async def test_a_bookie_that_is_slow_to_answer_delays_its_ledger_only(at: Bench) -> None:
    writers, lost = await written_and_lost(at, 4)
    near = next(one for one in writers[0].ensemble if one != lost)
    at.lab.door(near).read_error = errors.IoFailed("the test's")
    async with replicating(at) as replicator:
        await at.until(lambda: replicator.metrics.ledgers_repaired == len(writers))
    at.lab.door(near).read_error = None
    for writer in writers:
        assert await at.lacks(writer.ledger_id) == []


@pytest.mark.parametrize("workers", [1, 3])
@played()
async def test_no_more_ledgers_are_under_way_than_there_are_workers(
    at: Bench, workers: int
) -> None:
    writers, _ = await written_and_lost(at, 5)
    for machine in at.lab.machines.values():
        if machine.door is not None:
            machine.door.holding = True
    async with replicating(at, workers=workers) as replicator:
        await asyncio.sleep(2)
        assert replicator.metrics.under_way_now == workers
        assert len(await at.claimed()) == workers
        for machine in at.lab.machines.values():
            if machine.door is not None:
                machine.door.release()
        await at.until(lambda: replicator.metrics.ledgers_repaired == len(writers))
    assert payload(0).startswith(b"entry 0")


@played()
async def test_an_obstacle_is_told_once_and_what_was_repaired_as_a_sum(
    at: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="zonekeeper.replication.repair")
    stuck = await at.written(5)
    await at.lose(*stuck.ensemble)
    await at.mark(stuck.ledger_id, stuck.ensemble[0])
    async with replicating(at) as replicator:
        await asyncio.sleep(120)
        assert replicator.metrics.failed[RepairTrouble.NO_SOURCE] > 1
        told = [text for text in caplog.messages if text.startswith(RepairTrouble.NO_SOURCE)]
        assert len(told) == 1
        for bookie in stuck.ensemble[1:]:
            await at.bring_back(bookie)
        while not replicator.metrics.ledgers_repaired:  # noqa: ASYNC110 in virtual time
            await asyncio.sleep(1)
        await asyncio.sleep(30)
        lost = sorted((await at.ledger(stuck.ledger_id)).bookies)
        await at.lose(*lost)
        await at.mark(stuck.ledger_id, lost[0])
        await asyncio.sleep(120)
        told = [text for text in caplog.messages if text.startswith(RepairTrouble.NO_SOURCE)]
        assert len(told) == 2, "the ledger was done in between"
    (repaired,) = [text for text in caplog.messages if text.startswith("repaired ")]
    assert repaired.startswith("repaired 1 ledgers, ")
