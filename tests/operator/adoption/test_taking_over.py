"""Bookies that run already are taken over by a person's word, and no pod is made anew."""

import pytest

from tests.operator.adoption import orphans
from tests.operator.resources import SPACE, URI
from zonekeeper.metadata.store.layout import Root
from zonekeeper.operator.kubernetes.api import (
    ADOPT,
    CLAIMS,
    CONTROLLER_REVISIONS,
    INSTANCE_LABEL,
    PODS,
    STATEFUL_SETS,
)
from zonekeeper.placement.base.ids import BookieId


async def test_without_a_word_it_is_blocked_and_the_message_names_the_way() -> None:
    world, instance = await orphans.orphaned()
    await orphans.again(world, None)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    told = await world.message("Legal")
    assert f"annotate this resource with {ADOPT}={instance}" in told
    assert "zonekeeper operator adopt" in told
    assert await orphans.controllers_of(world) == {"nobody"}


async def test_by_its_word_all_is_taken_over_and_no_pod_is_made_anew() -> None:
    world, instance = await orphans.orphaned()
    before = await orphans.uids(world)
    changes = world.server.last_change_id - world.evaluated
    await orphans.again(world, instance)
    await world.settle()

    assert await orphans.uids(world) == before
    assert await orphans.controllers_of(world) == {"uid-again"}
    said = await world.conditions()
    assert {kind: one[0] for kind, one in said.items() if kind != "Secure"} == dict.fromkeys(
        (kind for kind in said if kind != "Secure"), "True"
    )
    assert (await world.get())["status"]["instance"] == instance
    revisions = await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE)
    assert [one["metadata"]["ownerReferences"][0]["uid"] for one in revisions] == ["uid-again"]
    assert world.server.last_change_id - world.evaluated == changes, "the root is as it was"


async def test_a_difference_is_the_rolls_and_waits_for_its_gates() -> None:
    world, instance = await orphans.orphaned()
    before = await orphans.uids(world)
    await orphans.again(world, instance, image="zonekeeper:0.1.1", update={"paused": True})
    await world.settle()

    assert before.items() <= (await orphans.uids(world)).items()
    assert (await world.get())["status"]["roll"]["phase"] == "Paused"
    assert await orphans.controllers_of(world) == {"uid-again"}


async def test_sets_that_make_new_volumes_are_taken_over_as_they_were_asked_for() -> None:
    storage = {"size": "1Gi", "newVolumes": {"size": "512Mi", "className": "slow"}}
    world, instance = await orphans.orphaned(storage=storage)
    before = await orphans.uids(world)
    await orphans.again(world, instance, storage=storage)
    await world.settle()

    assert (await world.conditions())["Legal"][0] == "True"
    assert await orphans.uids(world) == before
    assert await orphans.controllers_of(world) == {"uid-again"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"storage": {"size": "2Gi"}}, "spec.storage: StatefulSet log-a was made with size 1Gi"),
        ({"storage": {"size": "1Gi", "className": "fast"}}, "spec.storage"),
        ({"storage": {"size": "1Gi", "journal": {"size": "1Gi"}}}, "for the volume journal"),
        ({"tls": {"mode": "Operator"}}, "spec.tls: the bookies of StatefulSet log-a"),
        ({"policy": {"placement": {"upgradeDomains": 4}}}, "upgradeDomains: 4: the bookies"),
        ({"zones": [{"name": "a"}, {"name": "b"}, {"name": "x"}]}, "log-c-0, log-c-1: name their"),
    ],
)
async def test_what_cannot_change_under_running_bookies_blocks_it(
    spec: dict[str, object], says: str
) -> None:
    world, instance = await orphans.orphaned()
    before = await orphans.uids(world)
    await orphans.again(world, instance, **spec)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert says in await world.message("Legal")
    assert await orphans.uids(world) == before
    assert await orphans.controllers_of(world) == {"nobody"}


async def test_fewer_bookies_than_run_are_taken_over_by_nobody() -> None:
    world, instance = await orphans.orphaned()
    await orphans.again(world, instance, bookiesPerZone=1)
    await world.write_ledger()
    await world.settle()

    assert "bookiesPerZone: 1" in await world.message("Legal")
    assert len([name for name in await orphans.uids(world) if name.startswith("log-a-")]) >= 2


