"""The replica audit reads a ledger: real bookies in virtual time; its rows and its gate."""

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from tests.client import lab
from tests.client.lab import Lab
from tests.replication.audit.test_checks_replicas import (
    PLAIN,
    STRIPED,
    CheckWorld,
    damaged,
    played,
    without,
)
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import Fragment
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.background import alongside
from zonekeeper.pipeline.jobs import replica_audit
from zonekeeper.pipeline.jobs.replica_audit import CopiesReading, ReplicaAuditSource
from zonekeeper.pipeline.planning import quiet
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.job_source import Plan, TaskWorker
from zonekeeper.pipeline.planning.quiet import NotWatchedError
from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.pipeline.reports import fault_rows
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.placement.zones.losses import Held, HeldBy
from zonekeeper.replication.view.view import View
from zonekeeper.wire.contract.service import ReadReply
from zonekeeper.wire.formats import errors

NAMES = [part.split()[0] for part in fault_rows.COLUMNS.split(", ")]


def plan_of(world: CheckWorld) -> Plan:
    wanted = IdRange(LedgerId(0), LedgerId(9))
    return Plan(
        options=JobOptions(metadata="zk://h/l", wanted=wanted),
        policy=world.view.policy,
        bookies=tuple(world.view.topology),
        ranges=((wanted,),),
    )


def reading(world: CheckWorld) -> CopiesReading:
    watched = WatchedView(world.view, lambda: None)
    return CopiesReading.of_plan(world.client, watched, plan_of(world))


async def found(world: CheckWorld, ledger: StoredLedger) -> list[tuple[object, ...]]:
    """Give bookie, finding, first, last, step, entries and same of each row of a ledger."""
    rows = await reading(world).found(ledger)
    assert {row[0] for row in rows} <= {ledger.id}
    return [tuple(row[2:9]) for row in rows]


@played()
async def test_whole_copies_give_no_row_and_all_of_them_are_read(world: CheckWorld) -> None:
    for quorums in (PLAIN, STRIPED):
        assert await found(world, await world.written(9, quorums)) == []
    one = reading(world)
    await one.found(await world.written(7))
    entries, size_bytes = one.so_far
    assert entries == 7
    assert size_bytes > 3 * 7 * len(b"entry 0")


@played()
async def test_each_kind_of_fault_is_a_range_by_bookie(world: CheckWorld) -> None:
    ledger = await world.written(12)
    one, two, three = ledger.metadata.last_fragment.ensemble
    world.lab.door(one).spoil = without({3, 4, 5, 9})
    world.lab.door(two).spoil = damaged
    world.lab.door(three).read_error = errors.TooManyRequests("busy")
    assert sorted(map(str, await found(world, ledger))) == sorted(
        map(
            str,
            [
                (one, "missing", 3, 5, 1, 3, None),
                (one, "missing", 9, 9, 1, 1, None),
                (two, "bad", 11, 11, 1, 1, None),
                (three, "unknown", 0, 11, 1, 12, None),
            ],
        )
    )


@played()
async def test_an_entry_that_nobody_has_is_lost_beside_its_missing_copies(
    world: CheckWorld,
) -> None:
    ledger = await world.written()
    ensemble = ledger.metadata.last_fragment.ensemble
    for holder in ensemble:
        world.lab.door(holder).spoil = without({3})
    rows = await found(world, ledger)
    assert (None, "lost", 3, 3, 1, 1, None) in rows
    assert {row[0] for row in rows if row[1] == "missing"} == set(ensemble)


@played()
async def test_copies_that_differ_say_how_many_are_alike(world: CheckWorld) -> None:
    ledger = await world.written(4, digest=Digest.DUMMY)
    holder = ledger.metadata.last_fragment.ensemble[0]
    world.lab.door(holder).spoil = damaged
    rows = await found(world, ledger)
    assert {row[1] for row in rows} == {"differing"}
    assert {row[0]: row[6] for row in rows if row[3] == 3} == {
        one: 1 if one == holder else 2 for one in ledger.metadata.last_fragment.ensemble
    }


@played()
async def test_a_bookie_that_is_away_is_unknown_in_one_range(world: CheckWorld) -> None:
    ledger = await world.written()
    holder = ledger.metadata.last_fragment.ensemble[0]
    await world.lab.machines[holder].crash()
    await asyncio.sleep(30)
    assert await found(world, ledger) == [(holder, "unknown", 0, 9, 1, 10, None)]


@played()
async def test_of_a_ledger_that_is_gone_nothing_is_found(world: CheckWorld) -> None:
    ledger = await world.written()
    world.lab.door(ledger.metadata.last_fragment.ensemble[0]).spoil = without({3})
    assert len(await found(world, ledger)) == 1
    await world.client.delete(ledger.id)
    assert await found(world, ledger) == []


