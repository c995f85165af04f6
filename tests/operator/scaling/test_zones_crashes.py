"""Wherever the operator dies while a zone comes, leaves or is named again, the end is the same.

It dies, loses answers and reads stale as in ``test_scale_crashes``.
"""

import pytest

from tests.operator.scaling import zoned_world
from tests.operator.scaling.removing_world import GoneWatch, RemovingWorld
from tests.operator.scaling.test_scale_crashes import DEATHS_MIN, OFFSETS, FrailWorld, ends
from tests.operator.scaling.zoned_world import FOUR, OBJECTS_OF_D, REST, THREE, WHOLE

pytestmark = pytest.mark.simulation


async def frail(offset: int, zones: object) -> FrailWorld:
    world = FrailWorld(offset, bookiesPerZone=2, zones=zones)
    zoned_world.put_node(world)
    await world.settle()
    return world


async def rests(world: RemovingWorld) -> None:
    before = await world.picture()
    await world.turn()
    assert await world.picture() == before, "at rest there is no write"


@pytest.mark.parametrize("offset", OFFSETS)
async def test_an_operator_that_dies_again_and_again_removes_the_whole_zone(offset: int) -> None:
    world = await frail(offset, FOUR)
    await zoned_world.fill(world)
    watch = GoneWatch(world)

    await world.change(zones=THREE)
    await ends(world, watch, REST)

    assert world.deaths >= DEATHS_MIN // 2
    assert await zoned_world.named_zones(world) == "abc"
    assert await zoned_world.recorded_zones(world) == "abc"
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert await world.scaling() == {}
    await rests(world)


@pytest.mark.parametrize("offset", OFFSETS)
async def test_an_operator_that_dies_again_and_again_adds_the_zone(offset: int) -> None:
    world = await frail(offset, THREE)
    watch = GoneWatch(world)

    await world.change(zones=FOUR)
    await ends(world, watch, WHOLE)
    await world.live_on(watch.look)

    assert await zoned_world.named_zones(world) == "abcd"
    assert await zoned_world.zone_objects(world) >= OBJECTS_OF_D
    assert watch.gone == []
    await rests(world)


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param(one, marks=() if one in (3, 8, 13, 18) else pytest.mark.long)
        for one in range(1, 25)
    ],
)
async def test_named_again_at_any_moment_the_zone_is_whole_again(turns: int) -> None:
    world = await frail(turns, FOUR)
    await zoned_world.fill(world)
    watch = GoneWatch(world)
    await world.change(zones=THREE)
    for _ in range(turns):
        await world.turn()
        await watch.look()
        await world.controllers()

    await world.change(zones=FOUR)
    await ends(world, watch, WHOLE)
    await world.live_on(watch.look)

    assert await zoned_world.named_zones(world) == "abcd"
    assert world.refusing == set()
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    for what, one in watch.gone:
        assert what != "claim" or ("cookie", one) in watch.gone
