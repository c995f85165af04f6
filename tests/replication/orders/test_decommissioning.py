"""A bookie that is there is emptied and removed, by an order that may be cut short and repeated."""

import asyncio
import dataclasses
from collections.abc import Collection, Coroutine

import pytest

from tests.replication.repair.test_replicator import replicating
from tests.replication.repair_lab import Bench, played, rules
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, LedgerId
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.orders import decommissioning, emptying
from zonekeeper.replication.orders.orders import NotEmptiedError, Order, OrderProgress, Phase
from zonekeeper.wire.formats import errors

LEAVING = BookieId("bk-b-0")


class Told:
    """Hears of an order's progress."""

    def __init__(self) -> None:
        self.all: list[OrderProgress] = []

    def __call__(self, progress: OrderProgress) -> None:
        self.all.append(progress)

    @property
    def phases(self) -> list[Phase]:
        """The phases in order, each stretch of one once."""
        phases = [progress.phase for progress in self.all]
        return [one for at, one in enumerate(phases) if at == 0 or phases[at - 1] is not one]


def order(bookie: BookieId, told: Told) -> Order:
    return Order(bookie=bookie, by="anna", reason="a smaller zone", wall_ms=lambda: 7, report=told)


async def on_leaving(bench: Bench, count: int, *, closed: bool = True) -> list[Writer]:
    """So many ledgers that name the bookie that is to leave."""
    found: list[Writer] = []
    while len(found) < count:
        writer = await bench.written(5, closed=closed)
        if LEAVING in writer.ensemble:
            found.append(writer)
    return found


@played()
async def test_a_bookie_is_drained_stopped_and_forgotten_and_every_entry_keeps_its_copies(
    bench: Bench,
) -> None:
    writers, told = await on_leaving(bench, 3), Told()

    def report(progress: OrderProgress) -> None:
        told(progress)
        machine = bench.lab.machines[LEAVING]
        if progress.phase is Phase.STOPPING and machine.door is not None:
            bench.tasks.create_task(machine.crash())

    stopping = dataclasses.replace(order(LEAVING, told), report=report)
    await decommissioning.decommission(bench.repairer, stopping)
    for writer in writers:
        assert await bench.lacks(writer.ledger_id) == []
        assert LEAVING not in (await bench.ledger(writer.ledger_id)).bookies
    assert await cookie_store.read(bench.cluster, LEAVING) is None
    assert (await bookie_records.read(bench.cluster, LEAVING)).draining is None
    assert told.phases[-2:] == [Phase.STOPPING, Phase.DONE]
    assert max(progress.done for progress in told.all) == 3
    assert {cause for _, _, cause in bench.moved()} == {"draining"}
    kinds = [event.kind for event in await timeline.newest(bench.cluster)]
    assert kinds == ["removed", "drained", "draining"]


@played()
async def test_a_drain_makes_the_bookie_read_only_so_that_writers_go_elsewhere(
    bench: Bench,
) -> None:
    (writer,) = await on_leaving(bench, 1, closed=False)
    drain = bench.tasks.create_task(decommissioning.drain(bench.repairer, order(LEAVING, Told())))
    await asyncio.sleep(1)
    for _ in range(10):
        await writer.append_and_wait(b"more")
        await asyncio.sleep(0.2)
    await drain
    assert LEAVING not in (await bench.ledger(writer.ledger_id)).bookies
    assert bench.metrics.ledgers_recovered == 0
    await writer.append_and_wait(b"still mine")
    await writer.close()


@played()
async def test_new_ledgers_avoid_a_draining_bookie_even_if_it_cannot_be_told(bench: Bench) -> None:
    bench.lab.network.cut("repairer", LEAVING)
    await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
    for _ in range(12):
        writer = await bench.client.create()
        assert LEAVING not in writer.ensemble
        await writer.close()


@played()
async def test_an_order_that_was_cut_short_goes_on_where_it_stopped(bench: Bench) -> None:
    writers = await on_leaving(bench, 6)
    doors = [m.doorway for m in bench.lab.machines.values() if m.id != LEAVING]
    first = bench.tasks.create_task(decommissioning.drain(bench.repairer, order(LEAVING, Told())))
    await bench.until(lambda: bench.metrics.ledgers_repaired >= 1)
    for door in doors:
        door.holding = True
    first.cancel()
    await asyncio.wait([first])
    for door in doors:
        door.release()
    assert await bench.claimed() == []
    await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
    for writer in writers:
        assert await bench.lacks(writer.ledger_id) == []
    assert not await emptying.naming(bench.cluster, LEAVING)


@played()
async def test_a_drain_and_replicators_work_together_and_no_copy_is_made_twice(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 6)
    async with replicating(bench) as replicator:
        await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
        swaps = bench.metrics.fragments_swapped + replicator.metrics.fragments_swapped
    assert swaps == len(writers)
    for writer in writers:
        assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_drain_waits_while_the_zone_is_held_and_says_so(bench: Bench) -> None:
    await on_leaving(bench, 2)
    await bench.hold("b")
    told = Told()
    drain = bench.tasks.create_task(decommissioning.drain(bench.repairer, order(LEAVING, told)))
    await asyncio.sleep(60)
    assert bench.metrics.all_bytes_moved == 0
    assert told.phases[-1] is Phase.HELD
    assert [one async for one in underreplication.ids(bench.cluster)] == []
    await bench.open("b")
    await drain


SLOW = RepairRules(bytes_per_second=2_048, respread_bytes_per_second=0)


