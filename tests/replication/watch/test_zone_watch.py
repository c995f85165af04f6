"""The zone watch at work, and what goes wrong with it: cut off, bad weather, two at once.

What it makes of outages is told in ``tests/zone_scenarios``.
"""

import itertools
import logging

import pytest

from tests.replication.gate_world import (
    MINUTE,
    SECOND,
    A,
    B,
    GateWorld,
    Watch,
    members,
    played,
    policy,
)
from zonekeeper.metadata.cluster import repair_controls, timeline
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import PublishedRoom, ServiceInfo
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind
from zonekeeper.placement.policy.rules import RepairRules, RepairScope, Resume
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation

_DOWN_HELD = (Observation.DOWN, Permission.HELD)
_SUSPECT_HELD = (Observation.SUSPECT, Permission.HELD)
_UP_OPEN = (Observation.UP, Permission.OPEN)

#: One zone down turns automatic replication off, until a person turns it on again.
_BY_THE_SWITCH = policy(repair=RepairRules(scope=RepairScope.CLUSTER, resume=Resume.MANUAL))


# ── standing in ──


@played()
async def test_a_stand_in_watches_after_a_while_and_is_not_pre_empted(world: GateWorld) -> None:
    stand_in = await world.watched_by("stand-in", stands_in=True)
    await world.wait(2 * MINUTE)
    assert not stand_in.leads
    await world.watches[0].kill()
    await world.wait(50 * SECOND)
    assert not stand_in.leads
    await world.wait(40 * SECOND)  # the session, then standInAfter
    assert stand_in.leads

    await world.watched_by("watch-2")
    await world.lose(members(A))
    await world.wait(2 * MINUTE)
    assert stand_in.leads
    assert await world.state(A) == _DOWN_HELD


@played()
async def test_a_room_that_moves_is_no_reason_to_evaluate(world: GateWorld) -> None:
    # S129: rooms move all the time, and counters of evaluations are what others wait for.
    watch = world.watches[0]
    await world.wait(MINUTE)
    topology, made = watch.view.topology, watch.watch.counters.evaluations_total
    for number in range(12):
        for bookie in members(A):
            room = PublishedRoom(free_bytes=number, total_bytes=100)
            info = ServiceInfo(endpoints=()).with_room(room)
            await world.put(world.cluster.root.writable(bookie), service_info.render(info))
        await world.wait(5 * SECOND)
    assert watch.view.topology is not topology, "the view has heard of it"
    assert watch.watch.counters.evaluations_total <= made + 3, "a minute, evaluated every 30 s"


# ── cut off ──


@played()
async def test_a_watch_that_is_cut_off_evaluates_nothing_and_another_sees_the_zones_as_they_are(
    world: GateWorld,
) -> None:
    first = world.watches[0]
    second = await world.watched_by("watch-2")
    first.store.cut()
    await world.wait(SECOND)
    assert not first.leads
    made = first.watch.counters.evaluations_total
    await world.wait(MINUTE)
    assert second.leads
    assert first.watch.counters.evaluations_total == made
    assert await world.state(A) == _UP_OPEN


@played()
async def test_a_watch_that_was_cut_off_judges_by_who_is_there_now(world: GateWorld) -> None:
    """Its view may still show the bookies as they were when it was cut off."""
    first = world.watches[0]
    first.store.cut()
    await world.lose(members(A))
    await world.wait(5 * SECOND)  # less than the session's time: it leads again at once
    before = (await world.zone(A)).evaluation
    first.store.mend()
    await world.until(lambda: _evaluated_after(world, before), within_ms=MINUTE)
    assert await world.state(A) == _SUSPECT_HELD


async def _evaluated_after(world: GateWorld, evaluation: int) -> bool:
    return (await world.zone(A)).evaluation > evaluation


