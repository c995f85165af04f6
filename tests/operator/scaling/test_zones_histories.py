"""Whatever happens while zones come and leave: nothing goes that a ledger names."""

import random

import pytest

from tests.operator.histories import play
from tests.operator.scaling import test_scale_histories as histories
from tests.operator.scaling import zoned_world
from tests.operator.scaling.removing_world import GoneWatch, RemovingWorld
from tests.operator.scaling.zoned_world import DELETE, FOUR, REST, THREE

pytestmark = pytest.mark.simulation

TURNS = 60


async def write(world: RemovingWorld) -> None:
    """Let a writer choose bookies that take writes, in the zones that the policy names."""
    going, cookies = {*await world.orders()}, sorted(await world.cookies(), reverse=True)
    chosen = [
        found
        for zone in reversed(await zoned_world.named_zones(world))
        for found in [one for one in cookies if f"-{zone}-" in one and one not in going][:1]
    ]
    if {*chosen[:3]} <= world.registered.keys():
        await world.write_ledger(*chosen[:3])


_EVENTS = (
    (histories.asks(zones=THREE), None),
    (histories.asks(zones=FOUR), None),
    (histories.asks(image="zonekeeper:2"), None),
    (histories.asks(scaleDown={"paused": True}), histories.asks(scaleDown={"paused": False})),
    (histories.restart_the_operator, None),
    (write, None),
    (write, None),
    (histories.lose_a_pod, None),
    (histories.holds("zoneHeld: a drill"), histories.holds("")),
    (histories.repairs(is_repaired=False), histories.repairs(is_repaired=True)),
    (histories.cut_off(is_cut_off=True), histories.cut_off(is_cut_off=False)),
)


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_of_a_zone_goes_that_a_ledger_names_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    world = await zoned_world.four()
    watch = GoneWatch(world)
    await play(world, _EVENTS, chance=chance, turns=TURNS, rate=0.35, look=watch.look)
    await world.change(zones=THREE, storage=DELETE)
    for _ in range(2):
        world.now_ms += 60_000
        await world.settle(after_turn=watch.look)

    assert await world.named() <= REST
    assert await zoned_world.named_zones(world) == "abc"
    assert await world.orders() == {}
    assert not zoned_world.OBJECTS_OF_D & await zoned_world.zone_objects(world)
    before = await world.picture()
    await world.turn()
    assert await world.picture() == before, "at rest there is no write"
