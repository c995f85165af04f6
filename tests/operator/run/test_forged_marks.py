"""Annotations, labels and a status that somebody forged remove nothing.

A person who may edit a resource may ask for a roll: pods then go one step after another, and come
again. What must stay whatever anybody writes there is what cannot be had again: the volumes' claims
and the root in the store.
"""

import pytest

from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.certificates import secret_data
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    CLUSTER_LABEL,
    CONTROLLER_REVISIONS,
    FORCE_DELETE,
    FORMATS_LABEL,
    INSTANCE_LABEL,
    KEEPS_LABEL,
    OVERRIDE,
    PODS,
    REPAIRS_LABEL,
    RESTART,
    STATEFUL_SETS,
    Json,
    ObjectKind,
)

FOREIGN = "ffffffff-0000-4000-8000-00000000ffff"
#: What kopf keeps in annotations, where it is used so: it is nothing to us.
KOPF = "kopf.zalando.org/last-handled-configuration"
ANNOTATIONS = (RESTART, OVERRIDE, FORCE_DELETE, secret_data.ROTATE, secret_data.WORD, KOPF)
LABELS = (
    *(CLUSTER_LABEL, INSTANCE_LABEL, REPAIRS_LABEL, FORMATS_LABEL, KEEPS_LABEL),
    "app.kubernetes.io/managed-by",
)
VALUES = ("true", "", FOREIGN, NAME, "ledgerAtRisk", '{"spec":{}}', "x" * 63)
#: What a forged status says, of the types that the schema lets through.
STATUSES: dict[str, Json] = {
    "none": {},
    "of another": {"instance": FOREIGN},
    "released": {"conditions": [{"type": "Released", "status": "True", "reason": "Released"}]},
    "a roll": {"roll": {"step": {"unit": "/a/ud-0", "taken": []}, "overrideUsed": "x"}},
}


async def lasting(world: World) -> tuple[dict[str, str], list[str]]:
    """Give what must stay: claims with their uids, and the nodes of the root that are for ever."""
    claims = {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in await world.kubernetes.list(CLAIMS, SPACE)
    }
    nodes = [
        node
        for node in await world.nodes_in_store()
        if node.endswith(("/INSTANCEID", "/LAYOUT", "/policy")) or "/cookies/" in node
    ]
    return claims, nodes


async def built() -> World:
    world = World(onDelete="Delete")
    await world.settle()
    await world.write_ledger()
    claims, nodes = await lasting(world)
    assert len(claims) == 6
    assert len(nodes) >= 8
    return world


async def forge(world: World, kind: ObjectKind, part: str, name: str, value: str) -> None:
    for item in await world.kubernetes.list(kind, SPACE):
        found = world.kubernetes.peek(kind, SPACE, item["metadata"]["name"])
        assert found is not None
        found["metadata"].setdefault(part, {})[name] = value
        world.kubernetes.put(kind, found)


@pytest.mark.parametrize("value", VALUES)
async def test_no_annotation_of_a_resource_removes_what_cannot_be_had_again(value: str) -> None:
    world = await built()
    before = await lasting(world)
    for name in ANNOTATIONS:
        await forge(world, BOOKIE_CLUSTERS, "annotations", name, value)
    await world.settle()

    assert await lasting(world) == before
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


@pytest.mark.parametrize("kind", [STATEFUL_SETS, CONTROLLER_REVISIONS, PODS], ids=lambda k: k.name)
@pytest.mark.parametrize("value", ["true", FOREIGN, "other"])
async def test_no_mark_of_an_object_removes_it_either(kind: ObjectKind, value: str) -> None:
    world = await built()
    before = await lasting(world)
    for name in ANNOTATIONS:
        await forge(world, kind, "annotations", name, value)
    for name in LABELS:
        await forge(world, kind, "labels", name, value)
    await world.settle()

    assert await lasting(world) == before


async def test_a_volume_that_is_labelled_as_another_s_outlives_its_cluster() -> None:
    world = await built()
    claims, _ = await lasting(world)
    await forge(world, CLAIMS, "labels", INSTANCE_LABEL, FOREIGN)
    world.delete()
    await world.settle()

    left, _ = await lasting(world)
    assert left == claims, "what the label calls another's is not removed"


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
async def test_a_forged_status_removes_nothing(status: Json) -> None:
    world = await built()
    before = await lasting(world)
    found = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    found["status"] = status
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    await world.settle()

    assert await lasting(world) == before
