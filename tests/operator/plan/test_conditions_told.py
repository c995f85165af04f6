"""A condition says what the pods and objects of this moment say, and Unknown where none does."""

import pytest

from tests.operator.resources import SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import PODS, STATEFUL_SETS, Json

CURRENT = ("True", "UpToDate")


async def test_pods_are_old_until_the_roll_has_reached_them_and_after_a_rollback_current() -> None:
    world = World(image="zonekeeper:1", update={"paused": True})
    await world.settle()
    assert (await world.conditions())["UpToDate"] == CURRENT

    await world.change(image="zonekeeper:2")
    await world.settle()
    assert (await world.conditions())["UpToDate"] == ("False", "OldPods")
    assert "log-a: 2, log-b: 2, log-c: 2" in await world.message("UpToDate")

    await world.change(image="zonekeeper:1")
    await world.settle()
    assert (await world.conditions())["UpToDate"] == CURRENT


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
    await world.write_ledger()

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
