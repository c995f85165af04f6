"""Wherever the operator dies while a bookie gets another volume, the end is the same.

It dies, loses answers and reads stale from the metadata store as in ``test_scale_crashes``; at one
change of an object each fault of ``faulty_calls`` happens, stale reads of objects, too.
"""

import pytest

from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.scaling.test_scale_crashes import LIFE, OFFSETS, FrailWorld
from tests.operator.volumes import test_replaced_journals, test_replacing
from tests.operator.volumes.losing_world import LosingWorld
from tests.operator.volumes.test_replacing import ONE, ReplaceWatch

pytestmark = pytest.mark.simulation

#: One replacement makes fewer changes of objects; the test counts them.
CHANGES_MAX = 40
CHANGES_MIN = 8
POINTS = [
    pytest.param(number, marks=() if number % 5 == 1 else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]
#: One of them ends by the fault.
LIVES = 2
#: Turns before the annotation is taken off.
TAKEN_OFF = [
    pytest.param(number, marks=() if number % 4 == 2 else pytest.mark.long)
    for number in range(1, 16)
]


class FrailLosingWorld(LosingWorld, FrailWorld):
    """Its operator dies again and again while bookies lose and get volumes."""


class FaultyLosingWorld(FaultyCallsWorld, LosingWorld):
    """The calls of its operator meet a fault while a bookie gets another volume."""


@pytest.mark.parametrize("offset", OFFSETS)
async def test_an_operator_that_dies_again_and_again_replaces_it_once(offset: int) -> None:
    world = FrailLosingWorld(offset=offset)
    await test_replacing.built(world)
    watch = ReplaceWatch(world)

    test_replacing.name(world, ONE)
    await world.live_on(watch.look)

    assert world.deaths >= 1
    assert watch.gone == [ONE]
    assert (await test_replacing.noted(world))["phase"] == "Done"
    await test_replacing.is_well(world)


@pytest.mark.parametrize("turns", TAKEN_OFF)
async def test_taken_off_at_any_moment_it_is_as_before_or_replaced(turns: int) -> None:
    world = FrailLosingWorld(offset=turns % LIFE)
    await test_replacing.built(world)
    watch, seen = ReplaceWatch(world), 0

    async def look() -> None:
        nonlocal seen
        await watch.look()
        seen += 1
        if seen == turns:
            test_replacing.name(world, None)

    test_replacing.name(world, ONE)
    await world.live_on(look)

    assert watch.gone in ([], [ONE])
    assert await test_replacing.noted(world) == {}
    await test_replacing.is_well(world)


async def replaced(
    fault: CallFault | None, at: int, *volumes: str, **spec: object
) -> FaultyLosingWorld:
    """Replace a bookie while this fault happens; ``volumes``: those that go beside its data."""
    world = FaultyLosingWorld(**spec)
    await test_replacing.built(world)
    watch = ReplaceWatch(world)
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at
    test_replacing.name(world, ONE)
    for _ in range(LIVES):
        # An operator that has just begun waits for the zone watch, and changes nothing meanwhile.
        await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE, *volumes]
    return world


async def test_one_replacement_has_as_many_changes_of_objects_as_are_tried() -> None:
    world = await replaced(None, 0)
    assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_ends_in_one_replacement(at: int, fault: CallFault) -> None:
    world = await replaced(fault, at)
    assert (await test_replacing.noted(world))["phase"] == "Done"
    await test_replacing.is_well(world)


#: Between the deletions of two claims, and some others.
BETWEEN = [
    pytest.param(number, marks=() if number in (2, 12, 13) else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", BETWEEN)
async def test_a_fault_at_any_change_ends_with_both_volumes_new(at: int, fault: CallFault) -> None:
    storage = test_replaced_journals.WITH_JOURNAL
    world = await replaced(fault, at, f"journal-{ONE}", storage=storage)
    assert (await test_replacing.noted(world))["phase"] == "Done"
    await test_replacing.is_well(world)
