"""Whoever watches, and whatever the clocks show: the record goes on, nothing opens too early."""

import pytest

from tests.placement.zone_world import (
    HOUR,
    MINUTE,
    SECOND,
    A,
    B,
    C,
    World,
    members,
    policy,
    reread,
    settled,
    where,
)
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.policy.rules import OnZoneLoss, RepairRules, ZoneWatchRules
from zonekeeper.placement.zones import counted_time, watch
from zonekeeper.placement.zones.counted_time import Watcher
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.watch import Sighting
from zonekeeper.placement.zones.zone_effects import Alert, Noted

AFTER = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=6 * HOUR)
HELD, RELEASED, OPEN = Permission.HELD, Permission.RELEASED, Permission.OPEN


# ── the first start ──


def test_at_the_first_start_everything_is_held_until_the_grace_is_over() -> None:
    world = World()
    world.come([*members(A), *members(B), *members(C)])
    assert world.state(A) == (Observation.UNKNOWN, HELD)
    world.wait(5 * MINUTE - SECOND)
    assert world.state(A) == (Observation.UNKNOWN, HELD)
    assert world.permission(None) is HELD

    world.wait(SECOND)
    assert world.state(A) == (Observation.UP, OPEN)
    assert world.permission(None) is OPEN


def test_a_zone_that_is_gone_at_the_first_start_is_never_open() -> None:
    world = World()
    world.come([*members(A), *members(B), *members(C)])
    world.lose(members(A))
    for _ in range(60):
        world.wait(10 * SECOND)
        assert world.permission(A) is HELD

    assert world.zone(A).observed.state is Observation.DOWN


def test_a_zone_that_is_new_later_is_judged_at_once() -> None:
    world = settled()
    new = ZoneName("d")
    world.come(members(new))

    assert world.state(new) == (Observation.UP, OPEN)


def test_a_zone_of_the_policy_without_a_bookie_is_up_and_harms_nobody() -> None:
    world = settled(policy(zones=(A, B, ZoneName("empty"))), per_zone=10)
    for bookie in members(ZoneName("empty")):
        del world.present[bookie]
    world.wait(MINUTE)

    assert world.state(ZoneName("empty")) == (Observation.UP, OPEN)


# ── a new watch ──


def test_a_new_watch_goes_on_with_the_debounce() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(40 * SECOND)
    world.change_watcher()
    assert world.state(A) == (Observation.SUSPECT, HELD)
    world.wait(20 * SECOND)

    assert world.state(A) == (Observation.DOWN, HELD)


def test_a_new_watch_goes_on_with_the_hold_up_and_the_times_down() -> None:
    world = settled()
    for _ in range(2):
        world.lose(members(A))
        world.wait(2 * MINUTE)
        world.come(members(A))
    assert world.zone(A).observed.hold_up_ms == 10 * MINUTE
    world.wait(8 * MINUTE)
    world.change_watcher()
    world.wait(2 * MINUTE)
    assert world.state(A) == (Observation.UP, HELD)  # back, but this watch is in its grace
    world.wait(3 * MINUTE)

    assert world.state(A) == (Observation.UP, OPEN)


def test_in_its_start_grace_a_new_watch_holds_and_opens_nothing() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(30 * SECOND)
    world.change_watcher()
    world.come(members(A))
    world.lose(members(B))

    assert world.state(A) == (Observation.UP, HELD)
    assert world.permission(B) is HELD
    assert world.permission(C) is OPEN  # nothing is taken from who was open
    world.wait(5 * MINUTE)
    assert world.permission(A) is OPEN


def test_a_release_outlives_the_watch_and_not_the_incident() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(10 * MINUTE)
    world.release(A)
    world.change_watcher()
    world.wait(10 * MINUTE)
    assert world.permission(A) is RELEASED

    world.come(members(A))
    world.wait(10 * MINUTE)
    assert world.permission(A) is OPEN
    world.lose(members(A))
    assert world.permission(A) is HELD


