"""Wherever an operator dies that takes bookies over, no pod is made anew, and the end is one."""

import pytest

from tests.operator.adoption import orphans
from tests.operator.faulty_calls import CallFault, FaultyCallsWorld

pytestmark = pytest.mark.simulation

#: Taking nine bookies over makes fewer changes of objects; the test counts them.
CHANGES_MAX = 50
CHANGES_MIN = 15
POINTS = [
    pytest.param(number, marks=() if number % 12 == 1 else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]


async def taken_over(fault: CallFault | None, at: int) -> FaultyCallsWorld:
    world = FaultyCallsWorld()
    instance = await orphans.orphan(world)
    pods = await orphans.uids(world)
    changes = world.server.last_change_id - world.evaluated
    await orphans.again(world, instance)
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at

    async def look() -> None:
        assert await orphans.uids(world) == pods

    for _ in range(2):  # one of the operator's lives ends by the fault
        await world.settle(after_turn=look)
    assert (await world.get())["status"]["instance"] == instance
    assert await orphans.controllers_of(world) == {"uid-again"}
    assert world.server.last_change_id - world.evaluated == changes, "the root is as it was"
    return world


async def test_taking_over_makes_as_many_changes_of_objects_as_are_tried() -> None:
    world = await taken_over(None, 0)
    assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_takes_all_over_once(at: int, fault: CallFault) -> None:
    world = await taken_over(fault, at)
    before = world.faulty.changes
    await world.turn()
    assert world.faulty.changes == before, "at rest no write"
