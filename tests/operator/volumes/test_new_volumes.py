"""New volumes may be of another class or of a smaller size; those that stand stay as they are."""

import pytest

from tests.operator import resources
from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.resources import NAME, SPACE
from tests.operator.roll import rolling_world
from tests.operator.scaling.test_scale_crashes import OFFSETS, FrailWorld
from tests.operator.volumes import test_replacing, volume_world
from tests.operator.volumes.losing_world import LosingWorld
from tests.operator.volumes.test_replacing import ONE, OTHER, ReplaceWatch
from tests.operator.volumes.volume_world import CLASS, VolumeWorld
from zonekeeper.operator.kubernetes.api import CLAIMS, STATEFUL_SETS, STORAGE_CLASSES, Json

SLOW = "slow"
NEW: Json = {"size": "512Mi", "className": SLOW}
BOTH: Json = {"size": "1Gi", "newVolumes": NEW}
BOOKIES = [f"{NAME}-{zone}-{ordinal}" for zone in "abc" for ordinal in range(3)]
#: A change of templates and one replacement make fewer changes of objects; the test counts them.
CHANGES_MAX = 60
CHANGES_MIN = 20
POINTS = [
    pytest.param(number, marks=() if number % 14 == 1 else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]


class OtherVolumesWorld(LosingWorld, VolumeWorld):
    """Bookies get other volumes, and volumes have sizes and classes."""


class FrailVolumesWorld(OtherVolumesWorld, FrailWorld):
    """Its operator dies again and again meanwhile."""


class FaultyVolumesWorld(FaultyCallsWorld, OtherVolumesWorld):
    """The calls of its operator meet a fault meanwhile."""


async def built(world: OtherVolumesWorld | None = None) -> OtherVolumesWorld:
    found = OtherVolumesWorld() if world is None else world
    await test_replacing.built(found)
    return found


async def volumes(world: OtherVolumesWorld) -> dict[str, tuple[str, str]]:
    """Give the size and the class of each bookie's volume."""
    return {
        item["metadata"]["name"].removeprefix("data-"): (
            item["spec"]["resources"]["requests"]["storage"],
            item["spec"]["storageClassName"],
        )
        for item in await world.kubernetes.list(CLAIMS, SPACE)
    }


async def templates(world: OtherVolumesWorld) -> set[tuple[str, str | None]]:
    """Give the sizes and classes of the volumes that StatefulSets make."""
    return {
        (one["spec"]["resources"]["requests"]["storage"], one["spec"].get("storageClassName"))
        for item in await world.kubernetes.list(STATEFUL_SETS, SPACE)
        for one in item["spec"]["volumeClaimTemplates"]
    }


async def replace(world: OtherVolumesWorld, *bookies: str) -> None:
    for bookie in bookies:
        test_replacing.name(world, bookie)
        await world.settle()


async def test_one_bookie_gets_a_smaller_volume_of_another_class_and_no_other_is_touched() -> None:
    world = await built()
    pods, watch, said = await rolling_world.uids(world), ReplaceWatch(world), set[str]()

    async def look() -> None:
        await watch.look()
        said.add(await world.message("VolumesReady"))

    test_replacing.name(world, ONE)
    await world.change(storage=BOTH)
    await world.settle(after_turn=look)

    assert any("its StatefulSet is made again first" in one for one in said)
    assert await templates(world) == {("512Mi", SLOW)}
    old = dict.fromkeys(BOOKIES, ("1Gi", CLASS))
    assert await volumes(world) == {**old, ONE: ("512Mi", SLOW)}
    now = await rolling_world.uids(world)
    assert {one for one in pods if pods[one] != now[one]} == {ONE}
    assert watch.gone == [ONE]
    assert await volume_world.kept_sets(world) == []
    await test_replacing.is_well(world)


async def test_a_bookie_that_is_added_has_the_new_volume() -> None:
    world = await built()
    await world.change(storage=BOTH, bookiesPerZone=4)
    await world.settle()

    found = await volumes(world)
    assert {found[f"{NAME}-{zone}-3"] for zone in "abc"} == {("512Mi", SLOW)}
    assert {found[one] for one in BOOKIES} == {("1Gi", CLASS)}


async def test_a_lost_volume_is_healed_by_a_new_one() -> None:
    world = await built()
    await world.change(storage=BOTH, heal={"lostVolume": "Refill"})
    await world.settle()
    await world.lose(ONE)
    await world.settle()

    assert (await volumes(world))[ONE] == ("512Mi", SLOW)
    await test_replacing.is_well(world)


async def test_standing_volumes_grow_up_to_the_smaller_of_both_sizes() -> None:
    world = await built()
    await world.change(storage={"size": "3Gi", "newVolumes": {"size": "2Gi"}})
    await world.settle()
    assert set(await volume_world.sizes(world)) == {f"data-{one}" for one in BOOKIES}
    assert set((await volume_world.sizes(world)).values()) == {"2Gi"}
    assert await volume_world.templates(world) == {"2Gi"}
    await world.change(storage={"size": "2Gi", "newVolumes": {"size": "4Gi"}})
    await world.settle()
    assert set((await volume_world.sizes(world)).values()) == {"2Gi"}
    assert await volume_world.templates(world) == {"4Gi"}


async def test_what_was_said_of_new_volumes_is_said_of_all_once_each_bookie_has_one() -> None:
    world = await built()
    await world.change(storage=BOTH)
    await replace(world, *BOOKIES[:-1])
    await world.change(storage=NEW)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    said = await world.message("Legal")
    assert "spec.storage.size: 512Mi: cannot become less" in said
    assert "spec.storage.className: slow: cannot change" in said
    assert said.count(f"as these have it: data-{BOOKIES[-1]};") == 1
    assert said.count(f"as these have another: data-{BOOKIES[-1]};") == 1
    assert "until this is corrected" in said

    await world.change(storage=BOTH)
    await replace(world, BOOKIES[-1])
    sets = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    await world.change(storage=NEW)
    await world.settle()
    assert set((await volumes(world)).values()) == {("512Mi", SLOW)}
    made = {item["metadata"]["uid"] for item in sets}
    now = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    assert {item["metadata"]["uid"] for item in now} == made, "the templates are the same"
    await test_replacing.is_well(world)


async def test_a_volume_that_a_removed_bookie_left_is_in_nobodys_way() -> None:
    world = await built()
    await world.write_ledger(*(f"log-{zone}-2" for zone in "abc"))
    await world.change(bookiesPerZone=2)
    await world.settle()
    assert await world.scaling() == {}
    await world.change(storage=BOTH)
    await world.settle()
    kept = [one for one in BOOKIES if not one.endswith("-2")]
    assert {*await volumes(world)} == set(BOOKIES), "the claims are retained"
    await replace(world, *kept)
    await world.change(storage=NEW)
    await world.settle()

    assert (await world.conditions())["Legal"][0] == "True"
    found = await volumes(world)
    assert {found[one] for one in kept} == {("512Mi", SLOW)}
    assert {found[one] for one in BOOKIES if one not in kept} == {("1Gi", CLASS)}


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ({"size": "512Mi"}, "spec.storage.size: 512Mi: cannot become less"),
        (
            {"size": "256Mi", "newVolumes": {"size": "256Mi"}},
            "set it to what it was or more (1Gi); for other volumes set spec.storage.newVolumes",
        ),
        ({"size": "1Gi", "className": "third"}, "spec.storage.className: third: cannot change"),
    ],
)
async def test_only_what_stood_there_as_new_may_be_said_of_all(storage: Json, words: str) -> None:
    world = await built()
    await world.change(storage={"size": "1Gi", "newVolumes": {"className": SLOW}})
    await world.settle()
    await world.change(storage=storage)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert words in await world.message("Legal")
    assert await templates(world) == {("1Gi", SLOW)}