def test_a_release_ends_with_its_incident_even_where_the_new_watch_may_not_open() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(10 * MINUTE)
    world.release(A)
    world.come(members(A))
    world.wait(5 * MINUTE - SECOND)
    world.change_watcher()
    world.wait(10 * SECOND)
    assert world.state(A) == (Observation.UP, RELEASED)

    world.lose(members(A))
    assert world.state(A) == (Observation.SUSPECT, HELD)


def test_a_persons_hold_outlives_any_number_of_watches() -> None:
    world = settled()
    world.hold(A)
    for clock_ms in (0, 10**12, 3):
        world.change_watcher(clock_ms)
        world.wait(20 * MINUTE)

    assert world.permission(A) is HELD
    world.release(A)
    assert world.permission(A) is OPEN


# ── held time ──


def held_until_released(world: World) -> int:
    """Wait for the owner's rule; give the time that it took."""
    began_ms = world.now_ms
    while world.permission(A) is HELD:
        world.wait(10 * SECOND)
        assert world.now_ms < began_ms + 24 * HOUR
    return world.now_ms - began_ms


def test_repair_after_opens_at_its_time() -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))

    assert held_until_released(world) == 6 * HOUR
    assert sorted(world.published) == members(A)


def test_repair_after_opens_at_its_time_though_the_zone_is_on_its_way_back() -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))
    world.wait(6 * HOUR - 2 * MINUTE)
    world.come(members(A, *range(9)))
    world.wait(2 * MINUTE - SECOND)
    assert world.state(A) == (Observation.RETURNING, HELD)
    world.wait(SECOND)

    assert world.state(A) == (Observation.RETURNING, RELEASED)


def test_a_flapping_zone_does_not_hold_for_ever_under_repair_after() -> None:
    world = settled(policy(repair=AFTER))
    began_ms = world.now_ms
    while world.permission(A) is not RELEASED:
        world.lose(members(A))
        world.wait(90 * SECOND)
        world.come(members(A))
        world.wait(90 * SECOND)

    assert world.now_ms - began_ms <= 6 * HOUR + 3 * MINUTE


def test_a_change_of_watcher_neither_restarts_nor_ends_the_held_time() -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))
    for clock_ms in (10**12, 0, 10**6, 77):
        world.wait(HOUR)
        world.change_watcher(clock_ms)

    assert held_until_released(world) == 2 * HOUR


@pytest.mark.parametrize("jump_ms", [100 * HOUR, -100 * HOUR])
def test_a_jump_of_the_clock_neither_restarts_nor_ends_the_held_time(jump_ms: int) -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))
    world.wait(3 * HOUR)
    world.watch_clock_ms += jump_ms

    assert held_until_released(world) == 3 * HOUR + 10 * SECOND


def test_time_that_nobody_watched_is_not_held_time() -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))
    world.wait(2 * HOUR)
    world.watching = False
    world.wait(50 * HOUR, every_ms=MINUTE)
    assert not world.published
    world.watching = True

    assert held_until_released(world) == 4 * HOUR + 10 * SECOND


def test_a_watch_that_could_not_write_does_not_count_that_step() -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))
    world.wait(HOUR)
    unwritten = world.health.zones
    world.wait(10 * SECOND)
    world.health = watch.Health(
        watcher=world.health.watcher,
        made=world.health.made,
        zones=unwritten,
        cluster=world.health.cluster,
    )
    world.wait(20 * SECOND)

    assert world.zone(A).gate.held_ms == HOUR + 10 * SECOND


def test_two_watches_at_once_count_too_little_and_never_too_much() -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))
    began_ms = world.now_ms
    gone = [
        Bookie(id=bookie, location=where(bookie), registration=Registration.ABSENT)
        for bookie in members(A)
    ]
    there = [Bookie(id=bookie, location=where(bookie)) for bookie in [*members(B), *members(C)]]
    bookies = Topology([*gone, *there])
    other = reread(world.health)
    for _ in range(100):
        world.wait(10 * SECOND)
        mine = world.health
        other = watch.Health(
            watcher=other.watcher, made=other.made, zones=mine.zones, cluster=mine.cluster
        )
        other, _ = watch.evaluate(
            other, Sighting(bookies=bookies), world.policy, now_ms=world.now_ms, wall_ms=0
        )
        world.health = watch.Health(
            watcher=mine.watcher, made=mine.made, zones=other.zones, cluster=other.cluster
        )

    assert world.permission(A) is HELD
    assert world.zone(A).gate.held_ms <= world.now_ms - began_ms


