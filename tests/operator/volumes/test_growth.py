"""Volumes grow where their class allows it: no pod is deleted, and nothing is done by halves."""

from collections.abc import Callable

import pytest

from tests.operator import resources
from tests.operator.resources import KEY, NAME, SPACE
from tests.operator.roll import rolling_world
from tests.operator.roll.rolling_world import NEW, OLD
from tests.operator.volumes import volume_world
from tests.operator.volumes.volume_world import CLASS, VolumeWorld
from zonekeeper.operator.cluster import kept_set
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    CONTROLLER_REVISIONS,
    LEFT_LABEL,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Json,
    KubernetesError,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.run import preflighting
from zonekeeper.placement.base.units import MINUTE_MS

BOOKIES = [f"{NAME}-{zone}-{ordinal}" for zone in "abc" for ordinal in (0, 1)]


async def built(**spec: object) -> VolumeWorld:
    world = VolumeWorld(None, **spec)
    await world.settle()
    return world


async def set_uids(world: VolumeWorld) -> dict[str, str]:
    found = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def refusing(verb: str, kind: ObjectKind, error: KubernetesError) -> Callable[..., None]:
    def refuse(called: str, on: ObjectKind) -> None:
        if (called, on) == (verb, kind):
            raise error

    return refuse


async def test_all_claims_grow_and_the_sets_are_made_again_around_their_pods() -> None:
    world = await built()
    pods, sets = await rolling_world.uids(world), await set_uids(world)

    await world.change(storage={"size": "2Gi"})
    await world.settle()

    assert await volume_world.sizes(world) == {f"data-{one}": "2Gi" for one in BOOKIES}
    assert await volume_world.templates(world) == {"2Gi"}
    assert await rolling_world.uids(world) == pods, "no pod was made anew"
    assert not set(sets.values()) & set((await set_uids(world)).values())
    assert await volume_world.kept_sets(world) == []
    assert (await world.get())["metadata"]["finalizers"] == []
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_journal_volume_grows_alone() -> None:
    world = await built(storage={"size": "1Gi", "journal": {"size": "512Mi"}})

    await world.change(storage={"size": "1Gi", "journal": {"size": "1Gi"}})
    await world.settle()

    assert set((await volume_world.sizes(world)).values()) == {"1Gi"}
    assert await volume_world.templates(world) == {"1Gi"}


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        ({"size": "256Mi"}, "spec.storage.journal.size: 256Mi: cannot become less"),
        ({"size": "512Mi", "className": "x"}, "spec.storage.journal.className: x: cannot change"),
    ],
)
async def test_a_journal_volume_keeps_its_class_and_does_not_shrink(
    journal: Json, words: str
) -> None:
    world = await built(storage={"size": "1Gi", "journal": {"size": "512Mi"}})
    await world.change(storage={"size": "1Gi", "journal": journal})
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert words in await world.message("Legal")
    assert "newVolumes" not in await world.message("Legal"), "there is no other way for a journal"


async def test_a_new_bookie_has_the_larger_volume() -> None:
    world = await built()
    await world.change(storage={"size": "2Gi"}, bookiesPerZone=3)
    await world.settle()

    assert len(await volume_world.sizes(world)) == 9
    assert set((await volume_world.sizes(world)).values()) == {"2Gi"}


async def test_the_claims_keep_the_label_by_which_they_go_with_their_cluster() -> None:
    world = await built(onDelete="Delete")
    await world.change(storage={"size": "2Gi"})
    await world.settle()

    world.delete()
    await world.settle()

    assert await world.kubernetes.list(CLAIMS, SPACE) == []


