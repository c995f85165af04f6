"""A changed template reaches the bookies: the canary first, unit by unit, one away at a time."""

from tests.operator import resources
from tests.operator.resources import SPACE
from tests.operator.roll import rolling_world
from tests.operator.roll.rolling_world import NEW, OLD, THIRD, UnitsAway
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    DEPLOYMENTS,
    EVENTS,
    PODS,
    STATEFUL_SETS,
)


async def built(**spec: object) -> World:
    world = World(None, image=OLD, **spec)
    await world.settle()
    return world


async def test_a_new_image_reaches_every_bookie_unit_by_unit_the_canary_first() -> None:
    world = await built(bookiesPerZone=4)
    before = await rolling_world.uids(world)
    watched = UnitsAway(world)

    await world.change(image=NEW)
    await world.settle(after_turn=watched.look)

    assert [sorted(one) for one in watched.seen] == [
        ["log-a-0"],
        ["log-a-3"],
        ["log-a-1"],
        ["log-a-2"],
        *(
            names
            for zone in "bc"
            for names in (
                [f"log-{zone}-0", f"log-{zone}-3"],
                [f"log-{zone}-1"],
                [f"log-{zone}-2"],
            )
        ),
    ]
    assert not set(before.values()) & set((await rolling_world.uids(world)).values())
    assert set((await rolling_world.images(world)).values()) == {NEW}
    assert resources.statuses(await world.conditions()) == {"True"}
    assert await rolling_world.declared(world) == []
    found = await rolling_world.roll(world)
    assert (found["phase"], found["updated"], found["total"]) == ("Settled", 12, 12)


async def test_a_zone_and_the_deployments_keep_the_old_template_until_the_roll_is_there() -> None:
    world = await built()
    seen: list[tuple[str, ...]] = []

    async def look() -> None:
        deployments = await world.kubernetes.list(DEPLOYMENTS, SPACE)
        told = [
            *(await rolling_world.templates(world)).values(),
            *sorted({d["spec"]["template"]["spec"]["containers"][0]["image"] for d in deployments}),
        ]
        if seen[-1:] != [tuple(told)]:
            seen.append(tuple(told))

    await world.change(image=NEW)
    await world.settle(after_turn=look)

    assert seen == [
        (OLD, OLD, OLD, OLD),
        (NEW, OLD, OLD, OLD),
        (NEW, NEW, OLD, OLD),
        (NEW, NEW, NEW, OLD),
        (NEW, NEW, NEW, NEW),
    ]


async def test_replicas_change_apart_from_the_template() -> None:
    world = await built(update={"paused": True})

    await world.change(image=NEW, bookiesPerZone=3)
    await world.settle()

    assert len(await rolling_world.bookies(world)) == 9
    assert set((await rolling_world.images(world)).values()) == {OLD}
    assert await rolling_world.gates(world) == ["paused"]


async def test_a_pod_that_is_made_elsewhere_gets_the_template_of_its_zone_also_while_halted() -> (
    None
):
    world = await built()
    world.broken.add(NEW)
    await world.change(image=NEW)
    await world.settle()
    assert (await world.conditions())["Rolling"] == ("False", "Halted")

    world.kubernetes.mark_deleted(PODS, SPACE, "log-c-1")
    world.reconciler = world.new_operator()
    await world.settle()

    assert await rolling_world.images(world) == {
        "log-a-0": NEW,
        "log-a-1": OLD,
        "log-b-0": OLD,
        "log-b-1": OLD,
        "log-c-0": OLD,
        "log-c-1": OLD,
    }