async def test_taken_away_again_new_volumes_are_as_the_others_and_the_small_ones_grow() -> None:
    world = await built()
    world.kubernetes.put(
        STORAGE_CLASSES,
        {"metadata": {"name": SLOW, "namespace": ""}, "allowVolumeExpansion": False},
    )
    await world.change(storage=BOTH)
    await replace(world, ONE)

    await world.change(storage={"size": "1Gi"})
    await world.settle()
    assert "storage class slow does not let its volumes grow" in await world.message("Legal")
    assert await templates(world) == {("512Mi", SLOW)}

    world.kubernetes.put(
        STORAGE_CLASSES,
        {"metadata": {"name": SLOW, "namespace": ""}, "allowVolumeExpansion": True},
    )
    await world.settle()
    assert await templates(world) == {("1Gi", None)}
    assert await volumes(world) == {**dict.fromkeys(BOOKIES, ("1Gi", CLASS)), ONE: ("1Gi", SLOW)}
    await test_replacing.is_well(world)


@pytest.mark.parametrize("turns", range(1, 14))
async def test_whatever_turn_the_edit_comes_in_a_claim_goes_only_for_the_new_volume(
    turns: int,
) -> None:
    """The edit may come between the order and the deletion of the claim."""
    world = await built()
    watch = ReplaceWatch(world)
    test_replacing.name(world, ONE)
    for _ in range(turns):
        await world.turn()
        await watch.look()
        await world.controllers()
    was_deleted = watch.gone != []
    await world.change(storage=BOTH)
    await world.settle(after_turn=watch.look)

    assert (await volumes(world))[ONE] == (("1Gi", CLASS) if was_deleted else ("512Mi", SLOW))
    assert watch.gone == [ONE]
    await test_replacing.is_well(world)