async def test_a_claim_that_gets_its_label_keeps_its_size() -> None:
    """An apply that does not name the size, or the label, any more would take it back."""
    world = await built()
    bodies = []
    apply = world.kubernetes.apply

    async def noted(kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        bodies.extend([body] if kind is CLAIMS else [])
        await apply(kind, body, subresource=subresource)

    world.kubernetes.apply = noted  # type: ignore[method-assign] # it listens only
    await world.change(storage={"size": "2Gi"})
    await world.settle()
    await world.unmark_claims()
    await world.settle()

    assert len(bodies) == 2 * len(BOOKIES)
    for body in bodies:
        assert body["spec"] == {"resources": {"requests": {"storage": "2Gi"}}}
        assert body["metadata"]["labels"]["zonekeeper.io/instance"]


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ({"size": "2Gi"}, f"storage class {CLASS} does not let its volumes grow"),
        ({"size": "1Gi", "className": "other"}, "spec.storage.className: other: cannot change"),
        ({"size": "512Mi"}, "no volume shrinks"),
    ],
)
async def test_what_cannot_be_is_refused_in_words_and_leaves_no_half_state(
    storage: Json, words: str
) -> None:
    world = await built()
    world.allow(growth=False)
    sets = await set_uids(world)

    await world.change(storage=storage)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert words in await world.message("Legal")
    assert set((await volume_world.sizes(world)).values()) == {"1Gi"}
    assert await set_uids(world) == sets

    world.allow(growth=True)
    await world.change(storage={"size": "1Gi"})
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_class_that_is_gone_or_may_not_be_read_lets_nothing_grow() -> None:
    world = await built()
    world.kubernetes.mark_deleted(STORAGE_CLASSES, "", CLASS)
    await world.change(storage={"size": "2Gi"})
    await world.settle()
    assert "or is gone: data-log-a-0, " in await world.message("Legal")

    world.allow(growth=True)
    world.fate = refusing("get", STORAGE_CLASSES, NotPermittedError(403, "forbidden"))
    await world.settle()
    assert "may grow was not read" in await world.message("Legal")
    assert set((await volume_world.sizes(world)).values()) == {"1Gi"}

    world.fate = lambda verb, kind: None
    await world.settle()
    assert await volume_world.templates(world) == {"2Gi"}


async def test_at_rest_no_storage_class_is_read() -> None:
    world = await built()
    world.fate = refusing("get", STORAGE_CLASSES, NotPermittedError(403, "forbidden"))
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_growth_that_has_begun_goes_on_when_its_class_changes() -> None:
    """The claims ask for it already; an edit of the class is no edit of the resource."""
    world = await built()
    await world.change(storage={"size": "2Gi"})
    for _ in range(4):
        await world.turn()
    world.allow(growth=False)
    await world.settle()

    assert (await world.conditions())["Legal"][0] == "True"
    assert await volume_world.templates(world) == {"2Gi"}


async def test_a_claim_that_cannot_grow_keeps_no_other_from_growing() -> None:
    world = await built()
    await world.change(storage={"size": "2Gi"})
    tried = 0

    def first_fails(verb: str, kind: ObjectKind) -> None:
        nonlocal tried
        if (verb, kind) == ("apply", CLAIMS):
            tried += 1
            if tried == 1:
                raise KubernetesError(403, "exceeded quota")

    world.fate = first_fails
    while not tried:
        await world.turn()
    asked = await volume_world.sizes(world)
    assert sorted(asked.values()) == ["1Gi", *["2Gi"] * 5], "in one turn"
    world.fate = refusing("apply", CLAIMS, KubernetesError(403, "exceeded quota"))
    await world.settle()

    asked = await volume_world.sizes(world)
    assert sorted(asked.values()) == ["1Gi", *["2Gi"] * 5]
    assert await volume_world.templates(world) == {"1Gi"}, "claims first"
    assert (await world.conditions())["VolumesReady"] == ("False", "VolumesGrowing")
    assert "exceeded quota" in await world.message("Applied")

    world.fate = lambda verb, kind: None
    await world.settle()
    assert await volume_world.templates(world) == {"2Gi"}


async def test_a_claim_that_is_larger_already_stays_as_it_is() -> None:
    world = await built()
    claim = await world.kubernetes.get(CLAIMS, SPACE, "data-log-a-0")
    assert claim is not None
    claim["spec"]["resources"]["requests"]["storage"] = "4Gi"
    world.kubernetes.put(CLAIMS, claim)

    await world.change(storage={"size": "2Gi"})
    await world.settle()

    asked = await volume_world.sizes(world)
    assert asked.pop("data-log-a-0") == "4Gi"
    assert set(asked.values()) == {"2Gi"}
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_claim_without_a_volume_grows_once_it_has_one() -> None:
    world = await built()
    claim = await world.kubernetes.get(CLAIMS, SPACE, "data-log-a-0")
    assert claim is not None
    world.kubernetes.put(CLAIMS, claim | {"status": {"phase": "Pending"}})
    world.expands = False

    await world.change(storage={"size": "2Gi"})
    for _ in range(20):
        await world.turn()
        await world.adopt()
    assert (await volume_world.sizes(world))["data-log-a-0"] == "1Gi"
    assert await volume_world.templates(world) == {"2Gi"}

    world.kubernetes.put(CLAIMS, claim)
    world.expands = True
    await world.settle()
    assert (await volume_world.sizes(world))["data-log-a-0"] == "2Gi"


