"""Zones come and leave while another one, or the same, is open: never may two be evicted.

The rule is asked before each call of the operator, and so after each of its writes.
"""

import pytest

from tests.operator.draining.draining_world import A_IS_OPEN, AT_REST, BOOKIES, DrainingWorld
from tests.operator.resources import NAME, SPACE
from tests.operator.scaling import zoned_world
from tests.operator.scaling.removing_world import RemovingWorld
from tests.operator.scaling.zoned_world import DELETE, FOUR, OBJECTS_OF_D, THREE
from zonekeeper.operator.kubernetes.api import PODS, STATEFUL_SETS, Json, ObjectKind

A_OF_FOUR_IS_OPEN = [*A_IS_OPEN, "log-d-closed"]


class ChangingWorld(DrainingWorld, RemovingWorld):
    """Zones come and leave, and people drain nodes."""

    def __init__(self, **spec: object) -> None:
        RemovingWorld.__init__(self, **{"bookiesPerZone": BOOKIES, **spec})
        self.watch_evictions()


async def built(zones: object) -> ChangingWorld:
    """Give a cluster that has come to rest, with a ledger on each bookie."""
    world = ChangingWorld(zones=zones, storage=DELETE)
    zoned_world.put_node(world)
    await world.settle()
    named = await zoned_world.named_zones(world)
    for number in range(BOOKIES):
        await world.write_ledger(*(f"{NAME}-{zone}-{number}" for zone in named))
    await world.settle()
    return world


async def drainable(world: ChangingWorld) -> tuple[str, str]:
    return (await world.conditions())["Drainable"]


async def test_a_zone_that_comes_while_another_is_open_is_closed_before_it_has_a_pod() -> None:
    world = await built(THREE)
    world.cordon("a")
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    assert await world.evict("log-a-0")
    at_set: list[list[str]] = []

    def look(verb: str, kind: ObjectKind) -> None:
        world.check()
        if verb == "apply" and kind is STATEFUL_SETS:
            at_set.append(world.budgets())

    world.fate = look
    await world.change(zones=FOUR)
    await world.turn()
    while world.kubernetes.peek(STATEFUL_SETS, SPACE, "log-d") is None:
        await world.turn()
    assert at_set
    assert all("log-bookies" in found or "log-d-closed" in found for found in at_set)

    await world.settle()
    assert await zoned_world.named_zones(world) == "abcd"
    assert world.budgets() == A_OF_FOUR_IS_OPEN, "with the new zone in place a is opened again"
    assert await world.drain("d") == [False] * BOOKIES
    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == AT_REST


async def test_an_open_zone_that_leaves_is_closed_when_its_last_bookie_has_gone() -> None:
    world = await built(FOUR)
    world.cordon("d")
    await world.settle()
    d_is_open = [f"log-{zone}-closed" for zone in "abc"]
    assert world.budgets() == d_is_open
    assert await world.evict("log-d-1")

    await world.change(zones=THREE)
    await world.turn()
    assert world.budgets() == d_is_open, "its nodes are cordoned still"
    await world.settle()

    assert await zoned_world.named_zones(world) == "abc"
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert await zoned_world.recorded_zones(world) == "abc"
    assert world.budgets() == AT_REST
    assert await drainable(world) == ("True", "AtRest")


async def test_nodes_of_a_zone_that_leaves_are_cordoned_and_it_leaves_all_the_same() -> None:
    world = await built(FOUR)
    await world.change(zones=THREE)
    while "log-d-2" not in await world.orders():
        await world.turn()
        await world.controllers()
    world.cordon("d")
    await world.turn()
    assert world.budgets() == AT_REST
    assert "zone d: draining: log-d-2" in await world.message("Drainable")

    await world.settle()
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert world.budgets() == AT_REST
    assert await drainable(world) == ("True", "AtRest")


