"""Wherever the operator dies while volumes grow, no pod is touched, and the end is the same."""

import pytest

from tests.operator import resources
from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.resources import SPACE
from tests.operator.roll import rolling_world
from tests.operator.volumes import volume_world
from tests.operator.volumes.volume_world import VolumeWorld
from zonekeeper.operator.kubernetes.api import CLAIMS

pytestmark = pytest.mark.simulation

#: The growth of three volumes makes at least so many changes; the test counts them.
CHANGES_MIN = 30
CHANGES_MAX = 60
#: ``make check`` has some of the points.
POINTS = [
    pytest.param(number, marks=() if number % 6 == 1 else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]


class FaultyWorld(FaultyCallsWorld, VolumeWorld):
    """The calls of its operator meet a fault while volumes grow."""


async def grown(fault: CallFault | None, at: int) -> FaultyWorld:
    """Let the volumes grow while this fault happens; every turn leaves pods and claims alone."""
    world = FaultyWorld(bookiesPerZone=1)
    await world.settle()
    pods = await rolling_world.uids(world)
    claims = {one["metadata"]["uid"] for one in await world.kubernetes.list(CLAIMS, SPACE)}
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at

    async def look() -> None:
        assert await rolling_world.uids(world) == pods
        found = await world.kubernetes.list(CLAIMS, SPACE)
        assert {one["metadata"]["uid"] for one in found} == claims

    await world.change(storage={"size": "2Gi"})
    await world.settle(after_turn=look)
    await look()
    return world


async def check(world: FaultyWorld) -> None:
    assert set((await volume_world.sizes(world)).values()) == {"2Gi"}
    assert await volume_world.templates(world) == {"2Gi"}
    assert await volume_world.kept_sets(world) == []
    assert (await world.get())["metadata"]["finalizers"] == []
    assert resources.statuses(await world.conditions()) == {"True"}
    before = world.faulty.changes
    for _ in range(3):
        await world.turn()
    assert world.faulty.changes == before, "at rest no write"


async def test_the_growth_of_three_volumes_has_as_many_changes_as_are_tried() -> None:
    world = await grown(None, 0)
    assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX
    await check(world)


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_leaves_no_half_state(at: int, fault: CallFault) -> None:
    await check(await grown(fault, at))