async def test_a_claim_that_a_scale_down_left_behind_does_not_grow() -> None:
    """Nobody uses it, and its size says what its bookie had."""
    world = await built()
    claim = await world.kubernetes.get(CLAIMS, SPACE, "data-log-a-1")
    assert claim is not None
    labels = claim["metadata"]["labels"] | {LEFT_LABEL: "true"}
    left = {"name": "data-log-a-5", "uid": "left", "labels": labels}
    world.kubernetes.put(CLAIMS, claim | {"metadata": claim["metadata"] | left})

    await world.change(storage={"size": "2Gi"})
    await world.settle()

    asked = await volume_world.sizes(world)
    assert asked.pop("data-log-a-5") == "1Gi"
    assert set(asked.values()) == {"2Gi"}


async def test_of_several_that_are_kept_of_a_set_the_newest_is_made_again() -> None:
    world = await built()
    found = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-a")
    assert found is not None
    resource, uid = await world.get(), found["metadata"]["uid"]
    meta = {name: found["metadata"][name] for name in ("name", "namespace", "ownerReferences")}
    for number, domain in ((1, "older"), (2, "newest")):
        body = {"metadata": meta | {"annotations": {"kept": domain}}, "spec": found["spec"]}
        kept = kept_set.revision(resource, body, replaces=uid, number=number)
        kept["metadata"]["uid"] = domain
        world.kubernetes.put(CONTROLLER_REVISIONS, kept)
    world.kubernetes.mark_deleted(STATEFUL_SETS, SPACE, "log-a")
    for _ in range(2):  # the resource is held first
        await world.turn()

    again = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-a")
    assert again is not None
    assert again["metadata"]["annotations"]["kept"] == "newest"


async def test_volumes_that_have_not_grown_yet_are_named() -> None:
    world = await built()
    world.expands = False

    await world.change(storage={"size": "2Gi"})
    await world.settle()

    assert (await world.conditions())["VolumesReady"] == ("False", "VolumesGrowing")
    assert "have not grown yet: data-log-a-0, " in await world.message("VolumesReady")
    assert (await world.conditions())["Ready"][0] == "True", "the bookies serve"


async def test_pods_start_anew_by_the_roll_only_where_the_driver_wants_it() -> None:
    world = await built()
    world.needs_restart = True
    pods = await rolling_world.uids(world)
    watched = rolling_world.UnitsAway(world)
    await world.change(storage={"size": "2Gi"})
    await world.settle(after_turn=watched.look)
    assert await rolling_world.uids(world) == pods, "the kubelet has its time"
    assert "grow when their pods start anew" in await world.message("VolumesReady")

    world.now_ms += 3 * MINUTE_MS
    await world.settle(after_turn=watched.look)

    assert not set(pods.values()) & set((await rolling_world.uids(world)).values())
    assert {name for one in watched.seen for name in one} == set(BOOKIES)
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_pod_that_was_made_anew_for_its_volume_is_not_made_anew_again() -> None:
    world = await built()
    world.needs_restart, world.expands = True, False
    await world.change(storage={"size": "2Gi"})
    await world.settle()
    claim = await world.kubernetes.get(CLAIMS, SPACE, "data-log-a-0")
    assert claim is not None
    said = {"type": "FileSystemResizePending", "status": "True"}
    when = f"{world.wall():%Y-%m-%dT%H:%M:%SZ}"
    claim["status"]["conditions"] = [said | {"lastTransitionTime": when}]
    world.kubernetes.put(CLAIMS, claim)
    pods = await rolling_world.uids(world)

    world.now_ms += 3 * MINUTE_MS
    await world.settle()
    once = await rolling_world.uids(world)
    world.now_ms += 3 * MINUTE_MS
    await world.settle()

    assert [name for name in pods if once[name] != pods[name]] == ["log-a-0"]
    assert await rolling_world.uids(world) == once


async def test_a_zone_that_the_roll_has_not_reached_keeps_its_template() -> None:
    world = await built(image=OLD)
    await world.change(image=NEW, update={"paused": True}, storage={"size": "2Gi"})
    await world.settle()

    assert await volume_world.templates(world) == {"2Gi"}
    assert set((await rolling_world.templates(world)).values()) == {OLD}
    assert set((await rolling_world.images(world)).values()) == {OLD}

    await world.change(update={"bake": "0s"})
    await world.settle()
    assert set((await rolling_world.images(world)).values()) == {NEW}


