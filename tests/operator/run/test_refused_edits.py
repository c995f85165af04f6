"""A refused edit changes nothing and stops nothing: the last legal spec is kept up meanwhile."""

import itertools

import pytest

from tests.operator.resources import NAME, SPACE, URI
from tests.operator.worlds import World
from zonekeeper.metadata.store.layout import Root
from zonekeeper.operator.kubernetes.api import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    KubernetesError,
    ObjectKind,
)

#: What a change of the image writes to.
CHANGED = (CONTROLLER_REVISIONS, STATEFUL_SETS, DEPLOYMENTS)
REFUSED: Json = {"policy": {"quorums": {"ack": 4}}}
BLOCKED: Json = {"bookiesPerZone": 1}


async def images(world: World) -> dict[str, str]:
    """Give the image of each StatefulSet by its name."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]["containers"][0]["image"]
        for item in await world.kubernetes.list(STATEFUL_SETS, SPACE)
    }


async def specs(world: World) -> list[Json]:
    """Give the specs that are kept."""
    found = await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE)
    return [item["data"]["spec"] for item in found]


@pytest.mark.parametrize("edit", [REFUSED, BLOCKED])
async def test_a_set_that_is_deleted_while_an_edit_is_refused_comes_back(edit: Json) -> None:
    world = World()
    await world.settle()
    await world.write_ledger()
    before = await images(world)
    await world.change(**edit, image="zonekeeper:9.9.9")
    await world.settle()
    world.kubernetes.mark_deleted(STATEFUL_SETS, SPACE, f"{NAME}-b")
    await world.controllers()

    await world.turn()
    await world.turn()
    assert (await world.conditions())["Ready"] == ("False", "ZoneDown"), "all of zone b is away"
    assert "zone b: 0 of 2" in await world.message("Ready")
    await world.settle()

    assert await images(world) == before
    conditions = await world.conditions()
    assert (conditions["Ready"], conditions["Legal"][0]) == (("True", "AllReady"), "False")
    assert conditions["LocationsVerified"] == ("True", "Verified")
    status = (await world.get())["status"]
    assert (status["bookies"], status["readyBookies"]) == (6, 6)


async def test_an_object_of_others_in_the_place_of_a_kept_one_is_not_taken_over() -> None:
    world = World()
    await world.settle()
    await world.change(**REFUSED)
    world.kubernetes.mark_deleted(SERVICES, SPACE, f"{NAME}-bookies")
    theirs = {"metadata": {"name": f"{NAME}-bookies", "namespace": SPACE}, "spec": {"port": 1}}
    world.kubernetes.put(SERVICES, theirs)
    world.kubernetes.mark_deleted(STATEFUL_SETS, SPACE, f"{NAME}-b")

    for _ in range(3):
        await world.turn()

    found = world.kubernetes.peek(SERVICES, SPACE, f"{NAME}-bookies")
    assert found is not None
    assert found["spec"] == {"port": 1}


async def test_a_corrected_edit_is_built_and_kept_in_its_turn() -> None:
    world = World()
    await world.settle()
    await world.change(**REFUSED)
    await world.settle()

    await world.change(policy={}, bookiesPerZone=3)
    await world.settle()

    assert (await world.get())["status"]["readyBookies"] == 9
    assert [spec["bookiesPerZone"] for spec in await specs(world)] == [3]


async def test_an_address_that_is_changed_past_the_schema_moves_no_cluster() -> None:
    """The schema refuses it; a schema may be older than the operator, or be gone for a while."""
    world = World()
    await world.settle()
    policy = await world.nodes_in_store()
    world.edit(metadata={"uri": "zk://zookeeper:2181/logs/elsewhere"})

    for _ in range(3):
        await world.turn()

    conditions = await world.conditions()
    assert (conditions["Legal"], conditions["MetadataReady"]) == (
        ("False", "Blocked"),
        ("True", "Found"),
    )
    assert f"set it to {URI}" in await world.message("Legal")
    assert await world.nodes_in_store() == policy

    store = await world.open(URI)
    await store.delete(Root(store.root).beside("policy"), version=None)
    await world.turn()

    assert await world.nodes_in_store() == policy, "acts go to the kept address, too"


async def test_a_kept_spec_that_is_deleted_is_kept_again_while_the_resource_is_legal() -> None:
    world = World()
    await world.settle()
    (found,) = await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE)
    world.kubernetes.mark_deleted(CONTROLLER_REVISIONS, SPACE, found["metadata"]["name"])

    await world.settle()

    assert await specs(world) == [found["data"]["spec"]]


@pytest.mark.parametrize("dies_at", range(7))
async def test_an_operator_that_dies_while_specs_change_leaves_the_newest(dies_at: int) -> None:
    """A change of the image is six writes: the spec is kept, three StatefulSets, and so on."""
    world = World()
    await world.settle()
    await world.change(image="zonekeeper:0.1.1")
    writes = itertools.count()

    def die(verb: str, kind: ObjectKind) -> None:
        if verb in ("apply", "delete") and kind in CHANGED and next(writes) >= dies_at:
            raise KubernetesError(0, "the operator is dead")

    world.fate = die
    for _ in range(4):
        await world.turn()
    world.fate = lambda verb, kind: None
    given = {*(await images(world)).values()} - {"zonekeeper:0.1.0"}
    assert given <= {spec["image"] for spec in await specs(world)}, "it is kept first"
    world.reconciler = world.new_operator()
    await world.change(**REFUSED, image="zonekeeper:9.9.9")
    await world.settle()
    asked = "zonekeeper:0.1.1" if dies_at else "zonekeeper:0.1.0"
    assert set((await images(world)).values()) == {asked}

    await world.change(policy={}, image="zonekeeper:0.1.2")
    await world.settle()

    assert [spec["image"] for spec in await specs(world)] == ["zonekeeper:0.1.2"]


async def test_the_kept_spec_goes_with_its_resource() -> None:
    world = World()
    await world.settle()

    world.delete()
    await world.settle()

    assert await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE) == []


async def test_another_resource_of_the_name_does_not_take_the_kept_spec_for_its_own() -> None:
    world = World()
    await world.settle()
    (found,) = await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE)
    world.delete()
    await world.settle()
    world.kubernetes.put(CONTROLLER_REVISIONS, found)

    await world.make_again(**REFUSED)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Refused")
    assert await images(world) == {}