@played()
async def test_an_observer_that_was_cut_off_waits_until_it_sees_an_evaluation(
    world: GateWorld,
) -> None:
    await world.lose(members(B, 0))
    await world.wait(6 * MINUTE)
    assert world.publishable() == members(B, 0)
    store = world.observer_store
    store.cut()
    await world.wait(SECOND)
    assert world.publishable() == []
    store.mend()
    await world.wait(SECOND)
    assert world.publishable() == []
    await world.wait(MINUTE)
    assert world.publishable() == members(B, 0)


@played()
async def test_a_loss_grows_no_older_while_the_observer_is_cut_off(world: GateWorld) -> None:
    await world.lose(members(B, 0))
    await world.wait(MINUTE)
    world.observer_store.cut()
    await world.wait(10 * MINUTE)
    world.observer_store.mend()
    await world.wait(MINUTE)
    held = world.observer.what_holds_publishing(members(B, 0)[0])
    assert held is not None
    assert held.by is HeldBy.RECOVERY_DELAY


# ── the switch ──


@played(rules=_BY_THE_SWITCH)
async def test_s108_enabling_at_the_very_moment_it_was_switched_off_is_still_seen(
    world: GateWorld,
) -> None:
    """The evaluation behind the switch has seen it off: a person's hand is told from its own."""
    await world.lose(members(A))
    async with repair_controls.watch_enabled(world.cluster) as states:
        await anext(state async for state in states if not state)
    await repair_controls.set_enabled(world.cluster, enabled=True)
    await world.wait(31 * SECOND)
    assert await world.enabled()
    assert await world.state(A) == (Observation.DOWN, Permission.RELEASED)


# ── bad weather ──


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("every", [2, 3, 5])
@played(rules=_BY_THE_SWITCH)
async def test_answers_and_requests_that_are_lost_change_nothing_in_the_end(
    world: GateWorld, loss: ExchangeLoss, every: int
) -> None:
    numbers = itertools.count()

    def weather(kind: RequestKind) -> Passage:
        lost = kind is RequestKind.WRITE and next(numbers) % every == 0
        return Passage(loss=loss if lost else ExchangeLoss.NOTHING)

    world.watches[0].store.weather = weather
    await world.lose(members(A))
    await world.wait(5 * MINUTE)
    assert await world.state(A) == _DOWN_HELD
    assert not await world.enabled()
    await world.come(members(A))
    await world.wait(20 * MINUTE)
    assert (await world.zone(A)).observed.state is Observation.UP
    assert world.publishable() == []
    tokens = [event.token for event in await timeline.newest(world.cluster)]
    assert len(tokens) == len(set(tokens)), "no event is told twice"


@played()
async def test_a_watch_whose_reads_lag_is_late_and_not_wrong(world: GateWorld) -> None:
    world.watches[0].store.read_lag_ms = 2 * SECOND
    await world.lose(members(A))
    await world.wait(3 * SECOND)
    assert await world.state(A) == _SUSPECT_HELD
    await world.wait(2 * MINUTE)
    assert await world.state(A) == _DOWN_HELD
    assert world.publishable() == []


@played()
async def test_a_session_that_ends_costs_the_lead_and_nothing_else(world: GateWorld) -> None:
    await world.lose(members(A))
    await world.wait(2 * MINUTE)
    held_ms = (await world.zone(A)).gate.held_ms
    session = world.watches[0].store.session.id
    assert session is not None
    world.server.expire(session)
    await world.wait(2 * MINUTE)
    assert world.watches[0].leads
    record = await world.zone(A)
    assert (record.observed.state, record.gate.permission) == _DOWN_HELD
    assert record.gate.held_ms > held_ms


@played()
async def test_a_jump_of_the_wall_clock_changes_nothing(world: GateWorld) -> None:
    await world.lose(members(A))
    world.wall_jump_ms = 24 * 60 * MINUTE
    await world.wait(50 * SECOND)
    assert await world.state(A) == _SUSPECT_HELD
    world.wall_jump_ms = -24 * 60 * MINUTE
    await world.wait(50 * SECOND)
    assert await world.state(A) == _DOWN_HELD
    assert (await world.zone(A)).gate.held_ms < 2 * MINUTE


