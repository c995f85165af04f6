"""A condition says what the pods and objects of this moment say, and Unknown where none does."""

import pytest

from tests.operator.worlds import SPACE, World
from zonekeeper.operator.kubernetes.api import PODS, STATEFUL_SETS, Json

CURRENT = ("True", "UpToDate")


async def delete_pods(world: World) -> None:
    """Delete all bookies, so that they come back on the newest template."""
    for pod in await world.kubernetes.list(PODS, SPACE):
        world.kubernetes.mark_deleted(PODS, SPACE, pod["metadata"]["name"])
    await world.settle()


async def test_pods_are_old_until_they_were_deleted_and_a_rollback_before_that_is_current() -> None:
    world = World(image="zonekeeper:1")
    await world.settle()
    assert (await world.conditions())["UpToDate"] == CURRENT

    await world.change(image="zonekeeper:2")
    await world.settle()
    assert (await world.conditions())["UpToDate"] == ("False", "OldPods")
    assert "log-a: 2, log-b: 2, log-c: 2" in await world.message("UpToDate")

    await world.change(image="zonekeeper:1")
    await world.settle()
    assert (await world.conditions())["UpToDate"] == CURRENT


async def test_after_a_rollback_pods_on_the_bad_image_are_old() -> None:
    world = World(image="zonekeeper:1")
    await world.settle()
    await world.change(image="zonekeeper:2")
    await world.settle()
    await delete_pods(world)
    assert (await world.conditions())["UpToDate"] == CURRENT

    await world.change(image="zonekeeper:1")
    await world.settle()

    assert (await world.conditions())["UpToDate"] == ("False", "OldPods")
    assert "log-a: 2" in await world.message("UpToDate")


async def test_what_kubernetes_has_not_looked_at_yet_is_not_current() -> None:
    world = World()
    await world.settle()
    found = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-b")
    assert found is not None
    found["metadata"]["generation"] += 1
    world.kubernetes.put(STATEFUL_SETS, found)

    await world.turn()

    assert (await world.conditions())["UpToDate"] == ("Unknown", "NotObserved")
    assert await world.message("UpToDate") == (
        "Kubernetes has not looked at the newest template yet: log-b"
    )


async def test_a_running_cluster_that_is_refused_says_how_many_bookies_are_ready() -> None:
    world = World()
    await world.settle()

    await world.change(policy={"quorums": {"ack": 4}})
    await world.settle()
    assert (await world.conditions())["Legal"] == ("False", "Refused")
    assert (await world.conditions())["Ready"] == ("True", "AllReady")

    pod = await world.kubernetes.get(PODS, SPACE, "log-a-1")
    assert pod is not None
    world.kubernetes.put(PODS, pod | {"status": {}})
    await world.settle()
    assert await world.message("Ready") == "zone a: 1 of 2"


async def test_a_running_cluster_that_is_asked_to_shrink_counts_what_runs() -> None:
    world = World()
    await world.settle()

    await world.change(bookiesPerZone=1)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    assert (await world.get())["status"]["bookies"] == 6


@pytest.mark.parametrize("policy", [{}, {"quorums": {"ack": 4}}])
async def test_what_was_never_built_is_neither_current_nor_placed_nor_ready(
    policy: Json,
) -> None:
    world = World(policy=policy)

    await world.turn()

    found = await world.conditions()
    assert found["UpToDate"] == ("Unknown", "NoBookies")
    assert found["LocationsVerified"][0] == "Unknown"
    assert found["Ready"][0] == "False"