async def test_a_size_that_is_only_written_in_another_way_is_the_same() -> None:
    world = await built()
    sets = {one["metadata"]["uid"] for one in await world.kubernetes.list(STATEFUL_SETS, SPACE)}
    await world.change(storage={"size": "1Gi", "newVolumes": {"size": "1024Mi"}})
    await world.settle()
    found = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    assert {one["metadata"]["uid"] for one in found} == sets
    await test_replacing.is_well(world)


async def test_the_plan_names_the_sets_that_are_made_again() -> None:
    world = await built()
    await world.change(storage={"size": "1Gi", "newVolumes": {"className": SLOW}})
    await world.turn()
    assert "StatefulSets that still make other volumes" in await world.message("VolumesReady")
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}


@pytest.mark.simulation
@pytest.mark.parametrize("offset", OFFSETS)
async def test_an_operator_that_dies_again_and_again_gives_it_the_new_volume(offset: int) -> None:
    world = FrailVolumesWorld(offset=offset)
    await built(world)
    watch = ReplaceWatch(world)
    test_replacing.name(world, ONE)
    await world.change(storage=BOTH)
    await world.live_on(watch.look)

    assert world.deaths >= 1
    assert (await volumes(world))[ONE] == ("512Mi", SLOW)
    assert watch.gone == [ONE]
    await test_replacing.is_well(world)


async def changed(fault: CallFault | None, at: int) -> FaultyVolumesWorld:
    world = FaultyVolumesWorld()
    await built(world)
    watch = ReplaceWatch(world)
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at
    test_replacing.name(world, ONE)
    await world.change(storage=BOTH)
    for _ in range(2):  # one of the operator's lives ends by the fault
        await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE]
    return world


@pytest.mark.simulation
async def test_the_new_volume_takes_as_many_changes_of_objects_as_are_tried() -> None:
    world = await changed(None, 0)
    assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX


@pytest.mark.simulation
@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_ends_in_one_new_volume(at: int, fault: CallFault) -> None:
    world = await changed(fault, at)
    assert (await volumes(world))[ONE] == ("512Mi", SLOW)
    assert (await volumes(world))[OTHER] == ("1Gi", CLASS)
    assert await volume_world.kept_sets(world) == []
    await test_replacing.is_well(world)
