"""Fields over the life of a cluster: a journal volume, and the operator's own image."""

import pytest

from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import (
    CLAIMS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    Json,
)

WITH_JOURNAL: Json = {"size": "1Gi", "journal": {"size": "512Mi"}}
WITHOUT: Json = {"size": "1Gi"}


async def claims(world: World) -> list[str]:
    return sorted(item["metadata"]["name"] for item in await world.kubernetes.list(CLAIMS, SPACE))


async def images(world: World) -> set[str]:
    return {
        item["spec"]["template"]["spec"]["containers"][0]["image"]
        for kind in (STATEFUL_SETS, DEPLOYMENTS)
        for item in await world.kubernetes.list(kind, SPACE)
    }


async def test_a_journal_volume_lives_and_goes_with_the_data_volume() -> None:
    world = World(storage=WITH_JOURNAL, onDelete="Delete")
    await world.settle()
    bookies = [f"{NAME}-{zone}-{ordinal}" for zone in "abc" for ordinal in (0, 1)]
    both = sorted(f"{volume}-{bookie}" for volume in ("data", "journal") for bookie in bookies)
    assert await claims(world) == both
    assert (await world.conditions())["Ready"] == ("True", "AllReady")

    world.delete()
    await world.settle()

    assert await claims(world) == []


async def test_a_journal_claim_without_the_instance_gets_it_while_its_bookie_serves() -> None:
    world = World(storage=WITH_JOURNAL, onDelete="Delete")
    await world.settle()
    await world.unmark_claims()
    await world.settle()

    found = await world.kubernetes.list(CLAIMS, SPACE)
    assert len(found) == 12
    assert all("zonekeeper.io/instance" in item["metadata"]["labels"] for item in found)


@pytest.mark.parametrize(("before", "after"), [(WITH_JOURNAL, WITHOUT), (WITHOUT, WITH_JOURNAL)])
@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_journal_volume_can_be_neither_added_nor_taken_away(
    before: Json, after: Json, is_kept: bool
) -> None:
    """Also where no spec is kept, as after an operator that kept none."""
    world = World(storage=before)
    await world.settle()
    sets = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    if not is_kept:
        for item in await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE):
            world.kubernetes.mark_deleted(CONTROLLER_REVISIONS, SPACE, item["metadata"]["name"])

    await world.change(storage=after)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert "spec.storage.journal: " in await world.message("Legal")
    assert await world.kubernetes.list(STATEFUL_SETS, SPACE) == sets


async def test_a_resource_without_an_image_runs_that_of_the_operator_that_keeps_it() -> None:
    world = World(image=None)
    await world.settle()
    assert "spec.image: missing" in await world.message("Legal")

    world.own_image = "zonekeeper:0.1.0"
    world.reconciler = world.new_operator()
    await world.settle()
    assert await images(world) == {"zonekeeper:0.1.0"}
    assert (await world.get())["spec"]["image"] is None

    world.own_image = "zonekeeper:0.2.0"
    world.reconciler = world.new_operator()
    await world.settle()
    kept = await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE)
    assert [item["data"]["spec"]["image"] for item in kept] == ["zonekeeper:0.2.0"]


async def test_a_refused_resource_keeps_the_image_it_had_under_a_newer_operator() -> None:
    world = World(image=None)
    world.own_image = "zonekeeper:0.1.0"
    world.reconciler = world.new_operator()
    await world.settle()
    await world.change(policy={"quorums": {"ack": 9}})

    world.own_image = "zonekeeper:0.2.0"
    world.reconciler = world.new_operator()
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Refused")
    assert await images(world) == {"zonekeeper:0.1.0"}