async def test_a_broken_canary_halts_the_roll_with_its_last_words_and_the_old_spec_heals_it() -> (
    None
):
    world = await built()
    before = await rolling_world.uids(world)
    world.broken.add(NEW)

    await world.change(image=NEW)
    await world.settle()

    assert (await world.conditions())["Rolling"] == ("False", "Halted")
    message = await world.message("Rolling")
    assert message.startswith("log-a-0: CrashLoop: ")
    assert "the disk has format 9" in message
    assert await rolling_world.declared(world) == []
    after = await rolling_world.uids(world)
    assert [name for name in before if after[name] != before[name]] == ["log-a-0"]
    assert (await rolling_world.roll(world))["phase"] == "Halted"

    await world.change(image=OLD)
    await world.settle()

    healed = await rolling_world.uids(world)
    assert [name for name in before if healed[name] != before[name]] == ["log-a-0"]
    assert set((await rolling_world.images(world)).values()) == {OLD}
    assert resources.statuses(await world.conditions()) == {"True"}
    assert await rolling_world.declared(world) == []


async def test_a_canary_that_becomes_well_after_all_lets_the_roll_go_on() -> None:
    world = await built()
    world.broken.add(NEW)
    await world.change(image=NEW)
    await world.settle()

    world.broken.clear()
    world.kubernetes.mark_deleted(PODS, SPACE, "log-a-0")
    await world.settle()

    assert set((await rolling_world.images(world)).values()) == {NEW}
    assert (await rolling_world.roll(world))["phase"] == "Settled"


async def test_a_step_whose_bookie_says_nothing_halts_at_its_deadline() -> None:
    world = await built(update={"bake": "0s", "deadline": "10s"})
    await world.change(image=NEW)
    await until_step(world)
    world.kubernetes.mark_deleted(STATEFUL_SETS, SPACE, "log-c")  # to no avail: another zone

    for _ in range(60):
        await world.turn()

    found = await rolling_world.roll(world)
    assert found["phase"] == "Halted"
    assert found["step"]["halt"] == {
        "pod": "log-a-0",
        "words": "is not well within spec.update.deadline (10s): its pod is being made anew",
    }


async def until_step(world: World) -> None:
    """Let all work until the first pod of a roll is deleted, and is not there again."""
    before = await rolling_world.uids(world)
    for _ in range(30):
        await world.turn()
        if len(await rolling_world.uids(world)) < len(before):
            return
        await world.controllers()
    raise AssertionError("no step has begun")


async def test_bookies_that_are_not_ready_are_rolled_first_and_do_not_stand_in_the_way() -> None:
    world = World(image=NEW)
    world.broken.add(NEW)
    await world.settle()
    assert (await world.conditions())["Ready"][0] == "False"

    await world.change(image=OLD)
    await world.settle()

    assert set((await rolling_world.images(world)).values()) == {OLD}
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_one_bookie_that_is_not_ready_goes_before_the_canary() -> None:
    world = await built()
    pod = (await rolling_world.bookies(world))["log-b-1"]
    world.kubernetes.put(PODS, pod | {"status": {}})
    await world.controllers()
    watched: list[set[str]] = []
    before = await rolling_world.uids(world)

    async def look() -> None:
        now = await rolling_world.uids(world)
        changed = {name for name in before if now.get(name) != before[name]}
        if changed and watched[-1:] != [changed]:
            watched.append(changed)

    await world.change(image=NEW)
    await world.settle(after_turn=look)

    first, second, *_ = watched
    assert first == {"log-b-1"}
    assert second == {"log-b-1", "log-b-0"}, "the roll finishes the zone that it was drawn to"
    assert set((await rolling_world.images(world)).values()) == {NEW}


async def test_changed_in_the_midst_no_bookie_gets_what_is_asked_for_no_longer() -> None:
    world = await built()
    await world.change(image=NEW)
    await until_step(world)
    await world.controllers()
    await world.change(image=THIRD)
    made: list[dict[str, str]] = []

    async def look() -> None:
        made.append(await rolling_world.images(world))

    await world.settle(after_turn=look)

    assert {name for one in made for name, image in one.items() if image == NEW} == {"log-a-0"}
    assert set((await rolling_world.images(world)).values()) == {THIRD}
    assert await rolling_world.declared(world) == []