# ── gaps ──


def test_a_gap_makes_a_watch_as_cold_as_a_new_one() -> None:
    rules = ZoneWatchRules()
    watcher, moment = Watcher(), None
    for now_ms in range(0, 301_000, 10_000):
        watcher, moment = counted_time.look(watcher, rules, now_ms=now_ms, wall_ms=0)
    assert moment is not None
    assert not moment.in_grace

    longest_ms = counted_time.longest_step_ms(rules)
    same, still = counted_time.look(watcher, rules, now_ms=300_000 + longest_ms, wall_ms=0)
    assert (still.step_ms, still.in_grace, same.watched_ms) == (
        longest_ms,
        False,
        300_000 + longest_ms,
    )
    for gap_ms in (longest_ms + 1, -1):
        _, cold = counted_time.look(watcher, rules, now_ms=300_000 + gap_ms, wall_ms=0)
        assert (cold.step_ms, cold.in_grace) == (0, True)


def test_after_a_gap_nothing_opens_before_a_whole_grace() -> None:
    world = settled()
    world.lose(members(A))
    world.watching = False
    world.wait(10 * MINUTE)
    world.watching = True
    world.come(members(A))
    assert world.state(A) == (Observation.UP, HELD)
    world.wait(5 * MINUTE - SECOND)
    assert world.permission(A) is HELD
    world.wait(SECOND)

    assert world.permission(A) is OPEN


# ── what people are told ──


def test_a_hold_is_brought_to_mind_again_and_again() -> None:
    world = settled()
    world.lose(members(A))
    began_ms = world.now_ms
    world.wait(3 * HOUR + MINUTE)

    assert world.reminders() == [began_ms + hours * HOUR for hours in (1, 2, 3)]


def test_a_doubt_is_no_reason_to_remind_anybody() -> None:
    rules = policy(ZoneWatchRules(suspect_for_ms=5 * MINUTE), RepairRules(remind_every_ms=MINUTE))
    world = settled(rules)
    world.lose(members(A))
    world.wait(5 * MINUTE - SECOND)
    assert world.state(A) == (Observation.SUSPECT, HELD)
    assert not world.reminders()

    world.wait(MINUTE)
    assert world.reminders()


def test_the_timeline_says_what_changed_with_the_numbers() -> None:
    world = settled()
    world.lose(members(A, *range(7)))
    world.wait(MINUTE)
    world.come(members(A))
    world.wait(5 * MINUTE)
    lines = [effect.text for _, effect in world.happened if isinstance(effect, Noted)]

    assert lines == [
        "up → suspect: 3 of 10 bookies available, at or under the low mark 0.5, 7 lost",
        "repair open → held: zone a is suspect: 3 of 10 bookies available, at or under the low "
        "mark 0.5, 7 lost",
        "suspect → down: 3 of 10 bookies available, failing for 1m",
        "down → returning: 10 of 10 bookies available, at or over the high mark 0.9; held up "
        "for 5m",
        "returning → up: 10 of 10 bookies available, at or over the high mark 0.9, for 5m",
        "repair held → open: zone a is up: 10 of 10 bookies available, at or over the high mark "
        "0.9, for 5m; was held for 6m",
    ]


def test_alerts_are_cleared_by_whoever_watches_then() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(2 * MINUTE)
    world.change_watcher()
    assert len(world.raised(Alert.ZONE_DOWN)) == 1
    world.come(members(A))
    world.wait(10 * MINUTE)

    assert len(world.raised(Alert.ZONE_DOWN)) == len(world.cleared(Alert.ZONE_DOWN)) == 1


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0s"),
        (999, "0s"),
        (90 * SECOND, "1m 30s"),
        (HOUR, "1h"),
        (HOUR + 5 * SECOND, "1h"),
        (50 * HOUR + 3 * MINUTE + SECOND, "2d 2h"),
    ],
)
def test_durations_are_said_in_two_units(duration_ms: int, text: str) -> None:
    assert counted_time.spelled(duration_ms) == text