# ── two at once, and records that cannot be read ──


@played()
async def test_two_watches_at_the_same_time_count_too_little_and_never_too_much(
    world: GateWorld,
) -> None:
    second = Watch(world, "rogue", stands_in=False)
    world.watches.append(second)
    await second.view.known()
    leadership = second.watch_as_if_elected(world)
    await world.lose(members(A))
    await world.wait(5 * MINUTE)
    assert world.publishable() == []
    record = await world.zone(A)
    assert record.gate.permission is Permission.HELD
    assert record.gate.held_ms <= 5 * MINUTE + SECOND
    leadership.cancel()
    await world.wait(3 * MINUTE)
    assert await world.state(A) == _DOWN_HELD


@pytest.mark.parametrize("name", ["zones/a", "cluster", "maintenance/a.ud-0"])
@played()
async def test_a_record_that_cannot_be_read_stops_the_evaluation_and_holds(
    world: GateWorld, name: str
) -> None:
    path = world.cluster.root.beside(name)
    good = await world.put(path, b"{")
    await world.lose(members(B, 0))
    await world.wait(7 * MINUTE)
    assert world.publishable() == []
    assert world.watches[0].watch.counters.skipped_total
    assert await world.put(path, good) == b"{", "what cannot be read is not written over"
    await world.wait(12 * MINUTE)
    assert world.publishable() == members(B, 0)


@played()
async def test_a_release_between_reading_and_writing_is_not_undone(world: GateWorld) -> None:
    await world.lose(members(A))
    await world.wait(2 * MINUTE)
    store = world.watches[0].store
    slow = Passage(there_ms=5 * SECOND)
    store.weather = lambda kind: slow if kind is RequestKind.WRITE else Passage()
    await world.wait(32 * SECOND)  # the watch has read, and its write is on its way
    await world.release(A)
    store.weather = lambda _: Passage()
    await world.wait(MINUTE)
    assert await world.state(A) == (Observation.DOWN, Permission.RELEASED)
    assert world.watches[0].watch.counters.overtaken_total


@played()
async def test_what_was_judged_and_could_not_be_written_is_told_to_nobody(world: GateWorld) -> None:
    store = world.watches[0].store
    slow = Passage(there_ms=3 * SECOND)
    store.weather = lambda kind: slow if kind is RequestKind.WRITE else Passage()
    await world.lose(members(B))  # the watch has judged, and its write is on its way
    await world.hold(B)
    store.weather = lambda _: Passage()
    await world.wait(30 * SECOND)
    assert (await world.zone(B)).observed.state is Observation.SUSPECT
    suspected = [text for text in await world.told_of("changed") if "up → suspect" in text]
    assert len(suspected) == 1


@played()
async def test_who_is_registered_is_read_anew_however_far_the_view_is_behind(
    world: GateWorld,
) -> None:
    world.watches[0].store.read_lag_ms = 20 * SECOND
    await world.wait(MINUTE)
    before = (await world.zone(A)).evaluation
    await world.until(lambda: _evaluated_after(world, before), within_ms=MINUTE)
    await world.wait(25 * SECOND)
    await world.lose(members(A))
    await world.wait(8 * SECOND)  # the next evaluation is over; the view shows the zone yet
    assert len(world.watches[0].view.missing) == 0
    assert await world.state(A) == _SUSPECT_HELD


@played()
async def test_evaluations_that_are_left_out_are_told_when_they_begin_and_when_they_end(
    world: GateWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="zonekeeper.replication.watch")
    path = world.cluster.root.beside("zones/a")
    good = await world.put(path, b"{")
    await world.wait(7 * MINUTE)
    assert world.watches[0].watch.counters.skipped_total > 1
    assert good is not None
    await world.put(path, good)
    await world.wait(2 * MINUTE)
    told = [text for text in caplog.messages if "evaluated" in text]
    assert [text.partition(",")[0] for text in told] == [
        "nothing is evaluated now",
        "zones are evaluated again",
    ]