@played()
async def test_a_ledger_that_was_repaired_meanwhile_is_read_again(world: CheckWorld) -> None:
    ledger = await world.written()
    ensemble = ledger.metadata.last_fragment.ensemble
    others = [one.id for one in world.view.topology if one.id not in ensemble]
    # As read before a repair that replaced one that has nothing of it by the present member.
    swap = {ensemble[0]: others[0]}
    before = dataclasses.replace(
        ledger, metadata=ledger_metadata.replicas_replaced(ledger.metadata, EntryId(0), swap)
    )
    assert await found(world, before) == []
    await ledgers.change(
        world.cluster,
        ledger.id,
        lambda now: ledger_metadata.replicas_replaced(now, EntryId(0), {ensemble[0]: others[1]}),
    )
    rows = await found(world, before)
    assert rows == [(others[1], "missing", 0, 9, 1, 10, None)]


@played()
async def test_behind_too_many_ranges_a_ledger_is_not_read(
    world: CheckWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_audit, "ROWS_OF_LEDGER_MAX", 2)
    ledger = await world.written(24, STRIPED)
    for holder in ledger.metadata.last_fragment.ensemble:
        world.lab.door(holder).spoil = without(set(range(0, 24, 4)))
    rows = await reading(world).found(ledger)
    *_, last = rows
    assert len(rows) < 24
    assert last[3] == fault_rows.NOT_READ
    assert "was read up to entry" in str(last[9])


