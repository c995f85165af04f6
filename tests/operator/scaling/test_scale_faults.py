"""One fault at any change of an object while bookies are removed, or a zone is: the end is one.

What an operator dies of that dies again and again is in ``test_scale_crashes``, with lost answers
and stale reads of the metadata store; here the API server's are lost and stale.
"""

import pytest

from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.scaling import zoned_world
from tests.operator.scaling.removing_world import KEPT, GoneWatch, RemovingWorld
from tests.operator.scaling.test_scale_crashes import DELETE, ended
from tests.operator.scaling.test_zones_crashes import rests
from tests.operator.scaling.zoned_world import FOUR, OBJECTS_OF_D, REST, THREE

pytestmark = pytest.mark.simulation

#: Removing three bookies, or a zone of two, makes fewer changes; the tests count them.
CHANGES_MAX = 60
CHANGES_MIN = 20
POINTS = [
    pytest.param(number, marks=() if number % 20 == 1 else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]


class FaultyRemovingWorld(FaultyCallsWorld, RemovingWorld):
    """The calls of its operator meet a fault while bookies are removed."""


async def ends(world: FaultyRemovingWorld, left: set[str]) -> None:
    """Let all work until these bookies are left, and no order is."""
    watch = GoneWatch(world)
    await ended(world, lambda: world.settle(after_turn=watch.look), left)
    for what, one in watch.gone:
        assert what != "claim" or ("cookie", one) in watch.gone
    await rests(world)


async def lowered(fault: CallFault | None, at: int) -> FaultyRemovingWorld:
    world = FaultyRemovingWorld(storage=DELETE)
    await world.settle()
    for number in range(3):
        await world.write_ledger(*(f"log-{zone}-{number}" for zone in "abc"))
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at
    await world.change(bookiesPerZone=2)
    await ends(world, KEPT)
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    return world


async def left(fault: CallFault | None, at: int) -> FaultyRemovingWorld:
    world = FaultyRemovingWorld(bookiesPerZone=2, zones=FOUR, storage=DELETE)
    zoned_world.put_node(world)
    await world.settle()
    await zoned_world.fill(world)
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at
    await world.change(zones=THREE)
    await ends(world, REST)
    assert await zoned_world.named_zones(world) == "abc"
    assert await zoned_world.recorded_zones(world) == "abc"
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    return world


async def test_both_make_as_many_changes_of_objects_as_are_tried() -> None:
    for world in (await lowered(None, 0), await left(None, 0)):
        assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_removes_the_same_bookies(at: int, fault: CallFault) -> None:
    await lowered(fault, at)


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_removes_the_same_zone(at: int, fault: CallFault) -> None:
    await left(fault, at)
