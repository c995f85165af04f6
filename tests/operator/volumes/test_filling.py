"""Volumes that fill grow by themselves: one claim at a time is told, once an hour, up to a size."""

import pytest

from tests.operator import resources
from tests.operator.resources import SPACE
from tests.operator.roll import rolling_world
from tests.operator.volumes import volume_world
from tests.operator.volumes.filling_world import (
    CLAIM,
    FULL,
    GROW,
    FillingWorld,
    built,
)
from tests.operator.volumes.test_growth import refusing
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    STATEFUL_SETS,
    Json,
    KubernetesError,
)
from zonekeeper.operator.plan.volumes.filling import REST_MS
from zonekeeper.operator.run import preflighting
from zonekeeper.operator.sight.room_sight import READ_EVERY_MS

OTHER = "log-a-0"
#: More than ``at`` of a volume of 1Gi.
MUCH = 830


async def reason(world: FillingWorld) -> tuple[str, str]:
    return (await world.conditions())["VolumesReady"]


async def is_well(world: FillingWorld) -> None:
    assert resources.statuses(await world.conditions()) == {"True"}
    before = await world.picture()
    for _ in range(3):
        await world.turn()
    assert await world.picture() == before, "at rest no write"


def changed(world: FillingWorld, claim: str, **fields: Json) -> None:
    """Change fields of a claim as another manager does; labels are added."""
    found = world.kubernetes.peek(CLAIMS, SPACE, claim)
    assert found is not None
    for name, values in fields.items():
        labels = {**found[name].get("labels", {}), **values.get("labels", {})}
        found[name] |= values | ({"labels": labels} if labels else {})
    world.kubernetes.put(CLAIMS, found)


async def test_a_volume_that_fills_grows_alone_and_no_pod_or_set_is_touched() -> None:
    world = await built()
    pods = await rolling_world.uids(world)
    sets = await world.kubernetes.list(STATEFUL_SETS, SPACE)

    await world.fill(FULL, MUCH)
    await world.settle()

    assert await world.size() == "1229Mi", "1.2 * 1024 MiB, rounded up"
    assert await world.others() == {"1Gi"}
    assert await volume_world.templates(world) == {"1Gi"}
    assert await rolling_world.uids(world) == pods
    assert await world.kubernetes.list(STATEFUL_SETS, SPACE) == sets
    (noted,) = (await world.growing())["claims"]
    assert (noted["name"], noted["size"]) == (CLAIM, "1229Mi")
    await is_well(world)


@pytest.mark.parametrize(("mebibytes", "grows"), [(512, False), (513, True)])
async def test_it_grows_once_more_than_the_share_is_used(mebibytes: int, *, grows: bool) -> None:
    world = await built(heal={"grow": {"at": "50%", "max": "2Gi"}})
    await world.fill(FULL, mebibytes)
    await world.settle()
    assert (await world.size() != "1Gi") is grows


async def test_the_shares_of_the_resource_count() -> None:
    world = await built(heal={"grow": {"at": "50%", "by": "100%", "max": "4Gi"}})
    await world.fill(FULL, 513)
    await world.settle()
    assert await world.size() == "2048Mi"


@pytest.mark.parametrize("heal", [{}, {"grow": {}}, {"grow": {"at": "10%", "by": "50%"}}])
async def test_without_a_largest_size_nothing_grows_and_no_room_is_read(heal: Json) -> None:
    world = await built(heal=heal)
    await world.fill(FULL, 1_020)
    await world.settle()
    assert await volume_world.sizes(world) == dict.fromkeys(
        sorted(await volume_world.sizes(world)), "1Gi"
    )
    seen, _ = await world.look()
    assert seen.rooms.read_ms is None
    await is_well(world)