async def test_the_word_of_another_instance_takes_nothing() -> None:
    world, instance = await orphans.orphaned()
    await orphans.again(world, "0d6e3a1e-0000-4000-8000-000000000009")
    await world.settle()

    assert f"is of instance {instance}" in await world.message("Legal")
    assert await orphans.controllers_of(world) == {"nobody"}


async def test_with_a_stranger_registered_nothing_is_taken() -> None:
    world, instance = await orphans.orphaned()
    store = await world.open(URI)
    await store.create(Root(store.root).writable(BookieId("stranger-0")), b"")
    await orphans.again(world, instance)
    await world.settle()

    assert "stranger-0" in await world.message("Legal")
    assert await orphans.controllers_of(world) == {"nobody"}
    await store.delete(Root(store.root).writable(BookieId("stranger-0")), version=None)
    await store.close()
    await world.settle()
    assert await orphans.controllers_of(world) == {"uid-again"}


async def test_while_the_store_is_away_nothing_is_taken() -> None:
    world, instance = await orphans.orphaned()
    world.is_cut_off = True
    await orphans.again(world, instance)
    await world.turn()

    assert "the root was not read" in await world.message("Legal")
    assert await orphans.controllers_of(world) == {"nobody"}


async def test_an_object_that_another_controls_is_never_touched() -> None:
    world, instance = await orphans.orphaned()
    item = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-b")
    assert item is not None
    owner = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o", "controller": True}
    world.kubernetes.put(
        STATEFUL_SETS, item | {"metadata": {**item["metadata"], "ownerReferences": [owner]}}
    )
    await orphans.again(world, instance)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    found = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-b")
    assert found is not None
    assert found["metadata"]["ownerReferences"] == [owner]


async def test_an_operator_that_dies_between_two_objects_is_followed_by_one_that_goes_on() -> None:
    world, instance = await orphans.orphaned()
    before = await orphans.uids(world)
    await orphans.again(world, instance)
    for calls in range(1, 9):
        left = [calls]

        def die(verb: str, kind: object, left: list[int] = left) -> None:
            if verb == "edit":
                left[0] -= 1
                if not left[0]:
                    raise RuntimeError("the process is dead")

        world.fate = die
        try:
            await world.turn()
        except RuntimeError:
            world.reconciler = world.new_operator()
    world.fate = lambda verb, kind: None
    await world.settle()

    assert await orphans.uids(world) == before
    assert await orphans.controllers_of(world) == {"uid-again"}
    assert (await world.conditions())["Ready"][0] == "True"


async def test_a_root_that_another_name_owned_is_taken_over_with_its_policy() -> None:
    world, instance = await orphans.orphaned()
    await orphans.own(world, "operator/elsewhere/log")
    await orphans.again(world, instance)
    await world.settle()

    assert (await world.conditions())["PolicyPublished"] == ("True", "Published")
    assert (await world.conditions())["Ready"][0] == "True"


async def test_a_root_that_another_name_owned_is_not_taken_without_bookies_that_show_it() -> None:
    world, instance = await orphans.orphaned()
    await orphans.own(world, "operator/elsewhere/log")
    await world.end_sessions(world.registered.keys())
    world.sessions_linger = True
    await orphans.again(world, instance)
    await world.turn()

    assert "start the bookies first" in await world.message("Legal")


async def test_a_root_whose_bookies_are_down_and_whose_volumes_are_elsewhere_is_not_taken() -> None:
    """The bookies of another Kubernetes cluster may be down, and these pods not theirs."""
    world, instance = await orphans.orphaned()
    for item in await world.kubernetes.list(CLAIMS, SPACE):
        item["metadata"]["labels"][INSTANCE_LABEL] = "another"
        world.kubernetes.put(CLAIMS, item)
    for item in await world.kubernetes.list(PODS, SPACE):
        not_ready = {"conditions": [{"type": "Ready", "status": "False"}]}
        world.kubernetes.put(PODS, item | {"status": not_ready})
    await world.end_sessions({*world.registered})

    await orphans.again(world, instance)
    await world.turn()

    told = await world.message("Legal")
    assert "bookies are in the root that are no pods of the StatefulSets" in told
    assert await orphans.controllers_of(world) == {"nobody"}