@played()
async def test_all_that_was_found_before_too_many_ranges_is_given(
    world: CheckWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the ranges that could still grow: a bookie that has nothing is one of those."""
    monkeypatch.setattr(replica_audit, "ROWS_OF_LEDGER_MAX", 2)
    ledger = await world.written(24)
    nothing, spotty = ledger.metadata.last_fragment.ensemble[:2]
    world.lab.door(nothing).spoil = without(set(range(24)))
    world.lab.door(spotty).spoil = without({0, 2, 4})
    *rows, last = await found(world, ledger)
    assert [row[:4] for row in rows if row[0] == nothing] == [(nothing, "missing", 0, 23)]
    assert [row[2] for row in rows if row[0] == spotty] == [0, 2, 4]
    assert last[1] == fault_rows.NOT_READ


@played()
async def test_a_task_gives_what_it_found_and_how_much_it_read_of_each_range(
    world: CheckWorld,
) -> None:
    whole, faulty = await world.written(5), await world.written(7)
    damaged_id = LedgerId(faulty.id + 1)
    await world.cluster.store.create(
        ledgers.path(world.cluster, damaged_id), b"garbage", make_parents=True
    )
    holder = faulty.metadata.last_fragment.ensemble[0]
    world.lab.door(holder).spoil = spoiled_of(faulty.id, without({3}))
    source = ReplicaAuditSource({})
    worker = TaskWorker(client=world.client, watched=WatchedView(world.view, lambda: None))
    ranges = (IdRange(whole.id, whole.id), IdRange(faulty.id, LedgerId(faulty.id + 5)))
    every = source.rows(worker, plan_of(world), ranges)
    rows = [row async for portion in every for row in portion]
    first, fault, damaged_row, last = (dict(zip(NAMES, row, strict=True)) for row in rows)
    assert (first["finding"], first["ledgers"], first["entries"]) == ("read", 1, 5)
    assert (fault["ledger"], fault["bookie"], fault["finding"]) == (faulty.id, holder, "missing")
    assert (damaged_row["ledger"], damaged_row["finding"]) == (damaged_id, fault_rows.NO_METADATA)
    assert (last["finding"], last["ledgers"], last["entries"]) == ("read", 2, 7)
    assert isinstance(last["bytes"], int)
    assert isinstance(first["bytes"], int)
    assert last["bytes"] < 2 * first["bytes"], "of this range alone"


def spoiled_of(
    ledger_id: LedgerId, spoil: Callable[[ReadReply], ReadReply]
) -> Callable[[ReadReply], ReadReply]:
    """Spoil answers about one ledger only."""

    def spoiled(reply: ReadReply) -> ReadReply:
        mine = any(frame.ledger_id == ledger_id for frame in reply.frames)
        return spoil(reply) if mine else reply

    return spoiled


@played()
async def test_a_range_is_of_the_fragment_that_has_its_entries(world: CheckWorld) -> None:
    ledger = await world.written(12)
    ensemble = ledger.metadata.last_fragment.ensemble
    parts = tuple(Fragment(EntryId(first), ensemble) for first in (0, 4, 9))
    metadata = dataclasses.replace(ledger.metadata, fragments=parts)
    world.lab.door(ensemble[0]).spoil = without({2, 3, 4, 11})
    rows = await reading(world)._faults(dataclasses.replace(ledger, metadata=metadata))
    assert [(row[1], row[4], row[5]) for row in rows] == [(0, 2, 3), (4, 4, 4), (9, 11, 11)]


@played()
async def test_a_task_reads_at_its_share_of_the_rate(world: CheckWorld) -> None:
    ledger = await world.written(3_000)
    now_s = asyncio.get_running_loop().time
    at_once = reading(world)
    began_s = now_s()
    await at_once.found(ledger)
    took_s, (_, size_bytes) = now_s() - began_s, at_once.so_far

    wanted = IdRange(LedgerId(0), LedgerId(9))
    rate = size_bytes // 100
    plan = dataclasses.replace(
        plan_of(world),
        options=JobOptions(metadata="zk://h/l", wanted=wanted, bytes_per_second=rate),
        ranges=((wanted,),) * 4,
    )
    slow = CopiesReading.of_plan(world.client, WatchedView(world.view, lambda: None), plan)
    began_s = now_s()
    await slow.found(ledger)
    # 400 s for all of it. One reply of each bookie may go before the rate is kept, and the last
    # debt is not waited for.
    assert 100 < now_s() - began_s - took_s < 410


@played()
async def test_nothing_is_read_while_a_zone_is_held_and_then_it_goes_on(world: CheckWorld) -> None:
    ledger = await world.written()
    await world.lab.crash_zone("c")
    await asyncio.sleep(120)
    asked = [
        world.lab.door(one)
        for one in ledger.metadata.last_fragment.ensemble
        if not one.startswith("bk-c")
    ]
    before = [len(door.reads) for door in asked]
    waiting = asyncio.ensure_future(found(world, ledger))
    await asyncio.sleep(600)
    assert [len(door.reads) for door in asked] == before
    held = quiet.holds(world.view, unwatched=True)
    assert held is not None, "unwatched permits nothing while a zone is held"
    assert held.by in (HeldBy.ZONE_HELD, HeldBy.CLUSTER_HELD)
    for name, machine in world.lab.machines.items():
        if name.startswith("bk-c"):
            await machine.start()
    assert await waiting == []
    assert [len(door.reads) for door in asked] > before


@played()
async def test_a_view_that_is_not_followed_any_more_ends_the_task_and_is_not_waited_for(
    world: CheckWorld,
) -> None:
    ended = ClientEnded("x", maybe_applied=False)
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks > 2:
            raise ended

    watched = WatchedView(world.view, check)
    await quiet.until_quiet_ends(watched, unwatched=False)
    await world.lab.crash_zone("c")
    await asyncio.sleep(120)
    with pytest.raises(ClientEnded):
        await quiet.until_quiet_ends(watched, unwatched=False)


def test_without_a_zone_watch_a_job_is_refused_unless_it_may_read_unwatched() -> None:
    async def staged(lab_: Lab) -> None:
        cluster = await lab_.cluster()
        view = View(cluster)
        async with alongside(view.follow()):
            await view.known()
            with pytest.raises(NotWatchedError, match="no zone watch is at work"):
                await quiet.check_watched(view, unwatched=False)
            await quiet.check_watched(view, unwatched=True)
            assert quiet.holds(view, unwatched=True) is None

    lab.play(staged)


@played()
async def test_a_watched_cluster_may_be_read_at_once(world: CheckWorld) -> None:
    await quiet.check_watched(world.view, unwatched=False)


def test_only_what_nobody_evaluates_is_left_out() -> None:
    for by in HeldBy:
        held = Held(by=by, text="x")
        assert quiet.counted(held, unwatched=False) is held
        expected = None if by in (HeldBy.NOT_WATCHED, HeldBy.NO_RECORD) else held
        assert quiet.counted(held, unwatched=True) is expected
    assert quiet.counted(None, unwatched=False) is None


def test_tasks_share_the_rate_and_no_share_is_no_limit() -> None:
    assert replica_audit.share_of(0, 7) == 0
    assert replica_audit.share_of(100, 7) * 7 <= 100
    assert replica_audit.share_of(3, 7) == 1


def test_the_columns_are_those_of_the_rows() -> None:
    rows = [
        fault_rows.of_unreadable(LedgerId(7), ValueError("a\nb")),
        fault_rows.of_reading(1, 2, 3),
        fault_rows.of_too_many(LedgerId(7), NO_ENTRY, NO_ENTRY),
    ]
    unreadable, read, _ = (dict(zip(NAMES, row, strict=True)) for row in rows)
    assert (unreadable["ledger"], unreadable["finding"]) == (7, fault_rows.NO_METADATA)
    assert unreadable["error"] == "a b"
    assert (read["ledgers"], read["entries"], read["bytes"]) == (1, 2, 3)
    assert NotWatchedError.retryable is False