async def test_all_that_are_too_full_grow_together_and_then_none_for_an_hour() -> None:
    world = await built()
    await world.fill(OTHER, MUCH)
    await world.fill(FULL, MUCH)
    await world.settle()
    assert (await world.size(), await world.size(f"data-{OTHER}")) == ("1229Mi", "1229Mi")

    world.now_ms += REST_MS // 2
    await world.fill(FULL, 1_100)
    await world.fill("log-c-0", MUCH)
    await world.settle()
    assert await world.size("data-log-c-0") == "1Gi"
    assert await reason(world) == ("False", "GrowthWaits")
    told = await world.message("VolumesReady")
    assert f"{CLAIM} is used by 89.5%, more than spec.heal.grow.at: it grows later" in told
    assert "data-log-c-0 is used by 81.1%" in told
    assert (await world.conditions())["Ready"][0] == "True", "the bookies serve"

    world.now_ms += REST_MS // 2
    await world.settle()
    assert (await world.size(), await world.size("data-log-c-0")) == ("1475Mi", "1229Mi")
    await is_well(world)


async def test_the_last_step_ends_at_the_largest_size_and_then_a_person_is_told() -> None:
    world = await built(heal={"grow": {"by": "60%", "max": "1500Mi"}})
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1500Mi"

    world.now_ms += REST_MS
    await world.fill(FULL, 1_450)
    await world.settle()
    assert await world.size() == "1500Mi"
    assert await reason(world) == ("False", "GrowthWaits")
    assert "it has spec.heal.grow.max (1500Mi) already" in await world.message("VolumesReady")

    await world.change(heal={"grow": {"by": "60%", "max": "1Ti"}})
    await world.settle()
    assert await world.size() == "2400Mi"
    await is_well(world)


async def test_an_edit_of_all_sizes_goes_before_the_growth_of_one() -> None:
    world = await built(heal={"grow": {"max": "4Gi"}})
    await world.fill(FULL, MUCH)
    await world.change(storage={"size": "2Gi"})
    for _ in range(3):
        await world.turn()
        assert await world.size() in ("1Gi", "2Gi")
    await world.settle()
    assert await world.size() == "2Gi"
    await is_well(world)


async def test_a_volume_that_still_grows_does_not_grow_again_after_the_hour() -> None:
    world = await built()
    world.expands = False
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await reason(world) == ("False", "VolumesGrowing")
    assert f"have not grown yet: {CLAIM}" in await world.message("VolumesReady")

    world.now_ms += REST_MS
    await world.fill(OTHER, MUCH)
    await world.settle()
    assert await world.size() == "1229Mi"
    assert await world.size(f"data-{OTHER}") == "1229Mi", "it keeps no other from growing"

    world.expands = True
    await world.settle()
    await is_well(world)


async def test_a_claim_that_is_refused_is_told_again_and_keeps_no_other_from_growing() -> None:
    world = await built()
    tried = 0

    def first_fails(verb: str, kind: object) -> None:
        nonlocal tried
        if (verb, kind) == ("apply", CLAIMS):
            tried += 1
            if tried == 1:
                raise KubernetesError(403, "exceeded quota")

    world.fate = first_fails
    await world.fill(OTHER, MUCH)
    await world.fill(FULL, MUCH)
    while not tried:
        await world.turn()
    assert sorted((await volume_world.sizes(world)).values()) == ["1229Mi", *["1Gi"] * 5]
    at_ms = (await world.growing())["atMs"]

    await world.settle()
    assert (await world.size(), await world.size(f"data-{OTHER}")) == ("1229Mi", "1229Mi")
    assert (await world.growing())["atMs"] == at_ms
    await is_well(world)


async def test_a_note_tells_no_claim_that_is_another_one_or_beyond_a_smaller_largest_size() -> None:
    world = await built()
    world.fate = refusing("apply", CLAIMS, KubernetesError(403, "exceeded quota"))
    await world.fill(FULL, MUCH)
    await world.settle()
    assert "exceeded quota" in await world.message("Applied")
    world.fate = lambda verb, kind: None

    await world.change(heal={"grow": {"max": "1100Mi"}})
    await world.settle()
    assert await world.size() == "1Gi"

    await world.change(heal=GROW)
    changed(world, CLAIM, metadata={"uid": "another"})
    await world.settle()
    assert await world.size() == "1Gi"


