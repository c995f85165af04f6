"""Planned work: how its time is counted, whatever the clocks and the declarations say.

What becomes of a unit in maintenance is told in ``tests/zone_scenarios/planned_work.txt``.
"""

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
from zonekeeper.placement.zones.zone_effects import EndMaintenance

UNIT_0 = [bookie for bookie in members(A) if where(bookie).upgrade_domain == "ud-0"]


def ended(world: World) -> list[int]:
    """When a declaration was taken away."""
    return [at_ms for at_ms, effect in world.happened if isinstance(effect, EndMaintenance)]


def test_no_declaration_lasts_longer_than_the_policy_allows() -> None:
    world = settled(policy(ZoneWatchRules(maintenance_max_ms=30 * MINUTE)))
    world.declare(A, 0, lasts_ms=1_000 * HOUR)
    started_ms = world.now_ms
    world.lose(UNIT_0)
    world.wait(HOUR)

    assert ended(world) == [started_ms + 30 * MINUTE]


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


def test_a_new_declaration_counts_from_zero() -> None:
    world = settled()
    world.declare(A, 0, lasts_ms=HOUR)
    world.lose(UNIT_0)
    world.wait(50 * MINUTE)
    world.declare(A, 0, lasts_ms=HOUR, token="m-2")
    declared_ms = world.now_ms
    world.wait(2 * HOUR)

    assert ended(world) == [declared_ms + HOUR]
