"""A name does not say whose something is: only what is shown to be its own is touched."""

from typing import Final

import pytest

from tests.operator.resources import SPACE
from tests.operator.worlds import World
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    EVENTS,
    FINALIZER,
    INSTANCE_LABEL,
    PODS,
    STATEFUL_SETS,
    Json,
    KubernetesError,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy

ELSEWHERE = "zk://zookeeper:2181/mistyped/ledgers"


async def names(world: World, kind: ObjectKind) -> list[str]:
    return [item["metadata"]["name"] for item in await world.kubernetes.list(kind, SPACE)]


async def reasons(world: World) -> set[str]:
    return {item["reason"] for item in await world.kubernetes.list(EVENTS, SPACE)}


async def retained() -> World:
    """Give what is left of a cluster that was deleted under ``Retain``: volumes and root."""
    world = World()
    await world.settle()
    await world.write_ledger()
    world.delete()
    await world.controllers()
    assert len(await names(world, CLAIMS)) == 6
    return world


async def somebody_elses_root(world: World) -> None:
    store = await world.open(ELSEWHERE)
    cluster = await clusters.initialise(store, "0d6e3a1e-0000-4000-8000-000000000001")
    rules = PlacementRules(zones=(ZoneName("a"), ZoneName("b")))
    theirs = Policy(placement=rules, owner="operator/logs/first")
    await policy_store.write(cluster, theirs, replaces=0)
    await store.close()


def cut_off(world: World) -> None:
    """Let the metadata store be out of reach."""

    async def nobody(address: str) -> MetadataStore:
        raise StoreUnavailableError("nobody answers", store=address)

    world.open = nobody  # type: ignore[method-assign] # the world's network, not a class of ours


@pytest.mark.parametrize("labelled", [True, False])
async def test_volumes_that_an_earlier_resource_left_outlive_one_that_was_never_built(
    *, labelled: bool
) -> None:
    world = await retained()
    if not labelled:
        await world.unmark_claims()
    await somebody_elses_root(world)
    await world.make_again(onDelete="Delete", metadata={"uri": ELSEWHERE})
    await world.settle()

    world.delete()
    await world.settle()

    assert await names(world, BOOKIE_CLUSTERS) == []
    assert len(await names(world, CLAIMS)) == 6
    assert "VolumesKept" in await reasons(world)


async def test_volumes_that_were_left_outlive_a_resource_that_never_reached_its_store() -> None:
    world = await retained()
    await world.make_again(onDelete="Delete")
    cut_off(world)
    world.reconciler = world.new_operator()
    await world.settle()

    world.delete()
    await world.settle()

    assert len(await names(world, CLAIMS)) == 6


@pytest.mark.parametrize("labelled", [True, False])
async def test_volumes_that_were_left_outlive_a_cluster_that_was_built_at_another_root(
    *, labelled: bool
) -> None:
    world = await retained()
    if not labelled:
        await world.unmark_claims()
    await world.make_again(onDelete="Delete", metadata={"uri": ELSEWHERE})
    await world.settle()
    assert (await world.conditions())["Ready"] == ("False", "CrashLoop")

    world.delete()
    await world.settle()

    assert await names(world, BOOKIE_CLUSTERS) == []
    assert len(await names(world, CLAIMS)) == 6


async def test_the_same_cluster_made_again_removes_the_volumes_that_are_its_own() -> None:
    world = await retained()
    await world.make_again(onDelete="Delete")
    await world.settle()

    world.delete()
    await world.settle()

    assert await names(world, CLAIMS) == []
    assert await world.nodes_in_store() == []


async def test_a_root_that_an_earlier_resource_left_outlives_one_that_was_never_built() -> None:
    world = await retained()
    before = await world.nodes_in_store()
    await world.make_again(onDelete="Delete")
    item = await world.get()
    item["metadata"] |= {"finalizers": ["zonekeeper.io/operator"]}
    world.kubernetes.put(BOOKIE_CLUSTERS, item)

    world.delete()
    await world.settle()

    assert await names(world, BOOKIE_CLUSTERS) == []
    assert await world.nodes_in_store() == before
    assert {"RootKept", "VolumesKept"} <= await reasons(world)


@pytest.mark.parametrize("is_down", [True, False])
async def test_a_root_outlives_the_same_manifest_in_another_kubernetes_cluster(
    *, is_down: bool
) -> None:
    """While the first is down no bookie is registered: its cookies, and no volumes here, tell."""
    first, second = World(), World(onDelete="Delete")
    second.server = first.server
    await first.settle()
    if is_down:
        await first.end_sessions(set(first.registered))
    before = await first.nodes_in_store()

    await second.settle()
    assert (await second.conditions())["MetadataReady"] == ("False", "RootInUse")
    assert await names(second, STATEFUL_SETS) == []
    second.delete()
    await second.settle()

    assert await names(second, BOOKIE_CLUSTERS) == []
    assert await first.nodes_in_store() == before


