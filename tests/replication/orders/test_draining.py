"""A bookie that is there is emptied by an order, which lives in the store and in no process."""

import asyncio
import dataclasses
from collections.abc import Collection

import pytest

from tests.replication.orders.ordering import (
    ANNA,
    LEAVING,
    another,
    give,
    has_cookie,
    is_claimed,
    is_left,
    is_read_only,
    kept,
    on_leaving,
    phase_of,
    standing,
    told,
    until,
    until_emptied,
    until_over,
    until_phase,
)
from tests.replication.repair.test_replicator import replicating
from tests.replication.repair_lab import Bench, played, rules
from tests.replication.test_claims_in_outages import store_of
from zonekeeper.metadata.bookies import bookie_records, order_claims, order_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.bookies.order_records import OrderChange
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.stores.memory import Passage, RequestKind
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, LedgerId
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.placement.zones.bookie_orders import OrderKind, OrderPhase
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.wire.formats import errors

SLOW = RepairRules(bytes_per_second=2_048, respread_bytes_per_second=0)


@played()
async def test_a_bookie_is_drained_and_every_entry_keeps_its_copies(bench: Bench) -> None:
    writers = await on_leaving(bench, 3)
    order = await give(bench, OrderKind.DRAIN)
    assert order == await standing(bench)
    assert (await bookie_records.read(bench.cluster, LEAVING)).draining == Mark(
        at_ms=7, by="anna", reason="a smaller zone"
    )
    async with kept(bench):
        done = await until_emptied(bench)
        await is_left(bench, writers)
        assert await is_read_only(bench)
        assert {cause for _, _, cause in bench.moved()} == {"draining"}
        progress = done.progress
        assert progress is not None
        assert (progress.phase, progress.worker) == (OrderPhase.EMPTIED, "worker")
        assert (progress.ledgers, progress.ledgers_left) == (3, 0)
        assert progress.bytes > 0
        assert done.emptied_ms is not None
        # By then every client has seen that the bookie takes no new ledger.
        session_timeout_ms = bench.view.policy.zone_watch.session_timeout_ms
        assert done.emptied_ms - progress.since_ms >= session_timeout_ms
        assert progress.bytes_left == 0
        await bench.until(lambda: not bench.metrics.under_way_now)
        await asyncio.sleep(10)
        assert not await is_claimed(bench), "a drained bookie needs no work"
        assert await told(bench) == [("draining", "anna"), ("drained", "anna")]
        assert await has_cookie(bench)


@played()
async def test_at_rest_a_drained_bookie_costs_no_write(bench: Bench) -> None:
    await on_leaving(bench, 1)
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        await until_emptied(bench)
        await asyncio.sleep(30)
        writes = 0

        def weather(kind: RequestKind) -> Passage:
            nonlocal writes
            writes += kind is RequestKind.WRITE
            return Passage()

        bench.gates.written_by(await bench.lab.cluster())
        await asyncio.sleep(10)
        store_of(bench).weather = weather
        await asyncio.sleep(300)
        assert writes == 0


@played(given=rules(repair=SLOW))
async def test_two_processes_never_work_on_one_bookie_and_a_dead_one_is_replaced(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 6)
    async with another(bench, "first") as first:
        async with another(bench, "second") as second:
            await give(bench, OrderKind.DRAIN)
            async with kept(second):
                async with kept(first):
                    await until_phase(bench, OrderPhase.COPYING)
                    worker = await order_claims.holder(bench.cluster, LEAVING)
                    for _ in range(20):
                        await asyncio.sleep(0.5)
                        assert await order_claims.holder(bench.cluster, LEAVING) == worker
                        found = await standing(bench)
                        assert found is not None
                        assert found.progress is not None
                        assert found.progress.worker == worker
                        if found.emptied_ms is not None:
                            break
                # The first process is told to stop; the second goes on, if it did not work already.
                done = await until_emptied(bench)
        assert done.progress is not None
        assert done.progress.worker in ("first", "second")
    await is_left(bench, writers)


@played(given=rules(repair=SLOW))
async def test_a_process_that_is_cut_off_is_replaced_when_its_session_ends(bench: Bench) -> None:
    writers = await on_leaving(bench, 6)
    async with another(bench, "first") as first:
        await give(bench, OrderKind.DRAIN)
        async with kept(first):
            await until_phase(bench, OrderPhase.COPYING)
            store_of(first).cut()
            async with kept(bench):
                done = await until_emptied(bench)
                assert done.progress is not None
                assert done.progress.worker == "worker"
                assert done.progress.since_ms > 0
                store_of(first).mend()
                await asyncio.sleep(30)
                assert await standing(bench) == done, "the first one has changed nothing"
    await is_left(bench, writers)


@played()
async def test_a_drain_shares_its_work_with_replicators(bench: Bench) -> None:
    writers = await on_leaving(bench, 4)
    async with replicating(bench, "other") as replicator, kept(bench):
        await give(bench, OrderKind.DRAIN)
        await until_emptied(bench)
        swaps = bench.metrics.fragments_swapped + replicator.metrics.fragments_swapped
    assert swaps == len(writers)
    await is_left(bench, writers)