async def test_changed_back_in_the_midst_bookies_that_were_not_touched_are_not_touched() -> None:
    world = await built()
    before = await rolling_world.uids(world)
    await world.change(image=NEW)
    await until_step(world)
    await world.controllers()

    await world.change(image=OLD)
    await world.settle()

    after = await rolling_world.uids(world)
    assert [name for name in before if after[name] != before[name]] == ["log-a-0"]
    assert set((await rolling_world.images(world)).values()) == {OLD}
    assert set((await rolling_world.templates(world)).values()) == {OLD}
    assert await rolling_world.declared(world) == []


async def test_a_restart_is_asked_for_by_an_annotation_and_taking_it_off_asks_for_none() -> None:
    world = await built()
    first = await rolling_world.uids(world)

    await rolling_world.annotate(world, restart="monday")
    await world.settle()
    second = await rolling_world.uids(world)
    assert not set(first.values()) & set(second.values())

    await rolling_world.annotate(world, restart=None)
    await world.settle()
    assert await rolling_world.uids(world) == second
    assert resources.statuses(await world.conditions()) == {"True"}

    await rolling_world.annotate(world, restart="tuesday")
    await world.settle()
    assert not set((await rolling_world.uids(world)).values()) & set(second.values())


async def test_an_operator_that_starts_in_the_midst_of_a_step_goes_on_with_it() -> None:
    world = await built(bookiesPerZone=4)
    await world.change(image=NEW)
    await until_step(world)

    world.reconciler = world.new_operator()
    watched = UnitsAway(world)
    await world.settle(after_turn=watched.look)

    assert set((await rolling_world.images(world)).values()) == {NEW}
    assert await rolling_world.declared(world) == []


async def test_a_step_whose_note_was_lost_is_waited_for_and_its_maintenance_ends() -> None:
    # The world's zone watch counts much time at once, and the time of the step must not be up.
    world = await built(update={"bake": "0s", "deadline": "1d"})
    await world.change(image=NEW)
    await until_step(world)
    item = await world.get()
    del item["status"]["roll"]
    world.kubernetes.put(BOOKIE_CLUSTERS, item)
    world.reconciler = world.new_operator()
    watched = UnitsAway(world)

    await world.settle(after_turn=watched.look)

    assert set((await rolling_world.images(world)).values()) == {NEW}
    assert await rolling_world.declared(world) == []


async def test_after_a_step_the_roll_rests_for_bake() -> None:
    world = await built(update={"bake": "1m"})
    await world.change(image=NEW)

    await world.settle()

    found = await rolling_world.images(world)
    assert [name for name, image in found.items() if image == NEW] == ["log-a-0"]
    assert await rolling_world.gates(world) == ["baking"]
    world.now_ms += 60_000
    await world.settle()
    assert len([1 for image in (await rolling_world.images(world)).values() if image == NEW]) == 2


async def test_while_paused_the_steps_are_shown_and_none_begins() -> None:
    world = await built(update={"paused": True})
    before = await rolling_world.uids(world)
    await world.change(image=NEW)

    await world.settle()

    found = await rolling_world.roll(world)
    assert found["phase"] == "Paused"
    assert found["plan"] == [
        "/a/ud-0: log-a-0, the canary",
        "/a/ud-1: log-a-1",
        "/b/ud-0: log-b-0",
        "/b/ud-1: log-b-1",
        "/c/ud-0: log-c-0",
        "/c/ud-1: log-c-1",
    ]
    assert await rolling_world.uids(world) == before


async def test_each_gate_that_is_waited_for_is_told_by_one_event() -> None:
    world = await built(update={"paused": True})
    await world.change(image=NEW)

    await world.settle()
    await world.settle()

    told = [item["reason"] for item in await world.kubernetes.list(EVENTS, SPACE)]
    assert told.count("paused") == 1


async def test_at_rest_the_operator_writes_nothing() -> None:
    world = await built()
    await world.change(image=NEW)
    await world.settle()
    written: list[str] = []
    world.fate = lambda verb, kind: (
        None if verb in ("get", "list") else written.append(f"{verb} {kind.plural}")
    )
    before = world.server.last_change_id - world.evaluated

    for _ in range(20):
        world.now_ms += 30_000
        await world.turn()
        await world.controllers()

    assert written == []
    assert world.server.last_change_id - world.evaluated == before