async def test_a_cluster_made_again_waits_until_the_sessions_before_have_ended() -> None:
    world = World()
    await world.settle()
    before = (await world.get())["status"]["instance"]
    world.sessions_linger = True
    world.delete()
    await world.controllers()

    await world.make_again()
    await world.settle()
    assert (await world.conditions())["MetadataReady"] == ("False", "RootInUse")
    assert await names(world, STATEFUL_SETS) == []
    await world.end_sessions({"log-a-0", "log-b-1"})
    await world.settle()
    assert (await world.conditions())["MetadataReady"] == ("False", "RootInUse")
    assert [item["reason"] for item in await world.kubernetes.list(EVENTS, SPACE)].count(
        "RootInUse"
    ) == 1

    world.sessions_linger = False
    await world.settle()
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    assert (await world.get())["status"]["instance"] == before


async def test_claims_made_before_there_was_a_label_get_it_from_the_bookies_that_serve() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    await world.unmark_claims()

    await world.settle()

    instance = (await world.get())["status"]["instance"]
    labels = [item["metadata"]["labels"] for item in await world.kubernetes.list(CLAIMS, SPACE)]
    assert [found[INSTANCE_LABEL] for found in labels] == [instance] * 6
    world.delete()
    await world.settle()
    assert await names(world, CLAIMS) == []


@pytest.mark.parametrize("change", [{"policy": {"quorums": {"ack": 4}}}, {"bookiesPerZone": 1}])
async def test_claims_get_their_label_though_nothing_can_be_built_any_more(
    change: dict[str, object],
) -> None:
    world = World(onDelete="Delete")
    await world.settle()
    await world.write_ledger()
    await world.unmark_claims()
    await world.change(**change)

    await world.settle()
    assert (await world.conditions())["Legal"][0] == "False"
    world.delete()
    await world.settle()

    assert await names(world, CLAIMS) == []
    assert await world.nodes_in_store() == []


async def test_a_cluster_that_is_deleted_before_its_claims_had_a_label_goes_whole() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    await world.unmark_claims()

    world.delete()
    await world.settle()

    assert await names(world, CLAIMS) == []
    assert await world.nodes_in_store() == []


async def test_a_removal_that_may_not_label_claims_waits_and_can_be_let_go() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    await world.unmark_claims()

    def refuse(verb: str, kind: ObjectKind) -> None:
        if (verb, kind) == ("apply", CLAIMS):
            raise NotPermittedError(403, "persistentvolumeclaims is forbidden")

    world.fate = refuse
    world.delete()
    await world.settle()
    assert "persistentvolumeclaims is forbidden" in await world.message("Applied")
    assert "volumes are being marked" in await world.message("Released")
    assert len(await names(world, STATEFUL_SETS)) == 3

    await world.change(onDelete="Retain")
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == []
    assert len(await names(world, CLAIMS)) == 6


async def test_the_claim_templates_of_a_set_that_stands_are_left_as_they_are() -> None:
    world = World()
    await world.settle()
    await world.unmark_claims()
    before = await templates(world)

    await world.change(image="zonekeeper:0.2.0")
    await world.settle()

    assert await templates(world) == before
    sets = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    images = {item["spec"]["template"]["spec"]["containers"][0]["image"] for item in sets}
    assert images == {"zonekeeper:0.2.0"}


async def templates(world: World) -> list[Json]:
    sets = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    return [item["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"] for item in sets]


def held_by_a_backup(world: World, item: Json) -> None:
    """Let the finalizer be on the resource as a person put it there who restored a backup."""
    item["metadata"]["finalizers"] = ["somebody/else", FINALIZER]
    world.kubernetes.put(BOOKIE_CLUSTERS, item)


async def test_a_finalizer_that_came_with_a_manifest_goes_where_nothing_is_to_be_removed() -> None:
    world = World()
    held_by_a_backup(world, await world.get())

    await world.settle()

    assert (await world.get())["metadata"]["finalizers"] == ["somebody/else"]
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_a_removal_ends_though_somebody_else_put_the_finalizer_on_too() -> None:
    world = World(onDelete="Delete")
    held_by_a_backup(world, await world.get())
    await world.settle()
    assert FINALIZER in (await world.get())["metadata"]["finalizers"]

    world.delete()
    await world.settle()

    assert (await world.get())["metadata"]["finalizers"] == ["somebody/else"]
    assert await names(world, CLAIMS) == []