@played()
async def test_a_drain_waits_while_the_zone_is_held_and_says_so(bench: Bench) -> None:
    await on_leaving(bench, 2)
    await bench.hold("b")
    async with kept(bench):
        await give(bench, OrderKind.DRAIN)
        found = await until_phase(bench, OrderPhase.HELD)
        assert found.progress is not None
        assert "zone b is held" in found.progress.why
        assert (found.progress.ledgers, found.progress.ledgers_left) == (2, 2)
        await asyncio.sleep(60)
        assert bench.metrics.all_bytes_moved == 0
        assert [one async for one in underreplication.ids(bench.cluster)] == []
        assert phase_of(await standing(bench)) is OrderPhase.HELD
        await bench.open("b")
        await until_emptied(bench)


@played(given=rules(repair=SLOW))
async def test_a_bookie_that_dies_while_it_is_drained_is_held_then_recovered_and_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = await on_leaving(bench, 8)
    marked = list[LedgerId]()
    mark = underreplication.mark

    async def counted(
        cluster: Cluster, ledger_id: LedgerId, lost: Collection[BookieId], *, at_ms: int
    ) -> None:
        marked.append(ledger_id)
        await mark(cluster, ledger_id, lost, at_ms=at_ms)

    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        await until_phase(bench, OrderPhase.COPYING)
        await bench.miss(LEAVING)
        await until_phase(bench, OrderPhase.HELD)
        monkeypatch.setattr(underreplication, "mark", counted)
        await asyncio.sleep(10)
        assert bench.view.what_holds_anew(LEAVING) is not None
        assert marked == []
        done = await until_emptied(bench)
        assert done.kind is OrderKind.DRAIN
        assert {"lost"} <= {cause for _, _, cause in bench.moved()}
    await is_left(bench, writers)


@played()
async def test_an_order_that_is_given_twice_is_one_order(bench: Bench) -> None:
    await on_leaving(bench, 1)
    first = await give(bench, OrderKind.DRAIN, token="t1")
    assert await give(bench, OrderKind.DRAIN, token="t2") == first
    async with kept(bench):
        done = await until_emptied(bench)
        assert await give(bench, OrderKind.DRAIN, token="t3") == done
    assert [kind for kind, _ in await told(bench)] == ["draining", "drained"]


@played()
async def test_a_bookie_that_nobody_knows_or_that_is_lost_is_refused(bench: Bench) -> None:
    for kind in OrderKind:
        with pytest.raises(RefusedError, match="there is no bookie bk-z-9"):
            await give(bench, kind, bookie=BookieId("bk-z-9"))
    await on_leaving(bench, 1)
    await bench.lose(LEAVING)
    for kind in (OrderKind.DRAIN, OrderKind.REMOVE):
        with pytest.raises(RefusedError, match=r"not registered.*recover bk-b-0"):
            await give(bench, kind)
    assert (await bookie_records.read(bench.cluster, LEAVING)).draining is None
    assert await standing(bench) is None


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_the_last_bookie_that_an_ensemble_needs_is_refused(bench: Bench) -> None:
    with pytest.raises(RefusedError, match="without bk-b-0 no new ensemble could be built"):
        await give(bench, OrderKind.DRAIN)
    assert not (await bookie_records.read(bench.cluster, LEAVING)).draining


@played(bookies_in={"a": 2, "b": 1, "c": 2})
async def test_what_keeps_a_bookie_is_named_for_a_few_ledgers_and_counted_for_all(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 7)
    async with kept(bench):
        await give(bench, OrderKind.DRAIN)
        found = await until_phase(bench, OrderPhase.STUCK)
        assert found.progress is not None
        assert found.progress.why.startswith("7 ledgers keep bk-b-0: ")
        assert found.progress.why.count("SOFT where it is STRICT") <= 5
        moved_ms = found.progress.moved_ms
        await asyncio.sleep(600)
        later = await standing(bench)
        assert later is not None
        assert later.progress is not None
        assert later.progress.moved_ms == moved_ms, "trying again moves nothing"
        for writer in writers:
            assert LEAVING in (await bench.ledger(writer.ledger_id)).bookies
            assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_ledger_that_cannot_be_read_keeps_the_bookie(bench: Bench) -> None:
    writer = await bench.written(1)
    path = ledgers.path(bench.cluster, writer.ledger_id)
    node = await bench.cluster.store.get(path)
    assert node is not None
    await give(bench, OrderKind.DRAIN)
    await bench.cluster.store.put(path, b"garbage", version=node.version)
    async with kept(bench):
        found = await until_phase(bench, OrderPhase.STUCK)
        assert found.progress is not None
        assert "cannot be read, and may name bk-b-0" in found.progress.why
        await bench.cluster.store.put(path, node.value, version=node.version + 1)
        await until_emptied(bench)