async def test_another_zone_is_opened_only_between_two_bookies_of_the_zone_that_leaves() -> None:
    world = await built(FOUR)
    world.held_by = "zoneHeld: somebody"
    await world.change(zones=THREE)
    while "log-d-2" not in await world.orders():
        await world.turn()
        await world.controllers()
    world.cordon("a")
    await world.settle()
    assert world.budgets() == AT_REST
    assert "zone a: draining: log-d-2" in await world.message("Drainable")

    world.held_by = ""
    await world.settle()
    assert world.budgets()[:2] == A_IS_OPEN
    assert await world.drain("a") == [True] * BOOKIES
    await world.uncordon("a")
    await world.settle()
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert world.budgets() == AT_REST


async def test_no_bookie_of_a_zone_that_leaves_goes_while_another_zone_is_open() -> None:
    world = await built(FOUR)
    world.cordon("a")
    await world.settle()
    assert world.budgets() == A_OF_FOUR_IS_OPEN

    await world.change(zones=THREE)
    await world.settle()
    assert await world.orders() == {}
    assert world.budgets() == A_OF_FOUR_IS_OPEN, "its bookies stand still"
    assert "zone d is closed while another one is open to a drain" in await world.message("Scaled")

    await world.uncordon("a")
    await world.settle()
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert world.budgets() == AT_REST


async def test_the_budget_of_a_zone_that_was_a_slip_goes_when_the_open_zone_closes() -> None:
    world = await built(THREE)
    zoned_world.put_node(world, labelled=False)
    await world.change(zones=FOUR)
    await world.settle()
    world.cordon("a")
    await world.settle()
    assert world.budgets() == A_OF_FOUR_IS_OPEN

    await world.change(zones=THREE)
    await world.settle()
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert world.budgets()[:2] == A_IS_OPEN
    assert await drainable(world) == ("True", "ZoneOpen")
    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == AT_REST


async def test_a_zone_that_leaves_is_closed_also_while_none_of_its_pods_is_there() -> None:
    """Its StatefulSet makes them again at any time, also while no operator runs."""
    world = await built(FOUR)
    await world.change(zones=THREE, scaleDown={"paused": True})
    await world.settle()
    for number in range(BOOKIES):
        world.kubernetes.mark_deleted(PODS, SPACE, f"log-d-{number}")
    world.cordon("a")
    for _ in range(6):  # its pods do not come back meanwhile, and its sessions live on
        await world.turn()
    assert "log-bookies" in world.budgets() or "log-d-closed" in world.budgets()
    world.check()


def _needing(least: int) -> Json:
    return {
        "quorums": {"ensemble": 4, "write": 4, "ack": 3, "ackZones": 2},
        "placement": {"minZones": least},
    }


@pytest.mark.parametrize("least", [2, 3])
async def test_a_zone_that_is_not_named_yet_does_not_count_for_min_zones(least: int) -> None:
    world = await built(THREE)
    zoned_world.put_node(world, labelled=False)
    await world.change(zones=FOUR, policy=_needing(least))
    await world.settle()
    assert await zoned_world.named_zones(world) == "abc"
    world.cordon("a")
    await world.settle()
    if least == 2:
        assert world.budgets() == A_OF_FOUR_IS_OPEN
        return
    assert world.budgets() == AT_REST
    said = await world.message("Drainable")
    assert "minZones is 3, and 2 others would be left" in said


async def test_neither_a_zone_that_leaves_nor_the_one_in_its_place_counts_for_min_zones() -> None:
    """Zone c is named still: the policy leaves it out at the very moment at which d is there."""
    world = await built(THREE)
    zoned_world.put_node(world, labelled=False)
    await world.change(zones=[{"name": zone} for zone in "abd"])
    await world.settle()
    assert await zoned_world.named_zones(world) == "abc"
    world.cordon("a")
    await world.settle()
    assert world.budgets() == AT_REST
    assert "minZones is 2, and 1 others would be left" in await world.message("Drainable")

    zoned_world.put_node(world)
    world.now_ms += 60_000
    await world.settle()
    assert await zoned_world.named_zones(world) == "abd"
    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == AT_REST