@pytest.mark.parametrize("back_ms", [REST_MS, 1_000 * REST_MS])
async def test_a_clock_that_goes_back_holds_growth_for_an_hour_at_most(back_ms: int) -> None:
    world = await built()
    await world.fill(FULL, MUCH)
    await world.settle()
    found = await world.get()
    found["status"]["growing"]["atMs"] += back_ms
    world.kubernetes.put(BOOKIE_CLUSTERS, found)

    await world.fill(FULL, 1_100)
    await world.settle()
    assert await world.size() == "1229Mi"
    world.now_ms += REST_MS
    await world.settle()
    assert await world.size() == "1475Mi"


async def test_switched_off_and_on_again_the_hour_counts_still() -> None:
    world = await built()
    await world.fill(FULL, MUCH)
    await world.settle()
    await world.change(heal={})
    await world.settle()
    await world.change(heal=GROW)
    await world.fill(FULL, 1_100)
    await world.settle()
    assert await world.size() == "1229Mi"

    await world.change(heal={})
    world.now_ms += REST_MS
    await world.settle()
    assert await world.growing() == {}, "an old note is of no use"


async def test_notes_that_cannot_be_read_are_no_notes() -> None:
    world = await built()
    found = await world.get()
    found["status"]["growing"] = {"atMs": None, "claims": [{}]}
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1229Mi"


async def test_a_room_that_was_said_before_a_person_made_volumes_larger_counts_for_what_it_is() -> (
    None
):
    world = await built()
    await world.fill(FULL, 815)
    await world.settle()
    world.publishes = False
    world.held[FULL] = MUCH
    await world.publish()
    await world.change(storage={"size": "2Gi"}, heal={"grow": {"max": "4Gi"}})
    world.now_ms += READ_EVERY_MS
    await world.settle()
    assert await world.size() == "2Gi"


async def test_a_journal_volume_does_not_grow_by_itself() -> None:
    world = await built(storage={"size": "1Gi", "journal": {"size": "512Mi"}})
    await world.fill(FULL, MUCH)
    await world.settle()
    assert await world.size() == "1229Mi"
    assert await world.size(f"journal-{FULL}") == "512Mi"


async def test_a_larger_template_goes_before_and_a_grown_claim_stays_beside_it() -> None:
    world = await built()
    await world.fill(FULL, MUCH)
    await world.settle()

    await world.change(storage={"size": "1100Mi"})
    await world.settle()
    assert await world.size() == "1229Mi"
    assert await world.others() == {"1100Mi"}
    assert await volume_world.templates(world) == {"1100Mi"}
    await is_well(world)


async def test_a_new_bookie_has_the_size_of_the_template() -> None:
    world = await built()
    await world.fill(FULL, MUCH)
    await world.settle()
    await world.change(bookiesPerZone=3)
    await world.settle()
    assert len(await volume_world.sizes(world)) == 9
    assert (await world.size(), await world.others()) == ("1229Mi", {"1Gi"})
    await is_well(world)


async def test_a_driver_that_gives_more_than_was_asked_for_counts_with_what_it_gives() -> None:
    world = await built()
    changed(world, CLAIM, status={"capacity": {"storage": "1200Mi"}})
    world.expands = False
    await world.fill(FULL, 1_000)
    await world.settle()
    assert await world.size() == "1440Mi"


async def test_the_plan_names_what_would_grow_and_what_does_not() -> None:
    world = await built()
    changed(world, f"data-{OTHER}", spec={"storageClassName": "other"})
    await world.fill(OTHER, MUCH)
    await world.fill(FULL, MUCH)

    plan = await preflighting.look(world.kubernetes, world.open_for_operator, await world.get())

    told = {one.name: one for one in plan.changes}
    assert told[CLAIM].what == "grown by itself"
    assert told[CLAIM].fields == (("spec.resources.requests.storage", "1Gi", "1229Mi"),)
    (stopped,) = plan.full
    assert stopped.startswith(f"data-{OTHER} is used by 81.1%")
    assert "storage class other does not let its volumes grow" in stopped
