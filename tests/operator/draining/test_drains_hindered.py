"""Budgets that others keep or have taken: nothing is built on them, and each is told."""

from collections.abc import Sequence

import pytest

from tests.operator.draining.draining_world import A_IS_OPEN, AT_REST, DrainingWorld, built
from tests.operator.resources import NAME, SPACE
from zonekeeper.operator.kubernetes.api import BUDGETS, CLUSTER_LABEL, Json, ObjectKind
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.draining import draining

THEIRS = "example.org/audit"
TURNS_MAX = 20


def keep(world: DrainingWorld, name: str, *, is_kept: bool = True) -> None:
    """Let somebody else put a finalizer on a budget, or take it off."""
    found = world.kubernetes.peek(BUDGETS, SPACE, name)
    assert found is not None
    found["metadata"]["finalizers"] = [THEIRS] if is_kept else []
    world.kubernetes.put(BUDGETS, found)
    if not is_kept and found["metadata"].get("deletionTimestamp"):
        world.kubernetes.mark_deleted(BUDGETS, SPACE, name)


async def is_still(world: DrainingWorld) -> bool:
    """Does the operator write no budget any more?"""
    before = len(world.writes)
    for _ in range(3):
        await world.turn()
    return len(world.writes) == before


async def turns_until(world: DrainingWorld, happened: Sequence[str]) -> None:
    """Take turns until this is not empty any more."""
    for _ in range(TURNS_MAX):
        if happened:
            return
        await world.turn()
        await world.controllers()
    pytest.fail(f"it did not happen in {TURNS_MAX} turns")


async def told(world: DrainingWorld) -> str:
    assert (await world.conditions())["Drainable"] == ("False", "DrainWaits")
    return await world.message("Drainable")


async def test_a_common_budget_that_a_finalizer_keeps_is_in_force_until_it_is_gone() -> None:
    world = await built()
    keep(world, "log-bookies")
    world.cordon("a")
    await world.settle()
    assert world.budgets() == ["log-b-closed", *AT_REST, "log-c-closed"]
    assert "finalizers of somebody else keep them: log-bookies" in await told(world)
    assert await is_still(world)
    assert await world.drain("b") == [False] * 3
    seen, wanted = await world.look()
    progress = draining.decide(planning.case_of(wanted, seen))
    assert progress is not None
    assert progress.open is None, "no gate is left out because of a budget that is in force"

    keep(world, "log-bookies", is_kept=False)
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == AT_REST


async def test_a_common_budget_that_is_kept_while_the_drain_is_called_off_comes_back() -> None:
    world = await built()
    keep(world, "log-bookies")
    world.cordon("a")
    await world.settle()
    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == ["log-b-closed", *AT_REST, "log-c-closed"]
    assert await is_still(world)

    keep(world, "log-bookies", is_kept=False)
    world.check()
    await world.settle()
    assert world.budgets() == AT_REST
    assert (await world.conditions())["Drainable"] == ("True", "AtRest")


async def test_a_closing_budget_that_a_finalizer_keeps_is_told_and_nothing_is_built_on_it() -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    keep(world, "log-b-closed")
    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == ["log-b-closed", *AT_REST]
    assert "finalizers of somebody else keep them: log-b-closed" in await told(world)
    assert await is_still(world)

    world.cordon("a")  # the budget of b may go at any time: a is not opened on its word
    await world.settle()
    assert "log-bookies" in world.budgets()
    assert await is_still(world)
    keep(world, "log-b-closed", is_kept=False)
    await world.settle()
    assert world.budgets() == A_IS_OPEN


async def test_a_closing_budget_that_is_marked_as_deleted_after_the_look_opens_nothing() -> None:
    """It is the same budget, of another version: it may be gone when the common one is."""
    world = await built()
    marked: list[str] = []

    def mark(verb: str, kind: ObjectKind) -> None:
        world.check()
        if verb == "apply" and kind is BUDGETS and len(world.budgets()) == 3 and not marked:
            keep(world, "log-c-closed")
            world.kubernetes.mark_deleted(BUDGETS, SPACE, "log-c-closed")
            marked.append("log-c-closed")

    world.fate = mark
    world.cordon("a")
    await turns_until(world, marked)
    assert "log-bookies" in world.budgets()
    await world.settle()
    assert "log-bookies" in world.budgets()
    keep(world, "log-c-closed", is_kept=False)
    await world.settle()
    assert world.budgets() == A_IS_OPEN


async def test_the_budgets_of_zones_stay_if_the_common_one_goes_after_the_look() -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    gone: list[str] = []

    def remove(verb: str, kind: ObjectKind) -> None:
        world.check()
        if verb != "list" and kind is BUDGETS and len(world.budgets()) == 3 and not gone:
            world.kubernetes.mark_deleted(BUDGETS, SPACE, "log-bookies")
            gone.append("log-bookies")

    world.fate = remove
    await world.uncordon("a")
    await turns_until(world, gone)
    assert world.budgets() == A_IS_OPEN, "the turn ended there"
    world.check()
    await world.settle()
    assert world.budgets() == AT_REST


@pytest.mark.parametrize("chosen", [{"app": "shop"}, {CLUSTER_LABEL: NAME}], ids=str)
async def test_a_budget_of_somebody_else_with_a_name_that_is_needed_is_left_alone(
    chosen: Json,
) -> None:
    world = await built()
    meta = {"name": "log-b-closed", "namespace": SPACE, "labels": {CLUSTER_LABEL: NAME}}
    theirs: Json = {
        "metadata": meta,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": chosen}},
    }
    world.kubernetes.put(BUDGETS, theirs)
    world.cordon("a")
    await world.settle()

    assert world.budgets() == ["log-b-closed", *AT_REST]
    found = world.kubernetes.peek(BUDGETS, SPACE, "log-b-closed")
    assert found is not None
    assert found["spec"] == theirs["spec"]
    said = await world.message("Drainable")
    assert "log-b-closed" in said
    world.kubernetes.mark_deleted(BUDGETS, SPACE, "log-b-closed")
    await world.settle()
    assert world.budgets() == A_IS_OPEN
