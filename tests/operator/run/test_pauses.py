"""A person stops the operator's acts on a cluster, or lets a deleted one go without its store."""

import pytest

from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    EVENTS,
    FORCE_DELETE,
    PODS,
    STATEFUL_SETS,
    ObjectKind,
)


async def names(world: World, *kinds: ObjectKind) -> list[str]:
    found = [item for kind in kinds for item in await world.kubernetes.list(kind, SPACE)]
    return sorted(item["metadata"]["name"] for item in found)


def cut_off(world: World) -> None:
    """Put the store out of reach of an operator that begins now."""
    world.is_cut_off = True
    world.reconciler = world.new_operator()


async def told(world: World, reason: str) -> list[str]:
    found = await world.kubernetes.list(EVENTS, SPACE)
    return [str(item["message"]) for item in found if item["reason"] == reason]


async def remove_set(world: World, name: str) -> None:
    found = await world.kubernetes.get(STATEFUL_SETS, SPACE, name)
    assert found is not None
    await world.kubernetes.delete(STATEFUL_SETS, SPACE, name, uid=found["metadata"]["uid"])


def annotate(world: World, word: str) -> None:
    found = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    found["metadata"].setdefault("annotations", {})[FORCE_DELETE] = word
    world.kubernetes.put(BOOKIE_CLUSTERS, found)


async def test_a_paused_cluster_gets_its_status_and_nothing_else() -> None:
    world = World()
    await world.settle()
    await world.change(paused=True)
    await remove_set(world, "log-a")
    await world.settle()

    assert await names(world, STATEFUL_SETS) == ["log-b", "log-c"]
    conditions = await world.conditions()
    assert conditions["Acting"] == ("False", "ActsPaused")
    assert "spec.paused is true" in await world.message("Acting")
    assert conditions["Ready"][0] == "False", "what is missing is told all the same"
    resource = await world.get()
    assert resource["status"]["observedGeneration"] == resource["metadata"]["generation"]

    await world.change(paused=False)
    await world.settle()
    assert await names(world, STATEFUL_SETS) == ["log-a", "log-b", "log-c"]
    assert len(await names(world, PODS)) >= 6
    assert (await world.conditions())["Acting"] == ("True", "Acting")


async def test_nothing_is_built_of_a_resource_that_is_paused_from_the_first() -> None:
    world = World(paused=True)
    await world.settle()
    assert await names(world, STATEFUL_SETS, CLAIMS) == []
    assert await world.nodes_in_store() == []

    await world.change(paused=False)
    await world.settle()
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_a_refused_resource_is_paused_all_the_same() -> None:
    world = World()
    await world.settle()
    await world.change(paused=True, policy={"quorums": {"ack": 9}})
    await remove_set(world, "log-a")
    await world.settle()
    assert await names(world, STATEFUL_SETS) == ["log-b", "log-c"]
    assert (await world.conditions())["Legal"] == ("False", "Refused")


async def test_a_roll_notes_no_step_while_the_operator_is_paused() -> None:
    world = World()
    await world.settle()
    await world.change(image="zonekeeper:9.0.0")
    for _ in range(6):
        await world.turn()
        await world.controllers()
    await world.change(paused=True)
    await world.turn()
    pods = {pod["metadata"]["uid"] for pod in await world.kubernetes.list(PODS, SPACE)}
    kept = {"begunMs", "step", "endedMs", "used"}
    before = (await world.get())["status"]["roll"]
    await world.settle()
    after = (await world.get())["status"]["roll"]

    assert {one: before.get(one) for one in kept} == {one: after.get(one) for one in kept}
    assert pods == {pod["metadata"]["uid"] for pod in await world.kubernetes.list(PODS, SPACE)}
    await world.change(paused=False)
    await world.settle()
    assert (await world.conditions())["UpToDate"] == ("True", "UpToDate")


async def test_a_deletion_waits_while_paused_and_what_keeps_all_is_let_go() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    await world.change(paused=True)
    world.delete()
    await world.settle()
    assert await names(world, STATEFUL_SETS) == ["log-a", "log-b", "log-c"]
    assert "spec.paused is true" in await world.message("Released")

    await world.change(onDelete="Retain")
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == []


async def test_a_deletion_tells_at_once_that_its_store_is_away_and_is_forced_by_one_word() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    instance = (await world.get())["status"]["instance"]
    claims = await names(world, CLAIMS)
    cut_off(world)

    world.delete()
    await world.turn()
    first = await world.message("Released")
    assert f"{FORCE_DELETE}={instance}" in first
    assert await names(world, CLAIMS) == claims, "it is told before anything is removed"

    annotate(world, "another")
    await world.settle()
    assert "it says another, which is not this one" in await world.message("Released")
    assert await names(world, STATEFUL_SETS, PODS, CLAIMS) == [], "only the root is waited for"

    annotate(world, instance)
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == []
    (kept,) = await told(world, "RootKept")
    assert "the root was not removed" in kept
    assert "nobody answers" in kept
    assert "zk://" in kept
    world.is_cut_off = False
    assert await world.nodes_in_store(), "the root stands as it was"


async def test_the_word_removes_the_root_where_the_store_answers() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    annotate(world, (await world.get())["status"]["instance"])
    world.delete()
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == []
    assert await world.nodes_in_store() == []


@pytest.mark.parametrize("word", ["true", "", "yes"])
async def test_no_general_word_lets_go(word: str) -> None:
    world = World(onDelete="Delete")
    await world.settle()
    cut_off(world)
    annotate(world, word)
    world.delete()
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == ["log"]
