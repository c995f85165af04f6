"""An annotation that is no order is answered, and does nothing."""

import json

from tests.operator.people import ordered
from tests.operator.worlds import World
from zonekeeper.operator.people import order_format
from zonekeeper.operator.roots.resource_orders import AskedFor


async def test_an_annotation_that_is_no_order_is_answered_once_and_stops_nothing() -> None:
    world = World()
    await world.settle()
    await ordered.annotate(world, "hold zone b")
    await world.settle()

    refused = await ordered.answer(world)

    assert (refused["phase"], refused["token"]) == ("Refused", "")
    assert "kubectl zonekeeper" in refused["message"]
    assert (await world.conditions())["Ready"][0] == "True"
    done = await ordered.give(world, AskedFor.DISABLE)
    assert done["phase"] == "Done", "a right one that follows is carried out"


async def test_an_order_of_a_newer_plugin_is_refused_under_its_token() -> None:
    world = World()
    await world.settle()
    order = json.loads(order_format.render(await ordered.made(world, AskedFor.DISABLE)))
    await ordered.annotate(world, json.dumps(order | {"onlyIf": "quiet"}))
    await world.settle()

    refused = await ordered.answer(world)

    assert (refused["phase"], refused["token"]) == ("Refused", "order-disable")
    assert await ordered.is_enabled(world)


async def test_a_status_that_cannot_be_read_is_no_answer() -> None:
    world = World()
    await world.settle()
    item = ordered.resource_of(world)
    item["status"]["order"] = {"token": 7, "phase": "Done"}
    world.kubernetes.put(*ordered.whole(item))

    assert (await ordered.give(world, AskedFor.DISABLE))["phase"] == "Done"
