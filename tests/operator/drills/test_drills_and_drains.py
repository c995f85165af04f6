"""A drill and a drain keep apart: while one has its zone, the other gets none."""

import pytest

from tests.operator.drills.drill_world import FOR_MS, DrillWorld, settled
from tests.operator.drills.test_drills_refused import refused
from tests.operator.resources import NAME, SPACE
from zonekeeper.operator.kubernetes.api import BUDGETS, NODES
from zonekeeper.operator.sight import node_sight
from zonekeeper.placement.base.ids import ZoneName


def cordon(world: DrillWorld, zone: str, *, is_cordoned: bool = True) -> None:
    node = world.kubernetes.peek(NODES, "", f"node-{zone}")
    assert node is not None
    world.kubernetes.put(NODES, node | {"spec": {"unschedulable": is_cordoned}})
    world.now_ms += node_sight.FRESH_MS


async def budgets(world: DrillWorld) -> dict[str, int]:
    """Give what each budget allows."""
    items = await world.kubernetes.list(BUDGETS, SPACE)
    return {one["metadata"]["name"]: int(one["spec"]["maxUnavailable"]) for one in items}


@pytest.mark.parametrize("zone", ["a", "b"])
async def test_a_drill_is_refused_while_a_zone_is_open(zone: str) -> None:
    """No zone is missing: only the budgets tell that evictions may come at any time."""
    world = await settled()
    await world.write_ledger(*(f"{NAME}-{one}-0" for one in "abc"))
    cordon(world, "a")
    await world.settle()
    open_a = {"log-b-closed": 0, "log-c-closed": 0}
    assert await budgets(world) == open_a

    why = await refused(world, zone=ZoneName(zone))

    assert "inMaintenance" in why or "not at rest: see Drainable" in why, why
    assert await budgets(world) == open_a


async def test_a_zone_that_is_cordoned_during_a_drill_is_opened_when_the_drill_is_over() -> None:
    world = await settled()
    await world.away()
    cordon(world, "c")
    for _ in range(5):
        await world.turn()
        await world.controllers()
        assert await budgets(world) == {"log-bookies": 0}
    assert await world.replicas() == {"a": 2, "b": 0, "c": 2}

    world.now_ms += FOR_MS
    await world.until_phase("Ended")
    await world.settle()
    assert await budgets(world) == {"log-a-closed": 0, "log-b-closed": 0}
    cordon(world, "c", is_cordoned=False)
    await world.settle()
    assert await budgets(world) == {"log-bookies": 1}
    assert world.slips == []


async def test_after_a_drill_one_bookie_may_be_evicted_again() -> None:
    world = await settled()
    await world.away()
    assert await budgets(world) == {"log-bookies": 0}

    world.now_ms += FOR_MS
    await world.ended()

    assert await budgets(world) == {"log-bookies": 1}
