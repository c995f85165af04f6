"""What a repair on Spark may do: the gates that autorecovery asks, before it begins and in it."""

import asyncio

from tests.replication.repair_lab import Bench, played
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.pipeline.planning import repair_holds
from zonekeeper.pipeline.planning.repair_holds import LaterHolds
from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.replication.view.view import View

ZONE_C = [BookieId(f"bk-c-{ordinal}") for ordinal in range(3)]


@played()
async def test_a_zone_that_is_held_is_refused_with_what_to_do(bench: Bench) -> None:
    await bench.miss(*ZONE_C)
    await bench.hold("c")
    holds = await repair_holds.seen(bench.view)
    assert holds.lost == frozenset(ZONE_C)
    assert not holds.permitted
    refusal = holds.refusal
    assert refusal is not None
    assert "zone c is held" in str(refusal)
    assert "zonekeeper autorecovery release" in str(refusal)
    assert str(refusal).count("zone c is held") == 1, "once, and not for each bookie"
    assert refusal.retryable is False


@played()
async def test_after_the_release_what_was_lost_is_permitted(bench: Bench) -> None:
    await bench.lose(*ZONE_C)
    holds = await repair_holds.seen(bench.view)
    assert holds.refusal is None
    assert holds.permitted == frozenset(ZONE_C)


@played()
async def test_a_second_zone_that_is_held_does_not_stop_the_first(bench: Bench) -> None:
    other = BookieId("bk-b-0")
    await bench.lose(*ZONE_C, other)
    await bench.hold("b")
    holds = await repair_holds.seen(bench.view)
    assert holds.refusal is None
    assert holds.permitted == frozenset(ZONE_C)
    assert holds.held[other].by is HeldBy.ZONE_HELD
    assert BookieId("bk-b-1") in holds.held, "a doubted copy there is left, too"


@played()
async def test_without_a_loss_the_job_is_about_all_bookies(bench: Bench) -> None:
    await bench.hold("c")
    holds = await repair_holds.seen(bench.view)
    assert holds.refusal is None
    assert holds.permitted == frozenset(
        one.id for one in bench.view.topology if bench.zone(one.id) != "c"
    )
    for zone in ("a", "b"):
        await bench.hold(zone)
    assert (await repair_holds.seen(bench.view)).refusal is not None


@played()
async def test_what_was_written_off_is_no_loss(bench: Bench) -> None:
    await bench.lose(ZONE_C[0])
    await bookie_records.write_off(bench.cluster, ZONE_C[0], Mark(at_ms=0, by="me", reason="x"))
    await bench.until(lambda: ZONE_C[0] in bench.view.written_off)
    assert not (await repair_holds.seen(bench.view)).lost


@played()
async def test_a_new_view_waits_until_the_evaluations_are_seen_to_move(bench: Bench) -> None:
    await bench.lose(*ZONE_C)
    view = View(bench.cluster)
    following = bench.tasks.create_task(view.follow())
    await view.known()
    assert repair_holds.unknown(view) is not None
    assert repair_holds.now(view).refusal is not None, "unknown is not no"
    assert (await repair_holds.seen(view)).refusal is None
    following.cancel()
    await asyncio.wait([following])


@played()
async def test_a_hold_is_waited_for_and_its_end_is_seen(bench: Bench) -> None:
    await bench.lose(*ZONE_C)
    watched = WatchedView(bench.view, lambda: None)
    await repair_holds.until_permitted(watched, ZONE_C)
    await bench.hold("c")
    held = repair_holds.first(bench.view, ZONE_C)
    assert held is not None
    waiting = bench.tasks.create_task(repair_holds.until_permitted(watched, ZONE_C))
    await asyncio.sleep(300)
    assert not waiting.done()
    await bench.open("c")
    await waiting
    await bench.hold("b")
    await repair_holds.until_permitted(watched, ZONE_C)


@played()
async def test_the_driver_tells_only_holds_that_came_after_the_job_had_begun(bench: Bench) -> None:
    other = BookieId("bk-b-0")
    await bench.lose(*ZONE_C, other)
    await bench.hold("b")
    later, view = LaterHolds(), View(bench.cluster)
    following = bench.tasks.create_task(view.follow())
    await view.known()
    assert later.look(view) is None, "nothing is known of it yet"
    await repair_holds.seen(view)
    assert later.look(view) is None, "zone b was held before"
    await bench.gates.hold("c")
    await bench.until(lambda: later.look(view) is not None)
    held = later.look(view)
    assert held is not None
    assert "zone c is held" in held.text
    await bench.gates.open("c")
    await bench.until(lambda: later.look(view) is None)
    following.cancel()
    await asyncio.wait([following])
