"""Wherever the operator dies while a volume fills, that volume grows once, and no other."""

import pytest

from tests.operator import resources
from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.resources import SPACE
from tests.operator.roll import rolling_world
from tests.operator.volumes import volume_world
from tests.operator.volumes.filling_world import FULL, FillingWorld
from zonekeeper.operator.kubernetes.api import STATEFUL_SETS

pytestmark = pytest.mark.simulation

MUCH = 830
#: The growth of one volume makes so many changes; the test counts them.
CHANGES_MIN = 3
CHANGES_MAX = 8


class FaultyFillingWorld(FaultyCallsWorld, FillingWorld):
    """The calls of its operator meet a fault while a volume fills."""


async def grown(fault: CallFault | None, at: int, *, is_slow: bool) -> FaultyFillingWorld:
    """Let a volume grow while this fault happens; ``is_slow``: its driver does nothing at first."""
    world = FaultyFillingWorld(bookiesPerZone=2)
    await world.settle()
    pods = await rolling_world.uids(world)
    sets = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at
    world.expands = not is_slow

    async def look() -> None:
        assert await world.size() in ("1Gi", "1229Mi"), "it grows once"
        assert await world.others() == {"1Gi"}

    await world.fill(FULL, MUCH)
    await world.settle(after_turn=look)
    world.expands = True
    await world.settle(after_turn=look)
    assert await rolling_world.uids(world) == pods
    assert await world.kubernetes.list(STATEFUL_SETS, SPACE) == sets
    return world


async def check(world: FaultyFillingWorld) -> None:
    assert await world.size() == "1229Mi"
    assert await world.others() == {"1Gi"}
    assert await volume_world.templates(world) == {"1Gi"}
    assert resources.statuses(await world.conditions()) == {"True"}
    before = world.faulty.changes
    for _ in range(3):
        await world.turn()
    assert world.faulty.changes == before, "at rest no write"


async def test_the_growth_of_one_volume_has_as_many_changes_as_are_tried() -> None:
    world = await grown(None, 0, is_slow=False)
    assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX
    await check(world)


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("at", range(1, CHANGES_MAX))
async def test_a_fault_at_any_change_ends_in_one_growth(
    at: int, fault: CallFault, *, is_slow: bool
) -> None:
    await check(await grown(fault, at, is_slow=is_slow))