async def test_no_set_is_made_again_while_a_step_of_the_roll_is_under_way() -> None:
    world = await built(image=OLD)
    world.broken.add(NEW)
    await world.change(image=NEW)
    await world.settle()
    assert "step" in await rolling_world.roll(world), "it has halted in the midst of one"
    sets = await set_uids(world)

    await world.change(image=NEW, storage={"size": "2Gi"})
    await world.settle()
    assert set((await volume_world.sizes(world)).values()) == {"2Gi"}
    assert await set_uids(world) == sets

    await world.change(image=OLD)
    await world.settle()
    assert await volume_world.templates(world) == {"2Gi"}


async def until_a_set_is_away(world: VolumeWorld) -> str:
    """Let the operator work until a StatefulSet is deleted alone; give its name."""
    for _ in range(100):
        before = set(await set_uids(world))
        await world.turn()
        if gone := before - set(await set_uids(world)):
            return gone.pop()
        await world.controllers()
    raise AssertionError("no StatefulSet is made again")


async def test_fewer_bookies_are_no_slip_while_their_set_is_away() -> None:
    """How many there were is known only from what is kept."""
    world = await built()
    await world.write_ledger()
    pods = await rolling_world.uids(world)
    await world.change(storage={"size": "2Gi"})
    name = await until_a_set_is_away(world)
    assert await volume_world.kept_sets(world) != []

    await world.change(bookiesPerZone=1)
    world.reconciler = world.new_operator()
    await world.turn()
    found = await world.kubernetes.get(STATEFUL_SETS, SPACE, name)
    assert found is not None
    assert found["spec"]["replicas"] == 2
    await world.settle()

    assert await rolling_world.uids(world) == pods, "nobody has emptied a bookie"


async def test_an_edit_that_is_refused_does_not_keep_a_set_from_coming_back() -> None:
    world = await built()
    await world.change(storage={"size": "2Gi"})
    name = await until_a_set_is_away(world)
    for item in await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE):
        if "spec" in item["data"]:
            world.kubernetes.mark_deleted(CONTROLLER_REVISIONS, SPACE, item["metadata"]["name"])

    await world.change(policy={"quorums": {"ack": 9}})
    await world.turn()

    assert name in await set_uids(world)


async def test_while_a_set_is_away_its_bookies_count_as_ready() -> None:
    world = await built()
    await world.change(storage={"size": "2Gi"})
    await until_a_set_is_away(world)

    plan = await world.plan()
    assert plan.status["readyBookies"] == 6
    told = {one["type"]: one["status"] for one in plan.status["conditions"]}
    assert (told["Ready"], told["UpToDate"], told["VolumesReady"]) == ("True", "True", "False")


@pytest.mark.parametrize("on_delete", ["Retain", "Delete"])
async def test_a_resource_that_is_deleted_while_a_set_is_away_leaves_no_pod(
    on_delete: str,
) -> None:
    world = await built(onDelete=on_delete)
    await world.change(storage={"size": "2Gi"})
    await until_a_set_is_away(world)

    world.delete()
    world.reconciler = world.new_operator()
    await world.settle()

    assert world.kubernetes.peek(BOOKIE_CLUSTERS, *_key()) is None
    assert await world.kubernetes.list(PODS, SPACE) == []


def _key() -> tuple[str, str]:
    return KEY.namespace, KEY.name


async def test_a_pause_stops_growth_and_says_what_is_away() -> None:
    world = await built()
    await world.change(paused=True, storage={"size": "2Gi"})
    await world.settle()
    assert set((await volume_world.sizes(world)).values()) == {"1Gi"}
    assert (await world.conditions())["VolumesReady"] == ("False", "VolumesGrowing")

    await world.change(paused=False)
    await world.settle()
    assert await volume_world.templates(world) == {"2Gi"}


async def test_the_plan_of_a_change_names_the_claims_and_the_sets() -> None:
    world = await built()
    item = await world.get()
    given = item | {"spec": item["spec"] | {"storage": {"size": "2Gi"}}}

    plan = await preflighting.look(world.kubernetes, world.open_for_operator, given)

    told = {(one.kind, one.name): one for one in plan.changes}
    grown = told["PersistentVolumeClaim", "data-log-a-0"]
    assert grown.fields == (("spec.resources.requests.storage", "1Gi", "2Gi"),)
    assert told["StatefulSet", "log-a"].what == "made again (its pods run on)"
    assert plan.steps == ()
