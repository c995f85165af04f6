"""What lets no volume grow by itself: what is not known, what others do, what a person says."""

import pytest

from tests.operator import resources, said_states
from tests.operator.resources import SPACE
from tests.operator.scaling import removing_world
from tests.operator.volumes.filling_world import (
    CLAIM,
    FULL,
    MIB,
    FillingWorld,
    built,
)
from tests.operator.volumes.test_filling import MUCH, OTHER, changed, is_well, reason
from tests.operator.volumes.test_growth import refusing
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    LEFT_LABEL,
    PODS,
    STORAGE_CLASSES,
    Json,
    KubernetesError,
    NotPermittedError,
)
from zonekeeper.operator.plan.volumes.filling import REST_MS
from zonekeeper.operator.sight import room_sight
from zonekeeper.operator.sight.room_sight import READ_EVERY_MS, RoomSight
from zonekeeper.placement.base.ids import BookieId


@pytest.mark.parametrize("spec", [{"paused": True}, {"policy": {"quorums": {"ack": 9}}}])
async def test_nothing_grows_while_the_operator_is_paused_or_the_resource_is_refused(
    spec: Json,
) -> None:
    world = await built()
    await world.change(**spec)
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1Gi"
    assert await world.growing() == {}

    await world.change(paused=False, policy={})
    await world.settle()
    assert await world.size() == "1229Mi"


async def test_nothing_grows_while_the_store_is_away_and_what_was_noted_stays() -> None:
    world = await built()
    await world.fill(FULL, MUCH)
    await world.settle()
    noted = await world.growing()

    world.is_cut_off = True
    world.reconciler = world.new_operator()
    await world.fill_unseen(OTHER, MUCH)
    world.now_ms += REST_MS
    await world.settle()
    assert await world.size(f"data-{OTHER}") == "1Gi"
    assert await world.growing() == noted

    world.is_cut_off = False
    await world.settle()
    assert await world.size(f"data-{OTHER}") == "1229Mi"


async def test_a_class_that_forbids_it_is_told_and_read_only_when_something_is_due() -> None:
    world = await built()
    world.allow(growth=False)
    world.fate = refusing("get", STORAGE_CLASSES, NotPermittedError(403, "forbidden"))
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}, "it was not read"

    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1Gi"
    assert await reason(world) == ("False", "GrowthWaits")
    assert "may grow was not read" in await world.message("VolumesReady")

    world.fate = lambda verb, kind: None
    await world.settle()
    assert "does not let its volumes grow" in await world.message("VolumesReady")

    world.allow(growth=True)
    await world.settle()
    assert await world.size() == "1229Mi"
    world.fate = refusing("get", STORAGE_CLASSES, NotPermittedError(403, "forbidden"))
    await world.fill(FULL, 1_200)
    await world.settle()
    assert "it grows later" in await world.message("VolumesReady"), "none is read in the hour"


async def until_only_the_class_forbids_it(**spec: object) -> FillingWorld:
    """Give a cluster with a volume that is too full, whose rooms were read just now."""
    world = await built(**spec)
    await world.write_ledger()
    world.allow(growth=False)
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await reason(world) == ("False", "GrowthWaits")
    return world


async def test_a_bookie_that_is_not_registered_any_more_does_not_grow() -> None:
    world = await until_only_the_class_forbids_it()
    pod = world.kubernetes.peek(PODS, SPACE, FULL)
    assert pod is not None
    said_states.be_unready(pod)
    world.kubernetes.put(PODS, pod)
    await world.controllers()
    world.allow(growth=True)
    await world.settle()
    assert await world.size() == "1Gi"


async def test_a_bookie_that_is_not_asked_for_any_more_does_not_grow() -> None:
    world = await until_only_the_class_forbids_it(scaleDown={"paused": True})
    await world.change(bookiesPerZone=1)
    world.allow(growth=True)
    await world.settle()
    assert await world.size() == "1Gi"


async def test_a_volume_that_is_full_does_not_grow_by_a_spec_that_is_refused_now() -> None:
    world = await until_only_the_class_forbids_it()
    await world.change(policy={"quorums": {"ack": 9}})
    world.allow(growth=True)
    await world.settle()
    assert await world.size() == "1Gi"


async def test_in_the_hour_no_class_is_read() -> None:
    world = await built()
    await world.fill(FULL, MUCH)
    await world.settle()

    def refuse(verb: str, kind: object) -> None:
        assert kind is not STORAGE_CLASSES

    world.fate = refuse
    await world.fill(FULL, 1_100)
    await world.settle()
    assert await reason(world) == ("False", "GrowthWaits")


def test_rooms_are_forgotten_when_they_are_old_or_the_clock_is_another() -> None:
    room = PublishedRoom(free_bytes=1, total_bytes=2)
    sight = room_sight.of(
        {BookieId(FULL): room, BookieId("b"): room}, {BookieId(FULL): "uid"}, now_ms=1
    )
    assert list(sight.seen) == [FULL], "a bookie without a claim is left out"
    assert sight.still(room_sight.KEPT_MS) == sight
    assert sight.still(room_sight.KEPT_MS + 1) == sight.still(0) == RoomSight()
    assert not sight.is_due(READ_EVERY_MS)
    assert sight.is_due(READ_EVERY_MS + 1)
    assert sight.is_due(0)


async def test_a_bookie_that_says_no_room_lets_nothing_grow() -> None:
    world = await built()
    world.said[FULL] = None
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1Gi"
    await is_well(world)


async def test_a_room_of_a_claim_that_is_gone_says_nothing_of_the_next_one() -> None:
    world = await built()
    await world.fill(FULL, MUCH)
    world.fate = refusing("apply", CLAIMS, KubernetesError(500, "not now"))
    await world.turn()
    found = await world.get()
    del found["status"]["growing"]
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    changed(world, CLAIM, metadata={"uid": "another"})
    world.fate = lambda verb, kind: None

    await world.settle()
    assert await world.size() == "1Gi"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (PublishedRoom(free_bytes=MIB, total_bytes=8 << 30), "its disk has 8589934592 bytes"),
        (
            PublishedRoom(free_bytes=MIB, total_bytes=1 << 30, disk="0123456789abcdef"),
            f"it shares its disk with {OTHER}, and a larger claim gives it no room",
        ),
    ],
)
async def test_a_disk_that_is_not_the_volumes_own_is_told_and_nothing_grows(
    said: PublishedRoom, words: str
) -> None:
    world = await built()
    world.said[FULL] = said
    if said.disk is not None:
        world.said[OTHER] = PublishedRoom(free_bytes=1 << 29, total_bytes=1 << 30, disk=said.disk)
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1Gi"
    assert words in await world.message("VolumesReady")


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"labels": {"zonekeeper.io/instance": "another"}}},
        {"metadata": {"deletionTimestamp": resources.NOW, "finalizers": ["a/b"]}},
        {"status": {"phase": "Pending"}},
    ],
    ids=["foreign", "leaving", "unbound"],
)
async def test_a_claim_that_is_foreign_leaves_or_has_no_volume_is_not_told(fields: Json) -> None:
    world = await built()
    changed(world, CLAIM, **fields)
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1Gi"
    assert await world.growing() == {}


async def test_a_claim_that_a_bookie_left_behind_is_not_told() -> None:
    world = await built()
    changed(world, CLAIM, metadata={"labels": {LEFT_LABEL: FULL}})
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1Gi"


async def test_a_bookie_about_which_an_order_stands_does_not_grow() -> None:
    world = await built()
    await removing_world.give(world, FULL, by="ann")
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1Gi"
