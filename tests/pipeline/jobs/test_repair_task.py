"""A task of a repair, on real bookies in virtual time: what is copied, what is left, what waits."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from tests.replication.repair.test_replicator import replicating
from tests.replication.repair_lab import Bench, packet_at, played, rules
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.store.background import together
from zonekeeper.pipeline.jobs.repair_task import AT_ONCE, RepairPlan, RepairTask
from zonekeeper.pipeline.planning import repair_holds
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.job_source import Row
from zonekeeper.pipeline.planning.worker_repairer import WorkerRepairer
from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.pipeline.reports import fault_rows, repair_rows
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import RepairRules

NAMES = [part.split()[0] for part in fault_rows.COLUMNS.split(", ")]
ZONE_C = [BookieId(f"bk-c-{ordinal}") for ordinal in range(3)]
EVERYWHERE = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)


class Task:
    """A task of a repair, in a worker of its own."""

    def __init__(self, at: Bench, ids: Sequence[LedgerId], *, rate: int = 0) -> None:
        self.at = at
        holds = repair_holds.now(at.view)
        self.plan = RepairPlan(
            options=JobOptions(metadata="zk://h/l", wanted=IdRange(LedgerId(0), LedgerId(9))),
            policy=at.view.policy,
            bookies=tuple(at.view.topology),
            ranges=(),
            held=frozenset(holds.held),
            unresolved_held=holds.anywhere is not None,
            permitted=holds.permitted,
            share_bytes_per_second=rate,
        )
        self.mine = WorkerRepairer(at.client, at.view)
        self.mine.bytes_per_second = rate
        self.watched = WatchedView(at.view, lambda: None)
        self.task = RepairTask(self.mine, self.watched, self.plan, ids)
        self.rows: list[Row] = []

    async def run(self) -> list[dict[str, object]]:
        for part in (self.task.repaired, self.task.audited):
            async with aclosing(part()) as portions:
                async for portion in portions:
                    self.rows += portion
        return [dict(zip(NAMES, row, strict=True)) for row in self.rows]


def of(rows: Sequence[dict[str, object]], finding: str) -> list[object]:
    return sorted(row["ledger"] for row in rows if row["finding"] == finding)  # type: ignore[type-var] # ids


async def marked_in(at: Bench, count: int, *, closed: bool = True) -> list[Writer]:
    """Ledgers that have lost their copy in zone c."""
    written = [await at.written(5, quorums=EVERYWHERE, closed=closed) for _ in range(count)]
    await at.lose(*ZONE_C)
    for one in written:
        await at.mark(one.ledger_id, *(set(ZONE_C) & set(one.ensemble)))
    return written


async def versions(at: Bench, written: Sequence[Writer]) -> list[int]:
    stored = [await ledgers.read(at.cluster, one.ledger_id, sync=True) for one in written]
    return [one.version for one in stored if one is not None]


async def all_whole(at: Bench, written: Sequence[Writer]) -> None:
    for one in written:
        assert await at.marked(one.ledger_id) is None
        assert await at.lacks(one.ledger_id) == []
        assert not set(ZONE_C) & set(await at.ensemble(one.ledger_id))
    assert await at.claimed() == []


@played()
async def test_a_lost_zone_is_copied_again_once_and_audited(at: Bench) -> None:
    written = await marked_in(at, 10)
    before = await versions(at, written)
    task = Task(at, [one.ledger_id for one in written])
    rows = await task.run()
    await all_whole(at, written)
    assert await versions(at, written) == [one + 1 for one in before]
    assert of(rows, repair_rows.DONE) == [one.ledger_id for one in written]
    assert len(rows) == 10 + 2
    (copied,) = (row for row in rows if row["finding"] == repair_rows.COPIED)
    assert copied["ledgers"] == 10
    assert copied["bytes"] == task.mine.repairer.metrics.all_bytes_moved > 0
    (read,) = (row for row in rows if row["finding"] == fault_rows.READ)
    assert (read["ledgers"], read["entries"]) == (10, 50)


@played()
async def test_a_task_that_follows_a_dead_one_waits_for_its_claims_and_audits_all(
    at: Bench,
) -> None:
    written = await marked_in(at, 8)
    ids = [one.ledger_id for one in written]
    await drained(Task(at, ids[:4]).task.repaired())
    of_dead = await at.lab.cluster()
    for one in ids[4:6]:
        assert await underreplication.claim(of_dead, one, BookieId("dead")) is not None
    running = at.tasks.create_task(Task(at, ids).run())
    await asyncio.sleep(8)
    assert not running.done(), "the claims may be those of a process that lives"
    session = of_dead.store.session.id
    assert session is not None
    at.lab.server.expire(session)
    rows = await running
    await all_whole(at, written)
    assert of(rows, repair_rows.DONE) == ids
    assert [row["ledgers"] for row in rows if row["finding"] == fault_rows.READ] == [8]


@played()
async def test_a_ledger_that_another_process_keeps_is_left_to_it(at: Bench) -> None:
    one, other = await marked_in(at, 2)
    of_other = await at.lab.cluster()
    assert await underreplication.claim(of_other, one.ledger_id, BookieId("other")) is not None
    rows = await Task(at, [one.ledger_id, other.ledger_id]).run()
    assert of(rows, repair_rows.CLAIMED) == [one.ledger_id]
    assert of(rows, repair_rows.DONE) == [other.ledger_id]


@played()
async def test_beside_autorecovery_no_ledger_is_copied_twice(at: Bench) -> None:
    written = await marked_in(at, 30)
    before = await versions(at, written)
    ids = [one.ledger_id for one in written]
    async with replicating(at) as replicator:
        first, second = Task(at, ids[::2]), Task(at, ids[1::2])
        await together([first.run(), second.run()])
        others = replicator.metrics.all_bytes_moved
    await all_whole(at, written)
    assert await versions(at, written) == [one + 1 for one in before]
    ours = sum(one.mine.repairer.metrics.all_bytes_moved for one in (first, second))
    (size,) = {len(await copy_of(at, one)) for one in written}
    assert others > 0, "both have worked"
    assert ours > 0
    assert ours + others == size * len(written)


async def copy_of(at: Bench, one: Writer) -> bytes:
    """All packets of one copy."""
    bookie = (await at.ensemble(one.ledger_id))[0]
    packets = [
        await packet_at(at.lab, bookie, one.ledger_id, EntryId(number)) for number in range(5)
    ]
    return b"".join(bytes(one) for one in packets if one is not None)


@played()
async def test_a_hold_in_the_middle_stops_the_bytes_and_its_end_lets_them_go_on(
    at: Bench,
) -> None:
    written = await marked_in(at, 20)
    task = Task(at, [one.ledger_id for one in written])
    portions = task.task.repaired()
    done = len(await anext(portions))
    await at.hold("c")
    metrics = task.mine.repairer.metrics
    waiting = at.tasks.create_task(drained(portions))
    await asyncio.sleep(10)
    moved, reads = metrics.all_bytes_moved, reads_of(at)
    assert not waiting.done()
    await asyncio.sleep(600)
    assert (metrics.all_bytes_moved, reads_of(at)) == (moved, reads), "not a byte while it is held"
    assert await at.claimed() == []
    left = [one for one in written if await at.marked(one.ledger_id) is not None]
    assert len(left) >= 20 - done - AT_ONCE
    await at.open("c")
    await waiting
    await all_whole(at, written)


async def drained(portions: AsyncGenerator[list[Row], None]) -> int:
    count = 0
    async for portion in portions:
        count += len(portion)
    return count


def reads_of(at: Bench) -> int:
    return sum(
        len(machine.door.reads) for machine in at.lab.machines.values() if machine.door is not None
    )


@played()
async def test_what_was_held_when_it_was_planned_is_left_and_the_rest_is_done(at: Bench) -> None:
    one, other = await at.written(5), await at.written(5)
    (gone,) = set(one.ensemble) & set(ZONE_C)
    (elsewhere,) = (bookie for bookie in other.ensemble if at.zone(bookie) == "b")
    await at.lose(gone, elsewhere)
    await at.mark(one.ledger_id, gone)
    await at.mark(other.ledger_id, elsewhere)
    await at.hold("b")
    rows = await Task(at, [one.ledger_id, other.ledger_id]).run()
    assert of(rows, repair_rows.DONE) == [one.ledger_id]
    (left,) = (row for row in rows if row["finding"] == "held")
    assert (left["ledger"], left["bookie"]) == (other.ledger_id, elsewhere)
    assert "zone b is held" in str(left["error"])
    assert await at.marked(other.ledger_id) == (elsewhere,)


@played(given=rules(repair=RepairRules(open_ledger_grace_ms=5_000, bytes_per_second=0)))
async def test_an_open_ledger_is_closed_after_its_writer_s_grace(at: Bench) -> None:
    (one,) = await marked_in(at, 1, closed=False)
    rows = await Task(at, [one.ledger_id]).run()
    assert of(rows, repair_rows.DONE) == [one.ledger_id]
    assert (await at.ledger(one.ledger_id)).is_closed


@played()
async def test_what_nobody_has_is_left_with_its_reason(at: Bench) -> None:
    one = await at.written(5)
    await at.lose(*one.ensemble)
    await at.mark(one.ledger_id, *one.ensemble)
    rows = await Task(at, [one.ledger_id]).run()
    left = [row for row in rows if row["finding"] not in repair_rows.HARMLESS]
    assert {row["ledger"] for row in left} == {one.ledger_id}
    assert {row["bookie"] for row in left} == set(one.ensemble)
    assert {row["finding"] for row in left} == {"no-source"}
    assert all(row["error"] for row in left)


@played()
async def test_a_mark_for_a_better_spread_is_left_to_autorecovery(at: Bench) -> None:
    one = await at.written(5)
    await at.mark(one.ledger_id)
    rows = await Task(at, [one.ledger_id]).run()
    assert of(rows, repair_rows.SPREAD) == [one.ledger_id]
    assert await at.marked(one.ledger_id) == ()


@played()
async def test_a_ledger_that_is_gone_is_done_and_not_audited(at: Bench) -> None:
    (one,) = await marked_in(at, 1)
    await at.client.delete(one.ledger_id)
    rows = await Task(at, [one.ledger_id]).run()
    assert of(rows, repair_rows.DONE) == [one.ledger_id]
    assert [row["ledgers"] for row in rows if row["finding"] == fault_rows.READ] == [0]


@played()
async def test_the_audit_at_the_end_finds_what_is_wrong_with_a_copy(at: Bench) -> None:
    (one,) = await marked_in(at, 1)
    task = Task(at, [one.ledger_id])
    await drained(task.task.repaired())
    holder = (await at.ensemble(one.ledger_id))[0]
    door = at.lab.door(holder)
    door.spoil = lambda reply: dataclasses.replace(reply, frames=())
    rows = [row async for portion in task.task.audited() for row in portion]
    missing = [row for row in rows if row[3] == "missing"]
    assert [(row[0], row[2], row[7]) for row in missing] == [(one.ledger_id, holder, 5)]


@played()
async def test_a_task_copies_and_reads_at_its_share_of_the_rate(at: Bench) -> None:
    written = [await at.written(40, size=1_000) for _ in range(6)]
    await at.lose(*ZONE_C)
    for one in written:
        await at.mark(one.ledger_id, *(set(ZONE_C) & set(one.ensemble)))
    now_s = asyncio.get_running_loop().time
    began_s, rate = now_s(), 1_000
    task = Task(at, [one.ledger_id for one in written], rate=rate)
    await drained(task.task.repaired())
    took_s, copied = now_s() - began_s, task.mine.repairer.metrics.all_bytes_moved
    # One ledger is one carrier here, and the last debt is not waited for.
    assert (copied * 5 / 6) / rate * 0.95 < took_s < copied / rate + 5
    await drained(task.task.audited())
    assert now_s() - began_s > 3 * took_s, "the audit reads three copies at the same rate"


@played()
async def test_a_task_whose_view_has_ended_ends_and_gives_its_claims_back(at: Bench) -> None:
    written = await marked_in(at, 12)
    task = Task(at, [one.ledger_id for one in written], rate=100)
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks > 1:
            raise ClientEnded("x", maybe_applied=False)

    task.task._watched = WatchedView(at.view, check)
    with pytest.raises(ClientEnded):
        await drained(task.task.repaired())
    assert await at.claimed() == []
    left = [one for one in written if await at.marked(one.ledger_id) is not None]
    assert len(left) >= 12 - 3, "what was under way has stopped"
    await Task(at, [one.ledger_id for one in written]).run()
    await all_whole(at, written)


@played()
async def test_a_bookie_without_a_cookie_is_held_by_any_hold_and_not_waited_for(at: Bench) -> None:
    one = await at.written(5)
    await at.mark(one.ledger_id, BookieId("nobody"))
    await at.hold("b")
    rows = await Task(at, [one.ledger_id]).run()
    assert [(row["bookie"], row["finding"]) for row in rows[:1]] == [("nobody", "held")]
    await at.open("b")
    rows = await Task(at, [one.ledger_id]).run()
    assert of(rows, repair_rows.DONE) == [one.ledger_id]