@played()
async def test_a_ledger_that_is_made_late_by_a_client_who_did_not_know_is_found(
    bench: Bench,
) -> None:
    (writer,) = await on_leaving(bench, 1)
    empty = dataclasses.replace(
        await bench.ledger(writer.ledger_id), last_entry=NO_ENTRY, length=0, create_token=11
    )
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        await until_phase(bench, OrderPhase.COPYING)
        stored = await ledgers.create(bench.cluster, empty)
        assert LEAVING in stored.metadata.bookies
        await until_emptied(bench)
    assert LEAVING not in (await bench.ledger(stored.id)).bookies


@played()
async def test_a_bookie_that_refuses_to_be_made_read_only_is_drained_all_the_same(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 2)

    async def refuse(*, read_only: bool) -> None:
        raise errors.UnauthorizedAccess(f"the test's: {read_only}")

    door = bench.lab.door(LEAVING)
    setattr(door, "set_read_only", refuse)  # noqa: B010 mypy holds methods to be fixed
    await give(bench, OrderKind.DRAIN)
    async with kept(bench):
        done = await until_emptied(bench)
        assert done.read_only is False
    await is_left(bench, writers)
    assert await bench.claimed() == []


@played()
async def test_a_worker_that_died_before_it_made_the_bookie_read_only_is_made_good(
    bench: Bench,
) -> None:
    await give(bench, OrderKind.DRAIN)
    await order_records.change(
        bench.cluster,
        LEAVING,
        lambda state: OrderChange(
            order=state.order and dataclasses.replace(state.order, read_only=True),
            record=state.record,
        ),
    )
    async with kept(bench):
        await until_emptied(bench)
        assert await is_read_only(bench)


# ── orders of other releases ──


@played()
async def test_a_bookie_that_an_older_release_left_draining_is_drained_on_and_not_forgotten(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 2)
    mark = Mark(at_ms=3, by="ann", reason="of old")
    await bookie_records.drain(bench.cluster, LEAVING, mark)
    async with kept(bench):
        done = await until_emptied(bench)
        assert (done.kind, done.given.by, done.given.reason) == (OrderKind.DRAIN, "ann", "of old")
        await is_left(bench, writers)
        await bench.lab.machines[LEAVING].crash()
        await asyncio.sleep(120)
        assert await has_cookie(bench)
        await give(bench, OrderKind.REMOVE)
        await until_over(bench)
        assert not await has_cookie(bench)


@played()
async def test_a_mark_that_is_gone_by_now_gives_no_order(bench: Bench) -> None:
    """The keeper's view is behind: it shows a mark that the store has no more."""
    await bookie_records.drain(bench.cluster, LEAVING, Mark(at_ms=3, by="ann", reason="of old"))
    await bench.until(lambda: bench.view.bookie_records[LEAVING].draining is not None)
    bench.see_nothing_new()
    await bookie_records.drain(bench.cluster, LEAVING, None)
    async with kept(bench):
        await asyncio.sleep(60)
        assert await standing(bench) is None


@played()
async def test_an_order_whose_mark_an_older_release_removed_is_taken_back(bench: Bench) -> None:
    await on_leaving(bench, 1)
    await bench.hold("b")
    await give(bench, OrderKind.REMOVE)
    async with kept(bench):
        await until_phase(bench, OrderPhase.HELD)
        assert await is_read_only(bench)
        await bookie_records.drain(bench.cluster, LEAVING, None)
        await until_over(bench)
        assert not await is_read_only(bench)


@played()
async def test_an_order_of_a_newer_release_is_left_alone_and_so_is_its_bookie(
    bench: Bench,
) -> None:
    await on_leaving(bench, 1)
    await give(bench, OrderKind.REMOVE)
    path = order_records.path(bench.cluster, LEAVING)
    node = await bench.cluster.store.get(path)
    assert node is not None
    newer = node.value.replace(b'"kind":"remove"', b'"kind":"refill"')
    await bench.cluster.store.put(path, newer, version=node.version)
    async with kept(bench) as keeper:
        await asyncio.sleep(60)
        assert keeper.unreadable == (LEAVING,)
        assert bench.metrics.all_bytes_moved == 0
        assert not await is_read_only(bench)
        node = await bench.cluster.store.get(path)
        assert node is not None
        assert node.value == newer


@played()
async def test_fields_of_a_newer_release_outlive_the_work(bench: Bench) -> None:
    await on_leaving(bench, 1)
    await give(bench, OrderKind.DRAIN)
    await order_records.change(
        bench.cluster,
        LEAVING,
        lambda state: OrderChange(
            order=state.order and dataclasses.replace(state.order, unknown='{"hurry": 3}'),
            record=state.record,
        ),
    )
    async with kept(bench):
        done = await until_emptied(bench)
    assert done.unknown == '{"hurry": 3}'
    assert done.given == ANNA


@played()
async def test_a_keeper_for_one_bookie_leaves_the_others_alone(bench: Bench) -> None:
    await give(bench, OrderKind.DRAIN)
    async with kept(bench, only=BookieId("bk-c-0")):
        await asyncio.sleep(60)
        found = await standing(bench)
        assert found is not None
        assert found.progress is None
    async with kept(bench, only=LEAVING):
        await until(bench, lambda one: one is not None and one.emptied_ms is not None)