@played(given=rules(repair=SLOW))
async def test_a_drain_whose_bookie_dies_marks_and_lists_nothing_until_it_is_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await on_leaving(bench, 8)
    told, marked = Told(), list[LedgerId]()
    mark = underreplication.mark

    async def counted(
        cluster: Cluster, ledger_id: LedgerId, lost: Collection[BookieId], *, at_ms: int
    ) -> None:
        marked.append(ledger_id)
        await mark(cluster, ledger_id, lost, at_ms=at_ms)

    drain = bench.tasks.create_task(decommissioning.drain(bench.repairer, order(LEAVING, told)))
    await bench.until(lambda: Phase.COPYING in told.phases)
    await bench.miss(LEAVING)
    await bench.until(lambda: told.phases[-1] is Phase.HELD)
    monkeypatch.setattr(underreplication, "mark", counted)
    before = len(told.phases)
    await asyncio.sleep(10)
    assert bench.view.what_holds_anew(LEAVING) is not None
    assert (marked, told.phases[before:]) == ([], [])
    await bench.until(drain.done)
    assert marked


@played()
async def test_a_drain_that_is_taken_back_ends(bench: Bench) -> None:
    await on_leaving(bench, 2)
    await bench.hold("b")
    drain = bench.tasks.create_task(
        _refused(decommissioning.drain(bench.repairer, order(LEAVING, Told())))
    )
    await asyncio.sleep(5)
    await bookie_records.drain(bench.cluster, LEAVING, None)
    assert "not draining any more" in await drain
    assert bench.metrics.all_bytes_moved == 0


async def _refused(work: Coroutine[None, None, None]) -> str:
    with pytest.raises(RefusedError) as refused:
        await work
    return str(refused.value)


@played()
async def test_a_bookie_that_nobody_knows_or_that_is_lost_is_refused(bench: Bench) -> None:
    with pytest.raises(RefusedError, match="there is no bookie bk-z-9"):
        await decommissioning.drain(bench.repairer, order(BookieId("bk-z-9"), Told()))
    await on_leaving(bench, 1)
    await bench.lose(LEAVING)
    with pytest.raises(RefusedError, match=r"not registered.*recover bk-b-0"):
        await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
    assert (await bookie_records.read(bench.cluster, LEAVING)).draining is None


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_the_last_bookie_that_an_ensemble_needs_is_refused(bench: Bench) -> None:
    with pytest.raises(RefusedError, match="without bk-b-0 no new ensemble could be built"):
        await decommissioning.check(bench.repairer, LEAVING)
    assert not (await bookie_records.read(bench.cluster, LEAVING)).draining


@played(bookies_in={"a": 2, "b": 1, "c": 2})
async def test_a_ledger_that_would_be_spread_worse_keeps_the_bookie_and_is_named(
    bench: Bench,
) -> None:
    (writer,) = await on_leaving(bench, 1)
    with pytest.raises(NotEmptiedError, match=f"ledger {writer.ledger_id}:.*SOFT.*STRICT"):
        await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
    assert LEAVING in (await bench.ledger(writer.ledger_id)).bookies
    assert await bench.lacks(writer.ledger_id) == []


@played()
async def test_a_bookie_is_not_removed_while_it_runs_or_while_a_ledger_names_it(
    bench: Bench,
) -> None:
    (writer,) = await on_leaving(bench, 1)
    with pytest.raises(RefusedError, match="stop it"):
        await decommissioning.remove(bench.repairer, order(LEAVING, Told()))
    await bench.lose(LEAVING)
    with pytest.raises(RefusedError, match=f"1 ledgers name bk-b-0, ledger {writer.ledger_id}"):
        await decommissioning.remove(bench.repairer, order(LEAVING, Told()))
    assert await cookie_store.read(bench.cluster, LEAVING) is not None


@played()
async def test_a_ledger_that_cannot_be_read_keeps_the_cookie(bench: Bench) -> None:
    writer = await bench.written(1)
    path = ledgers.path(bench.cluster, writer.ledger_id)
    node = await bench.cluster.store.get(path)
    assert node is not None
    await bench.cluster.store.put(path, b"garbage", version=node.version)
    with pytest.raises(NotEmptiedError, match="cannot be read, and may name bk-b-0"):
        await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
    assert await cookie_store.read(bench.cluster, LEAVING) is not None


@played()
async def test_a_ledger_that_is_made_late_by_a_client_who_did_not_know_is_found(
    bench: Bench,
) -> None:
    (writer,) = await on_leaving(bench, 1)
    empty = dataclasses.replace(
        await bench.ledger(writer.ledger_id), last_entry=NO_ENTRY, length=0, create_token=11
    )
    late: list[asyncio.Task[StoredLedger]] = []

    def report(progress: OrderProgress) -> None:
        if progress.phase is Phase.COPYING and not late:
            late.append(bench.tasks.create_task(ledgers.create(bench.cluster, empty)))

    told = dataclasses.replace(order(LEAVING, Told()), report=report)
    await decommissioning.drain(bench.repairer, told)
    stored = late[0].result()
    assert LEAVING in stored.metadata.bookies
    assert LEAVING not in (await bench.ledger(stored.id)).bookies


@played()
async def test_somebody_who_refuses_to_be_made_read_only_is_drained_all_the_same(
    bench: Bench,
) -> None:
    writers = await on_leaving(bench, 2)

    async def refuse(*, read_only: bool) -> None:
        raise errors.UnauthorizedAccess(f"the test's: {read_only}")

    door = bench.lab.door(LEAVING)
    setattr(door, "set_read_only", refuse)  # noqa: B010 mypy holds methods to be fixed
    await decommissioning.drain(bench.repairer, order(LEAVING, Told()))
    for writer in writers:
        assert LEAVING not in (await bench.ledger(writer.ledger_id)).bookies
    assert await bench.claimed() == []
