"""What stands is looked at once more at the moment of an act: a person may have changed it."""

import pytest

from tests.operator.people import ordered
from tests.operator.worlds import World
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.operator.roots.roots import Roots
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord
from zonekeeper.placement.zones.gate import RefusedError

BOOKIE = BookieId("log-b-1")


async def obeyed(world: World, order: ResourceOrder) -> None:
    """Carry an order out that was judged before something else happened."""
    root = Roots(world.open_for_operator, wall_ms=lambda: world.wall_ms)
    instance = (await world.get())["status"]["instance"]
    try:
        await root.obey(await world.address(), order, instance=instance)
    finally:
        await root.close()


async def test_an_order_of_another_kind_that_came_meanwhile_is_not_taken_back() -> None:
    world = World()
    await world.settle()
    order = await ordered.made(world, AskedFor.TAKE_BACK, bookie=BOOKIE)
    word = OrderWord(at_ms=1, by="bert", reason="its disk is bad")
    removal = BookieOrder(kind=OrderKind.REMOVE, token="r", given=word, incarnation=None)
    await ordered.change_order(world, BOOKIE, removal)

    with pytest.raises(RefusedError, match="another order about log-b-1 was given meanwhile"):
        await obeyed(world, order)

    assert await ordered.bookie_order(world, BOOKIE) == removal


async def test_a_drill_is_no_act_in_the_store() -> None:
    world = World()
    await world.settle()
    order = await ordered.made(world, AskedFor.DRILL, zone=ZoneName("b"), for_ms=60_000)

    with pytest.raises(RefusedError, match="nothing was done"):
        await obeyed(world, order)