async def test_a_release_that_was_decided_on_an_old_look_is_refused() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    old = await world.get()
    held_by_a_backup(world, await world.get())

    with pytest.raises(KubernetesError):
        await world.kubernetes.release(BOOKIE_CLUSTERS, old)

    assert (await world.get())["metadata"]["finalizers"] == ["somebody/else", FINALIZER]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"bookiesPerZone": 1},
            "spec.bookiesPerZone: 1: the root has cookies of log-a-1, and no pod would run them, "
            "so that their data would be lost: set it to 2 or more, or empty and forget each of "
            "them, for example with: zonekeeper bookies decommission log-a-1",
        ),
        (
            {"zones": [{"name": "a"}, {"name": "b"}, {"name": "d"}]},
            "spec.zones: the root has cookies of log-c-0, log-c-1, and their zone is not named",
        ),
    ],
)
async def test_a_cluster_made_again_may_not_leave_out_bookies_that_have_cookies(
    spec: dict[str, object], words: str
) -> None:
    world = await retained()
    await world.make_again(**spec)

    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert words in await world.message("Legal")
    assert await names(world, STATEFUL_SETS) == []


async def test_what_is_not_legal_does_not_become_so_when_nobody_sees_the_root() -> None:
    world = await retained()
    await world.make_again(bookiesPerZone=1, onDelete="Delete")
    await world.settle()
    assert (await world.conditions())["Legal"] == ("False", "Blocked")

    cut_off(world)
    world.reconciler = world.new_operator()
    await world.settle()

    assert (await world.conditions())["Legal"] == ("Unknown", "NotSeen")
    assert (await world.get())["metadata"]["finalizers"] == []


async def test_a_cluster_made_again_that_may_not_be_built_leaves_all_that_was_retained() -> None:
    world = await retained()
    before = await world.nodes_in_store()
    await world.make_again(bookiesPerZone=1, onDelete="Delete")
    await world.settle()
    item = await world.get()
    item["metadata"]["finalizers"] = [FINALIZER]
    world.kubernetes.put(BOOKIE_CLUSTERS, item)

    world.delete()
    await world.settle()

    assert await names(world, BOOKIE_CLUSTERS) == []
    assert len(await names(world, CLAIMS)) == 6
    assert await world.nodes_in_store() == before


async def test_bookies_that_somebody_added_for_a_while_are_named_with_a_way_out() -> None:
    world = World()
    await world.settle()
    for count in (4, 2):
        if count == 2:
            await world.write_ledger()
        found = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-a")
        assert found is not None
        spec = found["spec"] | {"replicas": count}
        world.kubernetes.put(STATEFUL_SETS, found | {"spec": spec})
        await world.controllers()

    await world.settle()
    assert await world.message("Legal") == (
        "spec.bookiesPerZone: 2: the root has cookies of log-a-2, log-a-3, and no pod would run "
        "them, so that their data would be lost: set it to 4 or more, or empty and forget each of "
        "them, for example with: zonekeeper bookies decommission log-a-3\n"
        "until this is corrected, the cluster is kept as the last legal spec asked for it"
    )

    await world.forget("log-a-2", "log-a-3")
    await world.settle()
    assert (await world.conditions())["Legal"] == ("True", "LegalWithWarnings")


async def test_a_cluster_made_again_with_more_bookies_has_the_old_and_the_new() -> None:
    world = await retained()
    await world.make_again(bookiesPerZone=3)

    await world.settle()

    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    assert (await world.get())["status"]["bookies"] == 9


COPIED: Final = {"zonekeeper.io/cluster": "log", "zonekeeper.io/zone": "a"}


@pytest.mark.parametrize("name", ["log-a-0-debug", "copy-9", "log-a-7"])
async def test_a_pod_that_somebody_copied_with_its_labels_is_no_bookie(name: str) -> None:
    world = World()
    await world.settle()
    found = await world.kubernetes.get(PODS, SPACE, "log-a-1")
    assert found is not None
    found["status"]["conditions"] = []
    world.kubernetes.put(PODS, found)
    world.put_pod(name, COPIED, node="node-a")

    await world.settle()

    assert (await world.conditions())["Ready"] == ("False", "BookiesNotReady")
    assert await world.message("Ready") == "zone a: 1 of 2"


async def test_a_pod_that_somebody_copied_does_not_keep_a_deletion_waiting() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    world.put_pod("log-a-0-debug", COPIED, node="node-a")
    copy = await world.kubernetes.get(PODS, SPACE, "log-a-0-debug")
    assert copy is not None
    world.kubernetes.put(PODS, {**copy, "metadata": copy["metadata"] | {"finalizers": ["a/b"]}})

    world.delete()
    await world.settle()

    assert await names(world, BOOKIE_CLUSTERS) == []
