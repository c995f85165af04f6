"""A drill is refused while anything is held, and where the cluster could not bear it."""

import re
from collections.abc import Awaitable, Callable
from typing import Unpack

import pytest

from tests.operator.drills.drill_world import FOR_MS, B, DrillWorld, settled
from tests.operator.people import ordered
from tests.operator.people.ordered import OrderParts
from tests.operator.resources import SPACE
from tests.operator.roll import rolling_world
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, BUDGETS, Json
from zonekeeper.operator.people.answering import AHEAD_MS_MAX
from zonekeeper.operator.roots.resource_orders import AskedFor
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord


async def refused(world: DrillWorld, **parts: Unpack[OrderParts]) -> str:
    """Order a drill, and give why it is refused."""
    await world.order(**parts)
    for _ in range(8):
        await world.turn()
        await world.controllers()
    found = await ordered.answer(world)
    assert found["phase"] == "Refused", found
    assert await world.drill() == {}
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    assert await world.probes() == []
    message: str = found["message"]
    return message


async def _held(world: DrillWorld) -> None:
    await world.hold("c")
    await world.turn()


async def _cluster_held(world: DrillWorld) -> None:
    await ordered.give(world, AskedFor.HOLD)


async def _switched_off(world: DrillWorld) -> None:
    await ordered.give(world, AskedFor.DISABLE)


async def _missing(world: DrillWorld) -> None:
    await world.end_sessions({"log-c-1"})


async def _missing_there(world: DrillWorld) -> None:
    await world.end_sessions({"log-b-1"})


async def _ordered_about(world: DrillWorld) -> None:
    word = OrderWord(at_ms=1, by="bert", reason="no")
    order = BookieOrder(kind=OrderKind.DRAIN, token="t", given=word, incarnation=None)
    await ordered.change_order(world, "log-a-0", order)


async def _rolls(world: DrillWorld) -> None:
    item = await world.get()
    world.missing.add("zonekeeper:0.2.0")
    spec = item["spec"] | {"image": "zonekeeper:0.2.0"}
    await world.kubernetes.edit(BOOKIE_CLUSTERS, item, {"spec": spec})
    await world.turn()


async def _refused_edit(world: DrillWorld) -> None:
    item = await world.get()
    await world.kubernetes.edit(BOOKIE_CLUSTERS, item, {"spec": {"bookiesPerZone": 0}})


async def _last_copies(world: DrillWorld) -> None:
    await rolling_world.write_ledger(world, 7, "log-b-0", "log-b-1", "log-a-0", ack=2)
    await rolling_world.write_ledger(world, 9, "log-b-0", ack=1)


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (_held, "Held"),
        (_cluster_held, "Held"),
        (_switched_off, "Held"),
        (_missing, "log-c-1"),
        (_missing_there, "log-b-1"),
        (_ordered_about, "orders about bookies stand, for example about log-a-0"),
        (_rolls, "imageNotVetted|OldPods|the cluster is being changed"),
        (_refused_edit, "refused or blocked"),
        (_last_copies, "at least 2 ledgers would not be readable or recoverable.* the first is 7"),
    ],
)
async def test_what_is_in_the_way_refuses_it(
    happens: Callable[[DrillWorld], Awaitable[None]], why: str
) -> None:
    world = await settled()
    await happens(world)

    message = await refused(world)

    assert re.search(why, message), message


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"bookiesPerZone": 1}, "writers could not go on: while a .* is lost, no ledger"),
        (
            {"policy": {"repair": {"onZoneLoss": "repairAfter", "after": "10m"}}},
            "policy.repair.after is 10m, and the zone may be away for 11m",
        ),
        ({"tls": {"mode": "Operator"}}, "add drill to spec.tls.clients"),
    ],
)
async def test_what_the_resource_asks_for_may_refuse_it(spec: Json, why: str) -> None:
    world = await settled(**spec)
    await world.order()
    for _ in range(8):
        await world.turn()
        await world.controllers()

    found = await ordered.answer(world)

    assert found["phase"] == "Refused"
    assert re.search(why, found["message"]), found


async def test_a_zone_that_is_not_there_and_an_order_from_far_ahead_are_refused() -> None:
    world = await settled()

    assert "there is no zone x" in await refused(world, zone=ZoneName("x"))
    far = world.wall_ms + AHEAD_MS_MAX + 60_000
    assert "untilMs" in await refused(world, token="far", until_ms=far)
    assert "another" in await refused(world, token="uid", uid="another")


async def test_an_end_without_a_drill_is_refused() -> None:
    world = await settled()

    await world.end("none")
    for _ in range(3):
        await world.turn()

    found = await ordered.answer(world)
    assert found["phase"] == "Refused"
    assert "not the one of status.drill" in found["message"]


async def test_what_passes_by_itself_is_waited_for() -> None:
    world = await settled()
    world.is_watched = False
    made = await ordered.made(world, AskedFor.DRILL, zone=B, for_ms=FOR_MS)
    await ordered.write(world, made)

    await world.turn()

    found = await ordered.answer(world)
    assert found["phase"] == "Accepted"
    assert "the ledgers are being read" in found["message"]
    assert await world.drill() == {}


async def test_a_budget_that_is_not_at_rest_refuses_it() -> None:
    world = await settled()
    (found,) = await world.kubernetes.list(BUDGETS, SPACE)
    await world.kubernetes.edit(BUDGETS, found, {"spec": {"maxUnavailable": 0}})
    await world.order()

    await world.turn()

    message = (await ordered.answer(world))["message"]
    assert "the cluster is being changed" in message or "budget" in message
