"""Time as watches count it: clocks that jump, gaps, steps that were not written, two at once.

How a zone fares under one watch after the other is told in ``tests/zone_scenarios/watches.txt``.
"""

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
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.policy.rules import OnZoneLoss, RepairRules, ZoneWatchRules
from zonekeeper.placement.zones import counted_time, watch
from zonekeeper.placement.zones.counted_time import Watcher
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.watch import Sighting

AFTER = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=6 * HOUR)
HELD, RELEASED, OPEN = Permission.HELD, Permission.RELEASED, Permission.OPEN


# ── held time ──


def held_until_released(world: World) -> int:
    """Wait for the owner's rule; give the time that it took."""
    began_ms = world.now_ms
    while world.permission(A) is HELD:
        world.wait(10 * SECOND)
        assert world.now_ms < began_ms + 24 * HOUR
    return world.now_ms - began_ms


def test_a_flapping_zone_does_not_hold_for_ever_under_repair_after() -> None:
    world = settled(policy(repair=AFTER))
    began_ms = world.now_ms
    while world.permission(A) is not RELEASED:
        world.lose(members(A))
        world.wait(90 * SECOND)
        world.come(members(A))
        world.wait(90 * SECOND)

    assert world.now_ms - began_ms <= 6 * HOUR + 3 * MINUTE


@pytest.mark.parametrize("jump_ms", [100 * HOUR, -100 * HOUR])
def test_a_jump_of_the_clock_neither_restarts_nor_ends_the_held_time(jump_ms: int) -> None:
    world = settled(policy(repair=AFTER))
    world.lose(members(A))
    world.wait(3 * HOUR)
    world.watch_clock_ms += jump_ms

    assert held_until_released(world) == 3 * HOUR + 10 * SECOND


def test_time_in_which_a_watch_stood_still_is_not_held_time() -> None:
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
