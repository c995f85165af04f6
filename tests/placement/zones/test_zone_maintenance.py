"""Planned work: not counted, held, and never for longer than it may."""

from tests.placement.zone_world import (
    HOUR,
    MINUTE,
    SECOND,
    A,
    World,
    members,
    policy,
    settled,
    where,
)
from zonekeeper.placement.policy.rules import ZoneWatchRules
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_effects import EndMaintenance

UNIT_0 = [bookie for bookie in members(A) if where(bookie).upgrade_domain == "ud-0"]
OTHERS = [bookie for bookie in members(A) if bookie not in UNIT_0]


def ended(world: World) -> list[int]:
    """When a declaration was taken away."""
    return [at_ms for at_ms, effect in world.happened if isinstance(effect, EndMaintenance)]


def test_declared_bookies_are_not_counted_and_their_losses_are_held() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    world.lose(UNIT_0)
    world.wait(59 * MINUTE)

    assert world.zone(A).observed.state is Observation.UP
    assert world.zone(A).evidence.in_maintenance == len(UNIT_0)
    held = world.what_holds(UNIT_0[0])
    assert held is not None
    assert held.by is HeldBy.IN_MAINTENANCE
    assert not world.published


def test_other_losses_of_the_zone_are_repaired_meanwhile() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    world.lose([*UNIT_0, OTHERS[0]])
    world.wait(10 * MINUTE)

    assert list(world.published) == OTHERS[:1]


def test_a_unit_that_is_back_in_time_leaves_no_trace() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    world.lose(UNIT_0)
    world.wait(10 * MINUTE)
    world.come(UNIT_0)
    world.maintenance.clear()
    world.wait(10 * MINUTE)

    assert not world.happened
    assert not world.cluster.maintenance


def test_when_it_has_run_out_the_losses_are_new() -> None:
    """Their delay begins then: a hold of the zone has time to come first."""
    world = settled()
    for domain in range(3):
        world.declare(A, domain, lasts_ms=HOUR, token=f"m-{domain}")
    started_ms = world.now_ms
    world.lose(members(A))
    world.wait(2 * HOUR, every_ms=30 * SECOND)

    assert set(ended(world)) == {started_ms + HOUR}
    assert world.zone(A).observed.state is Observation.DOWN
    assert world.zone(A).gate.permission is Permission.HELD
    assert not world.published


def test_one_unit_that_does_not_come_back_becomes_node_losses_after_the_delay() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    started_ms = world.now_ms
    world.lose(UNIT_0)
    world.wait(2 * HOUR, every_ms=30 * SECOND)

    assert world.published == dict.fromkeys(UNIT_0, started_ms + HOUR + 5 * MINUTE)


def test_no_declaration_lasts_longer_than_the_policy_allows() -> None:
    world = settled(policy(ZoneWatchRules(maintenance_max_ms=30 * MINUTE)))
    world.declare(A, 0, lasts_ms=1_000 * HOUR)
    started_ms = world.now_ms
    world.lose(UNIT_0)
    world.wait(HOUR)

    assert ended(world) == [started_ms + 30 * MINUTE]


def test_a_change_of_watcher_neither_restarts_nor_ends_it() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    started_ms = world.now_ms
    world.lose(UNIT_0)
    for clock_ms in (10**12, 0, 5, 10**9):
        world.wait(12 * MINUTE)
        world.change_watcher(clock_ms)
    assert not ended(world)
    world.wait(HOUR)

    assert ended(world) == [started_ms + HOUR]


def test_a_jump_of_the_clock_neither_restarts_nor_ends_it() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    started_ms = world.now_ms
    world.lose(UNIT_0)
    for jump_ms in (10 * HOUR, -20 * HOUR):
        world.wait(20 * MINUTE)
        world.watch_clock_ms += jump_ms
    world.wait(HOUR)

    lost_steps_ms = 2 * 10 * SECOND  # the two steps over the jumps are not counted
    assert ended(world) == [started_ms + HOUR + lost_steps_ms]


def test_time_that_nobody_watched_does_not_count_and_everything_is_held() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    world.lose([*UNIT_0, OTHERS[0]])
    world.watching = False
    world.wait(5 * HOUR, every_ms=MINUTE)
    assert not world.published

    back_ms = world.now_ms
    world.change_watcher()
    world.wait(2 * HOUR)
    assert ended(world) == [back_ms + HOUR]


def test_a_new_declaration_counts_from_zero() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    world.lose(UNIT_0)
    world.wait(50 * MINUTE)
    world.declare(A, 0, lasts_ms=HOUR, token="m-2")
    declared_ms = world.now_ms
    world.wait(2 * HOUR)

    assert ended(world) == [declared_ms + HOUR]
